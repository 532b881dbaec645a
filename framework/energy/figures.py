"""Numbers over several windows with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from framework.energy.answers import Figure
from framework.model.estimates import CONFIDENCE, mean

Factors = tuple[float, float]
EXACT: Factors = (1.0, 1.0)
"""Factors from a number to its interval by the power source's own account; of one that has no joules in it."""


def figure(values: Sequence[float], source: Factors = EXACT) -> Figure:
    """Return the mean with its 95 % interval, which ends at 0 where no value is negative."""
    of = mean(values)
    low = max(0.0, of.low) if min(values) >= 0 else of.low
    return Figure(of.value, low, of.high, of.count, of.value * source[0], of.value * source[1])


def ratio(above: Sequence[float], below: Sequence[float], source: Factors = EXACT) -> Figure | None:
    """Return sum(above) / sum(below) with its 95 % interval; None where nothing is below.

    The windows are few and differ, so that the mean of their ratios would be biased, and one window without anything
    below would have none (W. G. Cochran, Sampling Techniques, 3rd edition, 1977, section 6.4: the variance of a ratio).
    """
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    whole = math.fsum(below)
    if whole <= 0:
        return None
    value, count = math.fsum(above) / whole, len(above)
    low, high = -math.inf, math.inf
    if count > 1:
        squares = math.fsum((y - value * x) ** 2 for y, x in zip(above, below, strict=True))
        error = math.sqrt(squares / (count - 1) / count) / (whole / count)
        half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * error
        low, high = value - half, value + half
    low = max(0.0, low) if min(above) >= 0 else low
    return Figure(value, low, high, count, value * source[0], value * source[1])
