"""Quantiles of requests and of histograms with cumulative buckets, and how such a histogram grew over a window.

Source of the quantile: Prometheus's ``histogram_quantile`` for classic histograms, linear inside a bucket.  One thing
differs: a quantile beyond the last finite bound is not that bound, which would call any latency above it good.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

BEYOND = 2.0  # the least factor between the last finite bound and the one that is taken to follow

Buckets = Mapping[float, float]
"""Upper bound, infinity included -> number of requests that took as long or less."""


def exact_quantile(quantile: float, values: Sequence[float]) -> float:
    """Return the least value that at least this share (0 to 1) of the values does not exceed; there must be one."""
    return sorted(values)[min(len(values), max(1, math.ceil(quantile * len(values)))) - 1]


def histogram_quantile(quantile: float, buckets: Buckets) -> float | None:
    """Return a quantile (0 to 1) in the unit of the bounds; None where there is no request or no finite bound.

    Beyond the last finite bound it is the bound that would follow if bounds went on growing by their last factor, at
    least by ``BEYOND``: more than the last bound, but how much more is not known.
    """
    bounds = sorted(buckets)
    finite = [bound for bound in bounds if math.isfinite(bound)]
    if not finite:
        return None
    counts, most = [], 0.0
    for bound in bounds:
        most = max(most, buckets[bound])  # sums over series of different age or layout may fall a little
        counts.append(most)
    if most <= 0:
        return None
    rank = quantile * most
    index = next((index for index, count in enumerate(counts) if count >= rank), len(counts) - 1)
    upper = bounds[index]
    if not math.isfinite(upper):
        factor = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else BEYOND
        return finite[-1] * max(BEYOND, factor)
    if index == 0 and upper <= 0:
        return upper
    lower, below = (bounds[index - 1], counts[index - 1]) if index else (0.0, 0.0)
    inside = counts[index] - below
    return upper if inside <= 0 else min(upper, lower + (upper - lower) * max(0.0, rank - below) / inside)


@dataclass(slots=True)
class Growth:
    """Growth of a histogram's series over the last ``window_s`` seconds, from totals that are read again and again.

    A series that falls was restarted: all that it has now is new.  So is a series that was not there before.  After a
    gap of more than ``gap_s`` counting begins anew: what came meanwhile is no longer of the last window.
    """

    window_s: float
    gap_s: float
    _before: tuple[float, Mapping[Hashable, Buckets]] | None = field(default=None, init=False)
    _grown: deque[tuple[float, float, Buckets]] = field(default_factory=deque, init=False)

    def add(self, now_s: float, series: Mapping[Hashable, Buckets]) -> None:
        """Take the totals of all series at this time."""
        before, self._before = self._before, (now_s, series)
        if before is None or now_s - before[0] > self.gap_s:
            self._grown.clear()
            return
        grown: dict[float, float] = {}
        for key, buckets in series.items():
            for bound, count in _grown(before[1].get(key, {}), buckets).items():
                grown[bound] = grown.get(bound, 0.0) + count
        self._grown.append((before[0], now_s, grown))
        # Half a step of tolerance: steps are not exactly even, and a window of ten steps is to have ten.
        while self._grown[0][1] <= now_s - self.window_s + (now_s - before[0]) / 2 and len(self._grown) > 1:
            self._grown.popleft()

    def window(self) -> tuple[float, Buckets] | None:
        """Return the length of the window [s] and the growth in it; None before there are two totals."""
        if not self._grown:
            return None
        buckets: dict[float, float] = {}
        for _, _, grown in self._grown:
            for bound, count in grown.items():
                buckets[bound] = buckets.get(bound, 0.0) + count
        return self._grown[-1][1] - self._grown[0][0], buckets


def _grown(before: Buckets, now: Buckets) -> Buckets:
    """Return by how much the buckets of one series grew."""
    if any(count < before.get(bound, 0.0) for bound, count in now.items()) or before.keys() != now.keys():
        return now
    return {bound: count - before[bound] for bound, count in now.items()}
