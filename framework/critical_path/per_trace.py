"""Time of each service in each request: the long table from which all statistics of traces are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.attribution import Charges
from framework.critical_path.extract import children_of, path_time_ns
from framework.critical_path.waiting import waited_for
from framework.model.spans import SpanTable
from framework.numba_cache import numba

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PerTrace:
    """One row for each trace and each service with a span in it; times in ns.

    ``trace``, ``service`` (an index into ``names``), ``path_ns`` (on the critical path), ``self_ns``, ``spans``,
    ``errors``: shape (m,).  ``root_ns``, ``request`` (the root's operation, an index into ``requests``): shape
    (traces,).
    """

    names: Sequence[str]
    requests: Sequence[str]
    trace: NDArray[np.int32]
    service: NDArray[np.int32]
    path_ns: Int64s
    self_ns: Int64s
    spans: NDArray[np.int32]
    errors: NDArray[np.int32]
    root_ns: Int64s
    request: NDArray[np.int32]

    @property
    def traces(self) -> int:
        return len(self.root_ns)


def per_trace(spans: SpanTable, charges: Charges, *, tolerance: float = 0.0) -> PerTrace:
    """Sum the spans of each trace by the service that they are charged to; ``path_ns`` sums to the roots' durations."""
    path = path_time_ns(spans, tolerance=tolerance)
    own = self_time_ns(spans)
    trace, service, path_ns, self_ns, count, errors = _add_up(
        spans.trace, charges.service, path, own, spans.error, len(charges.names)
    )
    root = np.flatnonzero(spans.parent == -1)
    root = root[np.argsort(spans.trace[root], kind="stable")]
    return PerTrace(
        names=charges.names,
        requests=spans.strings,
        trace=trace,
        service=service,
        path_ns=path_ns,
        self_ns=self_ns,
        spans=count,
        errors=errors,
        root_ns=(spans.end_ns - spans.start_ns)[root],
        request=spans.operation[root],
    )


def self_time_ns(spans: SpanTable) -> Int64s:
    """Return each span's duration minus the union of its children's intervals, clipped to the span, in ns; shape (n,).

    Children that only follow, and consumers of a producer's messages, do not delay their parent: they do not count.
    """
    return _self_time(spans.parent, waited_for(spans), spans.start_ns, spans.end_ns)


@numba.njit(cache=True, nogil=True)
def _self_time(parent: Int64s, waited: NDArray[np.bool_], start: Int64s, end: Int64s) -> Int64s:
    first, child = children_of(parent, waited)
    own = end - start
    for row in range(len(parent)):
        below = child[first[row] : first[row + 1]]
        if len(below) > 1:
            below = below[np.argsort(start[below], kind="mergesort")] if len(below) > 16 else _by_start(below, start)
        reached = start[row]
        for call in below:
            begin = max(start[call], reached)
            finish = min(end[call], end[row])
            if finish > begin:
                own[row] -= finish - begin
                reached = finish
    return own


@numba.njit(cache=True, nogil=True, inline="always")
def _by_start(rows: Int64s, start: Int64s) -> Int64s:
    for i in range(1, len(rows)):
        row = rows[i]
        j = i - 1
        while j >= 0 and start[rows[j]] > start[row]:
            rows[j + 1] = rows[j]
            j -= 1
        rows[j + 1] = row
    return rows


@numba.njit(cache=True, nogil=True)
def _add_up(
    trace: NDArray[np.int32],
    service: NDArray[np.int32],
    path: Int64s,
    own: Int64s,
    error: NDArray[np.bool_],
    services: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], Int64s, Int64s, NDArray[np.int32], NDArray[np.int32]]:
    """Sum the rows of each trace, which are contiguous, by service, in the order in which services first appear."""
    count = len(trace)
    place = np.full(services, -1, np.int64)  # where a service's row of this trace is
    at_trace, at_service = np.empty(count, np.int32), np.empty(count, np.int32)
    at_path, at_own = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at_spans, at_errors = np.zeros(count, np.int32), np.zeros(count, np.int32)
    rows = 0  # of the result
    begin = 0  # of this trace's rows in the result
    for row in range(count):
        if row and trace[row] != trace[row - 1]:
            for index in range(begin, rows):
                place[at_service[index]] = -1
            begin = rows
        name = service[row]
        if place[name] < 0:
            place[name] = rows
            at_trace[rows], at_service[rows] = trace[row], name
            rows += 1
        at = place[name]
        at_path[at] += path[row]
        at_own[at] += own[row]
        at_spans[at] += 1
        at_errors[at] += error[row]
    return (
        at_trace[:rows],
        at_service[:rows],
        at_path[:rows],
        at_own[:rows],
        at_spans[:rows],
        at_errors[:rows],
    )
