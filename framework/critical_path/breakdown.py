"""Breakdown of many traces by service: share of the critical path, service time, and variation of the service time.

Every number comes with its 95 % interval over traces.  A request's *service time* at a service is the service's self
time in that request; only requests with a span at the service count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.per_trace import PerTrace
from framework.errors import InputError
from framework.model import Estimate
from framework.model.estimates import mean, quantile

Z = 1.959963984540054  # of a two-sided 95 % interval


@dataclass(frozen=True, slots=True)
class ServiceBreakdown:
    """One service (or operation).  ``share`` is a fraction of all root time; times in ms.

    ``share``: on the critical path; the shares of all services add up to one.  ``path_ms``: mean time on the path over
    the requests where it appears.  ``mean_ms`` ... ``p99_ms``, ``cv``: of the service time of these requests.
    """

    name: str
    spans: int
    traces: int
    share: Estimate
    path_ms: Estimate
    mean_ms: Estimate
    p50_ms: Estimate
    p95_ms: Estimate
    p99_ms: Estimate
    cv: Estimate
    errors: float  # of its spans


def weights(table: PerTrace, mix: Mapping[str, float] | None = None) -> NDArray[np.float64]:
    """Return each trace's weight, shape (traces,), with sum 1: equal, or so that requests have the shares of ``mix``.

    ``mix``: weight of each kind of request, by its root's operation.  Raises InputError for a kind without traces.
    """
    if not mix:
        return np.full(table.traces, 1.0 / table.traces) if table.traces else np.empty(0)
    weight_of = np.zeros(table.traces)
    for request, weight in mix.items():
        chosen = table.request == table.requests.index(request) if request in table.requests else np.zeros(0, np.bool_)
        if weight > 0 and not chosen.any():
            raise InputError(f"mix: found {request!r}; allowed: {', '.join(sorted(kinds(table)))}")
        if weight > 0:
            weight_of[chosen] = weight / chosen.sum()
    weight_of /= weight_of.sum()
    return weight_of


def kinds(table: PerTrace) -> list[str]:
    """Return the kinds of requests: the operations of the roots."""
    return [table.requests[index] for index in np.unique(table.request)]


def profiles(table: PerTrace, mix: Mapping[str, float] | None = None) -> tuple[ServiceBreakdown, ...]:
    """Return the breakdown of each service, the largest share first."""
    if not table.traces:
        return ()
    weight = weights(table, mix)
    order = np.argsort(table.service, kind="stable")
    edges = np.flatnonzero(np.diff(table.service[order])) + 1
    services = [_profile(table, rows, weight) for rows in np.split(order, edges)]
    return tuple(sorted(services, key=lambda service: (-service.share.value, service.name)))


def _profile(table: PerTrace, rows: NDArray[np.int64], weight: NDArray[np.float64]) -> ServiceBreakdown:
    trace = table.trace[rows]
    self_ms = table.self_ns[rows] / 1e6
    spans = int(table.spans[rows].sum())
    ordered = np.sort(self_ms)
    return ServiceBreakdown(
        name=table.names[table.service[rows[0]]],
        spans=spans,
        traces=len(rows),
        share=ratio(table.path_ns[rows], trace, table.root_ns, weight),
        path_ms=mean(table.path_ns[rows] / 1e6),
        mean_ms=mean(self_ms),
        p50_ms=quantile(ordered, 0.5),
        p95_ms=quantile(ordered, 0.95),
        p99_ms=quantile(ordered, 0.99),
        cv=variation(self_ms),
        errors=float(table.errors[rows].sum()) / spans,
    )


def ratio(
    part_ns: NDArray[np.int64], trace: NDArray[np.int32], root_ns: NDArray[np.int64], weight: NDArray[np.float64]
) -> Estimate:
    """Estimate the ratio of the weighted sums of both times (Cochran, Sampling Techniques, 1977, chapter 6).

    ``part_ns``, ``trace``: shape (m,), the traces that have a part.  The interval comes from the residuals of the
    traces, treated as one stratum, and is cut to [0, 1].
    """
    whole = float(weight @ root_ns)
    if whole <= 0:
        return Estimate(0.0, 0.0, 1.0, len(root_ns))
    value = float(weight[trace] @ part_ns) / whole
    # sum over all traces of (weight * (part - value * root))^2, where most have no part
    residual = value * root_ns
    squares = (weight * residual) ** 2
    total = float(squares.sum() - squares[trace].sum())
    total += float((((part_ns - residual[trace]) * weight[trace]) ** 2).sum())
    half = Z * math.sqrt(total) / whole
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), len(root_ns))


def variation(values: NDArray[np.float64]) -> Estimate:
    """Estimate the coefficient of variation, with its interval by the delta method (moments up to the fourth)."""
    count = len(values)
    centre = float(values.mean()) if count else 0.0
    if count < 3 or centre <= 0:
        return Estimate(0.0, 0.0, math.inf, count)
    residual = values - centre
    second, third, fourth = (float((residual**power).mean()) for power in (2, 3, 4))
    if second == 0:
        return Estimate(0.0, 0.0, 0.0, count)
    # The variances of s^2 and of the mean are (m4 - s^4) / n and s^2 / n, their covariance is m3 / n.
    variance = (fourth - second**2) / (4 * second * centre**2) + second**2 / centre**4 - third / centre**3
    half = Z * math.sqrt(max(variance, 0.0) / count)
    value = math.sqrt(second) / centre
    return Estimate(value, max(0.0, value - half), value + half, count)
