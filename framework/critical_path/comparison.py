"""What makes slow requests slow: the critical path of two groups of traces, service by service.

A request's latency is the sum of its sections, so the difference of two groups' mean latencies is exactly the sum of
the differences of their mean times on the path: nothing is left unexplained.
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
    """Two groups of requests, or of repetitions: how many, mean latency, what each service contributes."""

    first: int
    second: int
    first_ms: Estimate
    second_ms: Estimate
    services: tuple[Contrast, ...]


def tail(table: PerTrace, *, typical: tuple[float, float] = (0.25, 0.75), slowest: float = 0.05) -> Groups:
    """The typical requests against the slowest: between two quantiles of latency, and the slowest fraction."""
    if table.traces < 20:
        raise InputError(f"found {table.traces} traces; a tail takes 20 or more")
    low, high = np.quantile(table.root_ns, typical)
    middle = (table.root_ns >= low) & (table.root_ns <= high)
    last = np.quantile(table.root_ns, 1 - slowest, method="inverted_cdf")
    slow = table.root_ns > last
    return _groups(table, middle, table, slow if slow.any() else table.root_ns >= last)


def between(first: PerTrace, second: PerTrace) -> Groups:
    """All requests of two tables: two studies, two configurations, two files."""
    if not first.traces or not second.traces:
        raise InputError("a comparison takes traces on both sides")
    return _groups(first, np.ones(first.traces, np.bool_), second, np.ones(second.traces, np.bool_))


def windows(first: Sequence[Measurement], second: Sequence[Measurement]) -> Groups:
    """The repetitions of two configurations or two studies: here the unit is the repetition, not the request.

    A service's time on the path per request is its share times the mean latency.
    """
    if not first or not second:
        raise InputError("a comparison takes repetitions with service times on both sides")
    sides = [[_per_request(one) for one in side] for side in (first, second)]
    names = sorted({name for side in sides for row in side for name in row})
    found = []
    for name in names:
        one, other = (_moments(np.array([row.get(name, 0.0) for row in side]), len(side)) for side in sides)
        found.append(Contrast(name, _estimate(one), _estimate(other), _difference(one, other)))
    found.sort(key=lambda one: (-abs(one.difference_ms.value), one.name))
    whole = [_estimate(_moments(np.array([sum(row.values()) for row in side]), len(side))) for side in sides]
    return Groups(len(first), len(second), whole[0], whole[1], tuple(found))


def _per_request(window: Measurement) -> Mapping[str, float]:
    return {one.service: one.share.value * window.quantities["mean"].value for one in window.services}


def _groups(first: PerTrace, in_first: NDArray[np.bool_], second: PerTrace, in_second: NDArray[np.bool_]) -> Groups:
    sides = [_path(first, in_first), _path(second, in_second)]
    names = sorted({name for side in sides for name in side})
    counts = int(in_first.sum()), int(in_second.sum())
    found = []
    for name in names:
        one, other = (_moments(side.get(name), count) for side, count in zip(sides, counts, strict=True))
        found.append(Contrast(name, _estimate(one), _estimate(other), _difference(one, other)))
    found.sort(key=lambda one: (-abs(one.difference_ms.value), one.name))
    roots = [_moments(table.root_ns[chosen] / 1e6, count) for table, chosen, count in
             ((first, in_first, counts[0]), (second, in_second, counts[1]))]  # fmt: skip
    return Groups(counts[0], counts[1], _estimate(roots[0]), _estimate(roots[1]), tuple(found))


def _path(table: PerTrace, chosen: NDArray[np.bool_]) -> Mapping[str, NDArray[np.float64]]:
    """Service -> its time on the path in each chosen request where it appears, in ms."""
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


def _difference(one: _Moments, other: _Moments) -> Estimate:
    """Welch's interval of second minus first."""
    variance = one[1] + other[1]
    pieces = sum(part**2 / (count - 1) for _, part, count in (one, other) if count > 1 and math.isfinite(part))
    freedom = variance**2 / pieces if pieces and math.isfinite(variance) else min(one[2], other[2]) - 1
    half = _half(variance, freedom)
    value = other[0] - one[0]
    return Estimate(value, value - half, value + half, min(one[2], other[2]))


def _half(variance: float, freedom: float) -> float:
    from scipy import stats  # here: it takes half a second, which most commands can do without

    if not math.isfinite(variance) or freedom < 1:
        return math.inf
    return float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
