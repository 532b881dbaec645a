"""The shapes of critical paths: which services a request waited for, in which order, and how often that occurs."""

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
    """Services in the order in which the request waited for them, with how many traces are so.

    ``mean_ms``: mean latency of these.  ``example``: the trace of median latency among them, a number.
    """

    services: tuple[str, ...]
    traces: int
    mean_ms: float
    example: int


def shapes(spans: SpanTable, charges: Charges, found: Sections, most: int = 10) -> tuple[Shape, ...]:
    """The most frequent shapes, the most frequent first."""
    if not len(found):
        return ()
    trace = spans.trace[found.row]
    edges = np.concatenate([[0], np.flatnonzero(np.diff(trace)) + 1, [len(trace)]])
    code = charges.service[found.row]
    signature = _signatures(code, edges)
    kinds, kind, counts = np.unique(signature, return_inverse=True, return_counts=True)
    latency = np.add.reduceat(found.end_ns - found.start_ns, edges[:-1])
    result = []
    for index in np.lexsort((kinds, -counts))[:most]:
        members = np.flatnonzero(kind == index)
        example = members[np.argsort(latency[members], kind="stable")[(len(members) - 1) // 2]]
        path = code[edges[example] : edges[example + 1]][::-1]
        kept = path[np.concatenate([[True], np.diff(path) != 0])]
        result.append(
            Shape(
                services=tuple(charges.names[one] for one in kept),
                traces=len(members),
                mean_ms=float(latency[members].mean()) / 1e6,
                example=int(trace[edges[example]]),
            )
        )
    return tuple(result)


@numba.njit(cache=True, nogil=True)
def _signatures(code: NDArray[np.int32], edges: Int64s) -> NDArray[np.uint64]:
    """A hash of each trace's services, runs of one service counted once (FNV-1a over the codes)."""
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
