"""The verdict on a study: is the best configuration better than the default, on fresh interleaved pairs?

The estimate is the Hodges-Lehmann median of the paired log ratios (Hodges & Lehmann, 1963, Ann. Math. Stat. 34);
its interval comes from the exact distribution of Wilcoxon's signed-rank statistic, so it assumes only that the
log ratios are symmetric about their median, which pairs in random order bring about.
Coverage is discrete: 96.9 % for 6 pairs, 95.1 % for 10, never below 95 %; with fewer than 6 pairs there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError
from framework.model import Estimate, Verdict
from framework.objective import signed_rank
from framework.objective.quantiles import CONFIDENCE, quantile

MARGIN = 1.05
"""No worse: the one-sided 95 % upper bound of the ratio stays below this (facts: measurement.md)."""


def coverage(pairs: int) -> float:
    """The coverage of the interval that ``pairs`` pairs allow; 0 when there are too few for any of 95 %."""
    k, below = signed_rank.critical_rank(pairs, (1 - CONFIDENCE) / 2)
    return 1 - 2 * below if k else 0.0


def log_ratios(default: Sequence[float], best: Sequence[float]) -> NDArray[np.float64]:
    """log(best/default) for every pair, negative where best is better; shape (pairs,).

    Where an objective is negative throughout (throughput, maximised), the ratio is the other way round, so that
    negative still means better.  Raises InputError for no pairs, unequal lengths, zeros or mixed signs.
    """
    a, b = np.asarray(default, dtype=np.float64), np.asarray(best, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise InputError(f"the verdict compares pairs: found {a.size} values of the default and {b.size} of the best")
    both = np.concatenate([a, b])
    if not np.isfinite(both).all() or not ((both > 0).all() or (both < 0).all()):
        raise InputError(
            "the verdict compares ratios, so the objective's values must be finite and of one sign; "
            f"found {both.min():g} to {both.max():g}"
        )
    sign = 1.0 if both[0] > 0 else -1.0
    return sign * (np.log(np.abs(b)) - np.log(np.abs(a)))


def hodges_lehmann(differences: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """The median of the Walsh averages with its interval; infinite when there are fewer than 6 pairs."""
    walsh = signed_rank.walsh_averages(differences)
    k, _ = signed_rank.critical_rank(len(differences), (1 - CONFIDENCE) / 2)
    low, high = (float(walsh[k - 1]), float(walsh[-k])) if k else (-math.inf, math.inf)
    return Estimate(float(np.median(walsh)), low, high, len(differences))


def upper_bound(differences: Sequence[float] | NDArray[np.float64]) -> float:
    """The one-sided 95 % upper bound of the median difference; infinite when there are fewer than 5 pairs."""
    k, _ = signed_rank.critical_rank(len(differences), 1 - CONFIDENCE)
    return float(signed_rank.walsh_averages(differences)[-k]) if k else math.inf


def compare(default: Sequence[float], best: Sequence[float]) -> Verdict:
    """Compare the values of fresh trials pair by pair: ``default[i]`` and ``best[i]`` were measured together.

    An improvement (or "worse") is claimed only when the interval of the log ratio leaves zero out.
    Raises InputError as ``log_ratios`` does.
    """
    ratios = log_ratios(default, best)
    estimate = hodges_lehmann(ratios)
    gain = Estimate(
        value=-math.expm1(estimate.value),
        low=-math.inf if estimate.high == math.inf else -math.expm1(estimate.high),
        high=-math.expm1(estimate.low),
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
    )
