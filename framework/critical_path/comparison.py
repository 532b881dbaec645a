"""Comparison of the critical paths of two groups of traces, service by service: why slow requests are slow.

A request's latency is the sum of its sections, so the difference of two groups' mean latencies is exactly the sum of
the differences of their mean times on the path, without a remainder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.per_trace import PerTrace
from framework.errors import InputError
from framework.model import Estimate, Measurement


@dataclass(frozen=True, slots=True)
class Contrast:
    """One service: mean time on the path per request of the first and the second group, and second minus first, ms."""

    name: str
    first_ms: Estimate
    second_ms: Estimate
    difference_ms: Estimate


@dataclass(frozen=True, slots=True)
class Groups:
    """Two groups of requests, or of repetitions: their sizes, mean latencies in ms, and each service's contribution."""

    first: int
    second: int
    first_ms: Estimate
    second_ms: Estimate
    services: tuple[Contrast, ...]


def tail(table: PerTrace, *, typical: tuple[float, float] = (0.25, 0.75), slowest: float = 0.05) -> Groups:
    """Compare typical requests, between two quantiles of latency, with the slowest fraction.

    Raises InputError for fewer than 20 traces.
    """
    if table.traces < 20:
        raise InputError(f"found {table.traces} traces; a tail takes 20 or more")
    low, high = np.quantile(table.root_ns, typical)
    middle = (table.root_ns >= low) & (table.root_ns <= high)
    last = np.quantile(table.root_ns, 1 - slowest, method="inverted_cdf")
    slow = table.root_ns > last
    return _groups(table, middle, table, slow if slow.any() else table.root_ns >= last)


def between(first: PerTrace, second: PerTrace) -> Groups:
    """Compare all requests of two tables: of two studies, two configurations or two files.

    Raises InputError where one has no traces.
    """
    if not first.traces or not second.traces:
        raise InputError("a comparison takes traces on both sides")
    return _groups(first, np.ones(first.traces, np.bool_), second, np.ones(second.traces, np.bool_))


def windows(first: Sequence[Measurement], second: Sequence[Measurement]) -> Groups:
    """Compare the repetitions of two configurations or two studies: the unit is the repetition, not the request.

    A service's time on the path per request is its share times the mean latency.  Raises InputError without
    repetitions.
    """
    if not first or not second:
        raise InputError("a comparison takes repetitions with service times on both sides")
    sides = [[_per_request(window) for window in side] for side in (first, second)]
    names = sorted({name for side in sides for row in side for name in row})
    contrasts = []
    for name in names:
        pair = (_moments(np.array([row.get(name, 0.0) for row in side]), len(side)) for side in sides)
        contrasts.append(_contrast(name, *pair))
    contrasts.sort(key=_largest_first)
    whole = [_estimate(_moments(np.array([sum(row.values()) for row in side]), len(side))) for side in sides]
    return Groups(len(first), len(second), whole[0], whole[1], tuple(contrasts))


def _per_request(window: Measurement) -> Mapping[str, float]:
    return {time.service: time.share.value * window.quantities["mean"].value for time in window.services}


def _groups(first: PerTrace, in_first: NDArray[np.bool_], second: PerTrace, in_second: NDArray[np.bool_]) -> Groups:
    sides = [_path(first, in_first), _path(second, in_second)]
    names = sorted({name for side in sides for name in side})
    counts = int(in_first.sum()), int(in_second.sum())
    contrasts = []
    for name in names:
        pair = (_moments(side.get(name), count) for side, count in zip(sides, counts, strict=True))
        contrasts.append(_contrast(name, *pair))
    contrasts.sort(key=_largest_first)
    roots = [_moments(table.root_ns[chosen] / 1e6, count) for table, chosen, count in
             ((first, in_first, counts[0]), (second, in_second, counts[1]))]  # fmt: skip
    return Groups(counts[0], counts[1], _estimate(roots[0]), _estimate(roots[1]), tuple(contrasts))


def _largest_first(contrast: Contrast) -> tuple[float, str]:
    return -abs(contrast.difference_ms.value), contrast.name


def _path(table: PerTrace, chosen: NDArray[np.bool_]) -> Mapping[str, NDArray[np.float64]]:
    """Return service -> its time on the path in each chosen request where it appears, in ms."""
    rows = np.flatnonzero(chosen[table.trace])
    rows = rows[np.argsort(table.service[rows], kind="stable")]
    if not len(rows):
        return {}
    parts = np.split(rows, np.flatnonzero(np.diff(table.service[rows])) + 1)
    return {table.names[table.service[part[0]]]: table.path_ns[part] / 1e6 for part in parts}


_Moments = tuple[float, float, int]
"""Mean, variance of the mean, number of requests; a request where a service does not appear counts as zero."""


def _moments(values: NDArray[np.float64] | None, count: int) -> _Moments:
    if values is None or not count:
        return 0.0, 0.0, count
    mean = float(values.sum()) / count
    if count < 2:
        return mean, math.inf, count
    squares = float(((values - mean) ** 2).sum()) + (count - len(values)) * mean**2
    return mean, squares / (count - 1) / count, count


def _estimate(moments: _Moments) -> Estimate:
    mean, variance, count = moments
    half = _half(variance, count - 1)
    return Estimate(mean, mean - half, mean + half, count)


def _contrast(name: str, first: _Moments, second: _Moments) -> Contrast:
    return Contrast(name, _estimate(first), _estimate(second), _difference(first, second))


def _difference(first: _Moments, second: _Moments) -> Estimate:
    """Estimate second minus first, with Welch's interval."""
    variance = first[1] + second[1]
    pieces = sum(part**2 / (count - 1) for _, part, count in (first, second) if count > 1 and math.isfinite(part))
    freedom = variance**2 / pieces if pieces and math.isfinite(variance) else min(first[2], second[2]) - 1
    half = _half(variance, freedom)
    value = second[0] - first[0]
    return Estimate(value, value - half, value + half, min(first[2], second[2]))


def _half(variance: float, freedom: float) -> float:
    from scipy import stats  # here: the import takes half a second, and most commands do not need it

    if not math.isfinite(variance) or freedom < 1:
        return math.inf
    return float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
