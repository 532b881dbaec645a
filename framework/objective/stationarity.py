"""The test whether the level of latency moved within a window.

The requests are cut, in the order of their due times, into 24 batches of equal count, and a line is fitted to the
logarithm of each batch's level against its number: once for the medians, and once for the 90th percentiles, since a
cache that still fills moves only the tail.  The t-test of each slope has half of alpha, so the stated rate of false
alarms is alpha for independent batches; a batch holds many requests, so that the memory of a queue mostly ends in it.
A significant change may still be too small to matter, so the level of the last quarter must also differ from the
first's by a stated fraction.

Chosen by simulation of M/M/1 queues (tests/statistical): against Mann-Kendall, normal scores, and comparisons of
quarters and of halves, the slope of logarithms finds most ramps, and most steps too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BATCHES = 24
PER_BATCH = 20
"""Requests that a batch needs for its 90th percentile; shorter windows cannot be checked."""
LEVELS = {"median": 0.5, "p90": 0.9}


@dataclass(frozen=True, slots=True)
class Change:
    """The strongest movement in a window: level of the last quarter over the first's, and the p-value of its slope."""

    level: str
    ratio: float
    p_value: float
    moved: bool


def change(latency: ArrayLike, *, alpha: float, relative: float) -> Change | None:
    """Test the change of level over a window; None when there are fewer than 480 requests.

    ``latency``: shape (n,), in the order of due times, failed requests infinite.  ``moved`` when the test rejects at
    ``alpha`` and the larger level exceeds the smaller by more than the fraction ``relative``.
    """
    values = np.asarray(latency, dtype=np.float64)
    if len(values) < BATCHES * PER_BATCH:
        return None
    good = values[np.isfinite(values) & (values > 0)]
    if not len(good):
        return Change("median", 1.0, 1.0, False)
    # A failed request counts as the slowest answered one: a line cannot be fitted to infinity.
    values = np.clip(values, good.min(), good.max())
    probabilities = list(LEVELS.values())
    batches = np.log([np.quantile(part, probabilities) for part in np.array_split(values, BATCHES)])
    quarter = len(values) // 4
    ratios = np.quantile(values[-quarter:], probabilities) / np.quantile(values[:quarter], probabilities)
    changes = [
        _slope(name, batches[:, column], float(ratios[column]), alpha / len(LEVELS), relative)
        for column, name in enumerate(LEVELS)
    ]
    return min(changes, key=lambda change: (not change.moved, change.p_value))


def _slope(name: str, levels: NDArray[np.float64], ratio: float, alpha: float, relative: float) -> Change:
    from scipy import stats  # here: the import takes half a second, and most commands do not need it

    # A level that never changes has no residuals to test against.
    p_value = float(stats.linregress(np.arange(BATCHES), levels).pvalue) if np.ptp(levels) > 0 else 1.0
    return Change(name, ratio, p_value, p_value <= alpha and abs(math.log(ratio)) > math.log1p(relative))
