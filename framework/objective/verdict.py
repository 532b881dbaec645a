"""The verdict on a study: is the best configuration better than the default, on fresh interleaved pairs?

The estimate is the Hodges-Lehmann median of the paired log ratios (Hodges & Lehmann, 1963, Ann. Math. Stat. 34);
its interval comes from the exact distribution of Wilcoxon's signed-rank statistic, so it assumes only that the
log ratios are symmetric about their median, which the random order within pairs ensures.
Coverage is discrete: 96.9 % for 6 pairs, 95.1 % for 10, never below 95 %; with fewer than 6 pairs there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError
from framework.model import Estimate, Verdict
from framework.model.estimates import CONFIDENCE, quantile
from framework.objective import signed_rank

MARGIN = 1.05
"""Bound of "no worse": the one-sided 95 % upper bound of the ratio has to be below it (facts: measurement.md)."""


def coverage(pairs: int) -> float:
    """Return the coverage of the interval of ``pairs`` pairs; 0 when they are too few for a 95 % interval."""
    k, below = signed_rank.critical_rank(pairs, (1 - CONFIDENCE) / 2)
    return 1 - 2 * below if k else 0.0


def log_ratios(default: Sequence[float], best: Sequence[float]) -> NDArray[np.float64]:
    """Return log(best/default) for every pair, negative where best is better; shape (pairs,).

    Where all values are negative (throughput, maximised), the ratio is inverted, so that negative still means better.
    Raises InputError for no pairs, unequal lengths, zeros or mixed signs.
    """
    a, b = _paired(default, best)
    if not one_sign(a, b):
        raise InputError(f"ratios need values of one sign; found {min(*a, *b):g} to {max(*a, *b):g}")
    sign = 1.0 if a[0] > 0 else -1.0
    return sign * (np.log(np.abs(b)) - np.log(np.abs(a)))


def relative_differences(default: Sequence[float], best: Sequence[float]) -> NDArray[np.float64]:
    """Return (best - default) in units of the default's median size, for values of both signs; shape (pairs,)."""
    a, b = _paired(default, best)
    return (b - a) / (np.median(np.abs(a)) or np.abs([a, b]).max() or 1.0)


def one_sign(*values: NDArray[np.float64]) -> bool:
    """Return whether all values are positive, or all are negative."""
    combined = np.concatenate(values)
    return bool((combined > 0).all() or (combined < 0).all())


def _paired(default: Sequence[float], best: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(default, dtype=np.float64), np.asarray(best, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise InputError(f"the verdict compares pairs: found {a.size} values of the default and {b.size} of the best")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError("the verdict compares finite values: a trial without a value is left out with its pair")
    return a, b


def hodges_lehmann(differences: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """Estimate the median of the Walsh averages; its interval is infinite when there are fewer than 6 pairs."""
    walsh = signed_rank.walsh_averages(differences)
    k, _ = signed_rank.critical_rank(len(differences), (1 - CONFIDENCE) / 2)
    low, high = (float(walsh[k - 1]), float(walsh[-k])) if k else (-math.inf, math.inf)
    return Estimate(float(np.median(walsh)), low, high, len(differences))


def upper_bound(differences: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the one-sided 95 % upper bound of the median difference; infinite when there are fewer than 5 pairs."""
    k, _ = signed_rank.critical_rank(len(differences), 1 - CONFIDENCE)
    return float(signed_rank.walsh_averages(differences)[-k]) if k else math.inf


def compare(default: Sequence[float], best: Sequence[float]) -> Verdict:
    """Compare the values of fresh trials pair by pair: ``default[i]`` and ``best[i]`` are one pair.

    An improvement (or "worse") is claimed only when the interval of the log ratio excludes zero.  An objective with
    values of both signs (a mixture of latency and throughput) has no ratio: relative differences replace it.
    Raises InputError for no pairs or values that are not finite.
    """
    is_ratio = one_sign(*_paired(default, best))
    ratios = log_ratios(default, best) if is_ratio else relative_differences(default, best)
    estimate = hodges_lehmann(ratios)
    fraction = math.expm1 if is_ratio else float
    gain = Estimate(
        value=-fraction(estimate.value),
        low=-fraction(estimate.high),
        high=-fraction(estimate.low),
        count=estimate.count,
    )
    return Verdict(
        statement="improvement" if estimate.high < 0 else "worse" if estimate.low > 0 else "no improvement shown",
        pairs=len(ratios),
        log_ratio=estimate,
        p_value=signed_rank.p_value(ratios),
        default_ms=quantile(default, 0.5),
        best_ms=quantile(best, 0.5),
        no_worse="no worse" if upper_bound(ratios) < math.log(MARGIN) else "undecided",
        gain=gain,
        coverage=coverage(len(ratios)),
        scale="ratio" if is_ratio else "difference",
    )


def compare_groups(reference: Mapping[int, float], candidate: Mapping[int, float]) -> Verdict | None:
    """Compare the values of the groups (number -> value) that both arms have; None for fewer than two groups."""
    pairs = sorted(reference.keys() & candidate.keys())
    return compare([reference[k] for k in pairs], [candidate[k] for k in pairs]) if len(pairs) >= 2 else None
