"""Estimates of quantiles, means and rates with 95 % intervals; latencies have heavy tails, and requests fail.

A failed request is infinitely slow (facts: measurement.md).  Quantiles are therefore order statistics, which assume no
distribution and allow infinite samples; nothing interpolates between samples.
The intervals describe one run only.  Runs of one configuration differ by far more, so intervals decide no comparison.
"""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from framework.errors import InputError
from framework.model import Estimate

CONFIDENCE = 0.95
BATCHES = 20
"""Batches of a mean's interval: between the 10 and 30 of Schmeiser (1982), Batch size effects, Oper. Res. 30(3)."""

_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


@cache
def ranks(count: int, probability: float) -> tuple[int, int]:
    """Return ranks j < k (from 1) such that [X(j), X(k)] covers the quantile with at least 95 %.

    At most 2.5 % are missed on each side.  The coverage is P(j <= Bin(count, probability) < k).  j = 0 or k = count + 1
    means that the sample is too small for a bound on that side.  Raises InputError where ``count`` < 1 or
    ``probability`` is not between 0 and 1.
    """
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    if count < 1:
        raise InputError("a quantile needs at least one sample")
    if not 0 < probability < 1:
        raise InputError(f"a quantile's probability lies between 0 and 1, not at {probability}")
    tail = (1 - CONFIDENCE) / 2
    below = stats.binom.ppf(tail, count, probability)
    above = stats.binom.ppf(1 - tail, count, probability) + 1
    return int(below), int(above)


def quantile(samples: ArrayLike, probability: float) -> Estimate:
    """Return the smallest sample with at least ``probability`` of the samples at or below it, and its 95 % interval.

    ``samples``: shape (n,), n >= 1, in any order, infinities allowed.  An open side of the interval is infinite.
    """
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    count = len(ordered)
    low, high = ranks(count, probability)
    # The small subtraction keeps 0.95 * 100 = 95.00000000000001 at rank 95.
    rank = max(1, math.ceil(probability * count - 1e-9))
    return Estimate(
        value=float(ordered[rank - 1]),
        low=float(ordered[low - 1]) if low >= 1 else -math.inf,
        high=float(ordered[high - 1]) if high <= count else math.inf,
        count=count,
    )


def mean(samples: ArrayLike) -> Estimate:
    """Return the mean with its 95 % interval from the means of 20 consecutive batches (Student's t).

    ``samples``: shape (n,), n >= 1, in the order of time, because batches absorb the correlation of neighbours.  Below
    40 samples each one is its own batch.  One failed request makes the mean infinite.  Raises InputError where n < 1.
    """
    values = np.asarray(samples, dtype=np.float64)
    count = len(values)
    if count < 1:
        raise InputError("a mean needs at least one sample")
    value = float(values.mean())
    if count < 2 or not math.isfinite(value):
        return Estimate(value, -math.inf, math.inf, count)
    batches: NDArray[np.float64] = values
    if count >= 2 * BATCHES:
        batches = np.array([part.mean() for part in np.array_split(values, BATCHES)])
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(batches) - 1) * batches.std(ddof=1) / math.sqrt(len(batches)))
    return Estimate(value, value - half, value + half, count)


def rate(events: int, seconds: float) -> Estimate:
    """Return events per second with the exact 95 % interval of a Poisson count (Garwood, 1936, Biometrika 28)."""
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    tail = (1 - CONFIDENCE) / 2
    low = stats.chi2.ppf(tail, 2 * events) / 2 if events else 0.0
    high = stats.chi2.ppf(1 - tail, 2 * (events + 1)) / 2
    return Estimate(events / seconds, float(low) / seconds, float(high) / seconds, events)


def proportion(events: int, trials: int) -> Estimate:
    """Return the fraction ``events / trials`` with its exact 95 % interval (Clopper & Pearson, 1934, Biometrika 26)."""
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    tail = (1 - CONFIDENCE) / 2
    low = stats.beta.ppf(tail, events, trials - events + 1) if events else 0.0
    high = stats.beta.ppf(1 - tail, events + 1, trials - events) if events < trials else 1.0
    return Estimate(events / trials, float(low), float(high), trials)


def probability_of(quantity: str) -> float:
    """Return the probability of a quantile's name: 0.999 for "p99.9".  Raises InputError for any other name."""
    match = _QUANTILE.fullmatch(quantity)
    # "p" followed by at most two digits before the point: below 100 by construction.
    percent = float(match.group(1)) if match else 0.0
    if percent <= 0:
        raise InputError(
            f"unknown quantity {quantity!r}; known: mean, throughput, cpu, errors, cost, energy, and quantiles such as "
            '"p95", "p99.9"'
        )
    return percent / 100
