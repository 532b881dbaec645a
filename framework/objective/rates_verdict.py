"""The verdict over several request rates, from fresh pairs that were measured at each rate.

Mean: the weighted means of a pair's log ratios are compared like single ones (``framework.objective.verdict``).

Worst: the quantity is the largest median log ratio over the rates.  It is estimated by the largest Hodges-Lehmann
estimate, since the largest ratio of each single pair would be too large on average.  "Improvement" and "no worse" hold
if they hold at every rate, each at the level of a single test: an intersection-union test has that level whatever the
rates have in common (Berger, Technometrics 24(4), 1982).  So the interval's upper end is the largest upper end.  Its
lower end is the largest of lower ends at alpha/2 divided by the number of rates (Bonferroni): "worse" means that some
rate is worse.  Pairs that are too few for that give the lower end of the mean over the rates instead, since the largest
of several numbers is not below their mean; which of the two is settled by the number of pairs, not by the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from framework.model import Estimate, StudyPlan, Trial, Verdict
from framework.model.estimates import CONFIDENCE
from framework.objective import signed_rank
from framework.objective.rates import Rates, by_rate, rates_of
from framework.objective.trial import trial_value
from framework.objective.verdict import compare, compare_groups, log_ratios

TAIL = (1 - CONFIDENCE) / 2

Arm = Mapping[int, Mapping[float, float]]
"""Number of the pair -> rate [requests/s] -> value, above 0."""


def compare_trials(plan: StudyPlan, reference: Mapping[int, Trial], candidate: Mapping[int, Trial]) -> Verdict | None:
    """Compare two arms (number of the pair -> trial with a value) of a study of one rate or several.

    None for fewer than two pairs.
    """
    rates = rates_of(plan)
    if rates is None:
        first, second = (
            {pair: trial.value for pair, trial in arm.items() if trial.value is not None}
            for arm in (reference, candidate)
        )
        return compare_groups(first, second)
    return compare_over(rates, _by_rate(reference), _by_rate(candidate))


def compare_over(rates: Rates, reference: Arm, candidate: Arm) -> Verdict | None:
    """Compare the pairs that both arms have measured at every rate; None for fewer than two.

    ``Verdict.per_rate`` has the comparison at each rate; ``default_ms`` and ``best_ms`` are those of the worst rate
    (``rate_rps``), or of the geometric means over the rates.
    """
    numbers = [
        number
        for number in sorted(reference.keys() & candidate.keys())
        if all(arm[number].get(rate, 0.0) > 0 for arm in (reference, candidate) for rate in rates.rates)
    ]
    if len(numbers) < 2:
        return None
    per_rate = {
        rate: replace(
            compare([reference[n][rate] for n in numbers], [candidate[n][rate] for n in numbers]), rate_rps=rate
        )
        for rate in rates.rates
    }
    if rates.over == "worst":
        whole = _worst(rates, per_rate, reference, candidate, numbers)
    else:
        whole = compare(*([_mean(rates, arm[number]) for number in numbers] for arm in (reference, candidate)))
    return replace(whole, per_rate=tuple(per_rate.values()))


def _worst(
    rates: Rates, per_rate: Mapping[float, Verdict], reference: Arm, candidate: Arm, numbers: Sequence[int]
) -> Verdict:
    """Return the comparison at the worst rate, with the statements and intervals of the worst case."""
    low, below = _lower_end(rates, reference, candidate, numbers)
    estimates = {rate: verdict.log_ratio for rate, verdict in per_rate.items()}
    worst = rates.worst({rate: estimate.value for rate, estimate in estimates.items()})
    high = max(estimate.high for estimate in estimates.values())
    ratio = Estimate(estimates[worst].value, low, high, len(numbers))
    k, above = signed_rank.critical_rank(len(numbers), TAIL)
    return replace(
        per_rate[worst],
        statement="improvement" if high < 0 else "worse" if low > 0 else "no improvement shown",
        log_ratio=ratio,
        p_value=max(v.p_value if v.log_ratio.value < 0 else 1.0 for v in per_rate.values()),
        no_worse="no worse" if all(v.no_worse == "no worse" for v in per_rate.values()) else "undecided",
        gain=Estimate(-math.expm1(ratio.value), -math.expm1(high), -math.expm1(low), len(numbers)),
        coverage=1 - above - below if k else 0.0,
    )


def _lower_end(rates: Rates, reference: Arm, candidate: Arm, numbers: Sequence[int]) -> tuple[float, float]:
    """Return the lower end of the largest median log ratio, and the probability that it is too high."""
    ratios = {
        rate: log_ratios([reference[n][rate] for n in numbers], [candidate[n][rate] for n in numbers])
        for rate in rates.rates
    }
    k, below = signed_rank.critical_rank(len(numbers), TAIL / len(rates.rates))
    if k:
        ends = [float(signed_rank.walsh_averages(values)[k - 1]) for values in ratios.values()]
        return max(ends), len(rates.rates) * below
    k, below = signed_rank.critical_rank(len(numbers), TAIL)
    if not k:
        return -math.inf, 0.0
    return float(signed_rank.walsh_averages(np.mean(list(ratios.values()), axis=0))[k - 1]), below


def _by_rate(arm: Mapping[int, Trial]) -> Arm:
    return {
        pair: {rate: trial_value(values) for rate, values in by_rate(trial.measurements).items()}
        for pair, trial in arm.items()
    }


def _mean(rates: Rates, values: Mapping[float, float]) -> float:
    """Return the weighted geometric mean of one value for each rate."""
    return math.exp(rates.mean({rate: math.log(values[rate]) for rate in rates.rates}))
