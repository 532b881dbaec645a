"""Did the level of latency move within a window?

The requests are cut, in the order of their due times, into 32 batches of equal count.  The batches of the first quarter
are compared with those of the last by the exact Mann-Whitney test: once on the batches' medians, and once on
their 90th percentiles, since a cache that still fills moves only the tail.  Each comparison has half of alpha, so
the stated rate of false alarms is alpha for independent batches; a batch holds many requests, so that the
memory of a queue ends inside it.  Significance alone would find changes that matter to nobody, so the level must
also have moved by a stated fraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

PART = 8
"""Batches in the first and in the last part: 2 / C(16, 8) = 0.00016 is the smallest p, below alpha / 2 = 0.0005."""
BATCHES = 4 * PART
PER_BATCH = 10
"""A batch's 90th percentile needs ten requests; shorter windows cannot be checked."""
LEVELS = {"median": 0.5, "p90": 0.9}


@dataclass(frozen=True, slots=True)
class Change:
    """The strongest movement found: last part over first part, and its p-value (of that one comparison)."""

    level: str
    ratio: float
    p_value: float
    moved: bool


def change(latency: ArrayLike, *, alpha: float, relative: float) -> Change | None:
    """The change of level between the first and the last quarter; None when there are fewer than 320 requests.

    ``latency``: shape (n,), in the order of due times, failed requests infinite.  ``moved`` when the test rejects at
    ``alpha`` and the larger level exceeds the smaller by more than the fraction ``relative``.
    """
    values = np.asarray(latency, dtype=np.float64)
    if len(values) < BATCHES * PER_BATCH:
        return None
    parts = np.array_split(values, BATCHES)
    found = [_compare(parts, name, q, alpha / len(LEVELS), relative) for name, q in LEVELS.items()]
    return min(found, key=lambda one: (not one.moved, one.p_value))


def _compare(parts: list[NDArray[np.float64]], name: str, q: float, alpha: float, relative: float) -> Change:
    # "inverted_cdf" takes a sample as it is: no interpolation into an infinite latency.
    levels = np.array([np.quantile(part, q, method="inverted_cdf") for part in parts])
    first, last = levels[:PART], levels[-PART:]
    # Exact even with ties (rare: nanoseconds): the normal approximation could never reach alpha with 8 against 8.
    p_value = float(stats.mannwhitneyu(first, last, method="exact").pvalue)
    before, after = float(np.median(first)), float(np.median(last))
    ratio = 1.0 if before == after else (after / before if before > 0 else math.inf)
    size = max(ratio, 1 / ratio) if ratio > 0 else math.inf
    return Change(name, ratio, p_value, p_value <= alpha and size > 1 + relative)
