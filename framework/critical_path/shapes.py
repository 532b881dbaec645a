"""The shapes of critical paths: the services that a request waited for, in order, and the frequency of each shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.attribution import Charges
from framework.critical_path.extract import Sections
from framework.model.spans import SpanTable
from framework.numba_cache import numba

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """Services in the order in which requests waited for them, and the number of traces with this order.

    ``mean_ms``: mean latency of these traces.  ``example``: index of the trace with their median latency.
    """

    services: tuple[str, ...]
    traces: int
    mean_ms: float
    example: int


def shapes(spans: SpanTable, charges: Charges, sections: Sections, most: int = 10) -> tuple[Shape, ...]:
    """Return the ``most`` most frequent shapes, the most frequent first."""
    if not len(sections):
        return ()
    trace = spans.trace[sections.row]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(trace)) + 1, [len(trace)]])
    code = charges.service[sections.row]
    signature = _signatures(code, edges)
    kinds, kind, counts = np.unique(signature, return_inverse=True, return_counts=True)
    latency = np.add.reduceat(sections.end_ns - sections.start_ns, edges[:-1])
    result = []
    for index in np.lexsort((kinds, -counts))[:most]:
        members = np.flatnonzero(kind == index)
        example = members[np.argsort(latency[members], kind="stable")[(len(members) - 1) // 2]]
        path = code[edges[example] : edges[example + 1]][::-1]
        kept = path[np.concatenate([[True], np.diff(path) != 0])]
        result.append(
            Shape(
                services=tuple(charges.names[service] for service in kept),
                traces=len(members),
                mean_ms=float(latency[members].mean()) / 1e6,
                example=int(trace[edges[example]]),
            )
        )
    return tuple(result)


@numba.njit(cache=True, nogil=True)
def _signatures(code: NDArray[np.int32], edges: Int64s) -> NDArray[np.uint64]:
    """Return a hash of each trace's services, runs of one service counted once (FNV-1a over the codes)."""
    result = np.empty(len(edges) - 1, np.uint64)
    for number in range(len(edges) - 1):
        value = np.uint64(14695981039346656037)
        last = -1
        for place in range(edges[number], edges[number + 1]):
            if code[place] != last:
                last = code[place]
                value = (value ^ np.uint64(last + 1)) * np.uint64(1099511628211)
        result[number] = value
    return result
