"""The value of a configuration that is measured at several request rates.

Milliseconds at different rates are not comparable: at the highest rate latency is largest, so that a sum or a maximum
of them would be the latency at that rate under another name.  Therefore each is divided by the default's at the same
rate; the logarithms of these ratios are then combined in one of two ways:

- worst: the largest.  The configuration whose largest loss against a reference is smallest is that of robust
  optimization with a finite set of scenarios (Ben-Tal, El Ghaoui & Nemirovski, Robust Optimization, 2009, chapter 1;
  Kouvelis & Yu, Robust Discrete Optimization, 1997, relative robustness, with the default as the reference);
- mean: their weighted mean, so that the value is the weighted geometric mean of the ratios: the only mean of
  normalized numbers whose order does not depend on the reference (Fleming & Wallace, CACM 29(3), 1986).

The worst of several noisy numbers is too large on average: with equal true ratios and independent standard errors s of
their logarithms by 0.56 s for two rates and by 0.85 s for three.  So a search compares the worst values with each
other, and what is claimed comes from fresh pairs (``framework.objective.rates_verdict``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from framework.errors import FieldError, TrialFailed
from framework.model import Measurement, StudyPlan, Trial
from framework.model.tune_request import OVER
from framework.objective.trial import drift_corrected, pooled_spread, standard_error, trial_value

Ratios = Mapping[float, float]
"""Rate [requests/s] -> logarithm of a configuration's value over the default's at this rate."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The request rates of a study [requests/s], increasing, and how their ratios become one value.

    ``weights``: of the rates in the mean, in their order, all positive.  Raises FieldError.
    """

    rates: tuple[float, ...]
    over: Literal["worst", "mean"]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        rates, weights = self.rates, self.weights
        if len(rates) < 2 or rates[0] <= 0 or not all(a < b < math.inf for a, b in pairwise(rates)):
            raise FieldError("rates", _written(rates), "at least two, above 0, each larger than the one before")
        if self.over not in OVER:
            raise FieldError("over", self.over, ", ".join(OVER))
        if len(weights) != len(rates) or not all(0 < weight < math.inf for weight in weights):
            raise FieldError("weights", _written(weights), f"{len(rates)} numbers above 0, one for each rate")

    def combined(self, ratios: Ratios) -> float:
        """Return the logarithm of the value: the largest log ratio, or their weighted mean."""
        if self.over == "worst":
            return max(ratios[rate] for rate in self.rates)
        return self.mean({rate: ratios[rate] for rate in self.rates})

    def mean(self, numbers: Mapping[float, float]) -> float:
        """Return the weighted mean of one number for each rate."""
        pairs = zip(self.rates, self.weights, strict=True)
        return math.fsum(weight * numbers[rate] for rate, weight in pairs) / math.fsum(self.weights)

    def worst(self, ratios: Ratios) -> float:
        """Return the rate with the largest log ratio."""
        return max(self.rates, key=lambda rate: ratios[rate])


def _written(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def rates_of(plan: StudyPlan) -> Rates | None:
    """Return the rates of a study's plan; None where it has only one.  Raises FieldError for an impossible plan."""
    if not plan.rates:
        return None
    return Rates(plan.rates, plan.over, plan.weights or (1.0,) * len(plan.rates))


def at_rate(trial: Trial, rate: float) -> Trial:
    """Return a trial as if it had been measured at this rate alone, with its value in the objective's unit.

    The value is None where the trial has no valid window at this rate.
    """
    windows = tuple(m for m in trial.measurements if m.rate_rps == rate)
    values = [m.value for m in windows if m.value is not None and not m.invalid]
    return replace(trial, measurements=windows, value=trial_value(values) if values else None)


def by_rate(windows: Iterable[Measurement]) -> dict[float, list[float]]:
    """Return rate -> values of the valid windows at this rate, in their order."""
    values: dict[float, list[float]] = {}
    for window in windows:
        if window.rate_rps is not None and window.value is not None and not window.invalid:
            values.setdefault(window.rate_rps, []).append(window.value)
    return values


def value_over(rates: Rates, windows: Sequence[Measurement], default: Sequence[Measurement]) -> float:
    """Return the value of a configuration's windows relative to those of the default, above 0.

    The value at each rate is the geometric mean over the repetitions.  Raises TrialFailed where a rate was not
    measured, or a value is not positive and so has no ratio.
    """
    return math.exp(rates.combined(_ratios(rates, by_rate(windows), by_rate(default))))


def told_over(rates: Rates, trial: Trial, baselines: Sequence[Trial]) -> float:
    """Return a trial's value relative to the baselines nearest to it, at each rate for itself.

    ``baselines``: trials of the default.  A machine may slow down more at one rate than at another: near saturation,
    small changes of its speed make large ones of latency.  Raises TrialFailed as ``value_over``.
    """
    ratios = {}
    for rate in rates.rates:
        own = [at_rate(baseline, rate) for baseline in baselines]
        first = next((b.value for b in sorted(own, key=lambda b: b.number) if b.value is not None), None)
        told = drift_corrected(at_rate(trial, rate), own)  # on the scale of the first baseline
        ratios[rate] = _log_ratio(rate, told, first)
    return math.exp(rates.combined(ratios))


def error_over(rates: Rates, trial: Trial, others: Sequence[Trial], default: Sequence[Measurement]) -> float | None:
    """Return the standard error of the logarithm of a trial's value, from spreads pooled over the study.

    Worst: that of the rate where the trial's ratio is largest, from the spread at this rate alone; the bias of the
    largest of several numbers is not in it.  Mean: from the spread of the repetitions' weighted means, so that what
    rates of one deployment have in common is counted.  The default's own error is common to all trials and left out.
    """
    if rates.over == "worst":
        rate = rates.worst(_ratios(rates, by_rate(trial.measurements), by_rate(default)))
        return standard_error(at_rate(trial, rate), [at_rate(other, rate) for other in others])
    means = _repetition_means(rates, trial)
    spread = pooled_spread([*(_repetition_means(rates, t) for t in others if t.number != trial.number), means])
    return None if spread is None or not means else spread.deviation / math.sqrt(len(means))


def _ratios(rates: Rates, values: Mapping[float, Sequence[float]], default: Mapping[float, Sequence[float]]) -> Ratios:
    def level(measured: Mapping[float, Sequence[float]], rate: float) -> float | None:
        return trial_value(measured[rate]) if measured.get(rate) else None

    return {rate: _log_ratio(rate, level(values, rate), level(default, rate)) for rate in rates.rates}


def _log_ratio(rate: float, value: float | None, default: float | None) -> float:
    if value is None or default is None:
        raise TrialFailed(f"no valid window at {rate:g} requests/s")
    if value <= 0 or default <= 0:
        raise TrialFailed(
            f"at {rate:g} requests/s the objective is {value:g} and the default's {default:g}: "
            "a ratio, by which several rates are compared, needs values above 0"
        )
    return math.log(value / default)


def _repetition_means(rates: Rates, trial: Trial) -> list[float]:
    """Return the weighted geometric mean over the rates of each repetition that has a value at every rate."""
    repetitions: dict[int, dict[float, float]] = {}
    for window in trial.measurements:
        if window.rate_rps is not None and window.value is not None and not window.invalid:
            repetitions.setdefault(window.repetition, {})[window.rate_rps] = math.log(window.value)
    whole = [values for values in repetitions.values() if values.keys() >= set(rates.rates)]
    return [math.exp(rates.mean(values)) for values in whole]
