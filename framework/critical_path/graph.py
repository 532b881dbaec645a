"""The service graph: which service calls which, how often, how slowly, and how many calls fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework.critical_path.attribution import Charges
from framework.critical_path.waiting import CLIENT
from framework.model.spans import SpanTable


@dataclass(frozen=True, slots=True)
class Edge:
    """Calls from one service to another: per request, their mean duration in ms, and the fraction that failed."""

    caller: str
    callee: str
    calls: int
    per_request: float
    mean_ms: float
    errors: float


def edges(spans: SpanTable, charges: Charges) -> tuple[Edge, ...]:
    """Return every pair of services with a call, the most frequent first.

    A call is a span whose service is not its parent's, or a call to a peer that sends no spans.
    """
    if not len(spans.traces):
        return ()
    root = spans.parent == -1
    above = np.maximum(spans.parent, 0)
    # Below the client's root span the entry service calls, whether it sends spans or not.
    upper = np.where(root[above] & (spans.kind[above] == CLIENT), charges.service[above], spans.service[above])
    silent = (charges.service != spans.service) & ~root
    entered = ~root & ~silent & (upper != spans.service)
    rows = np.flatnonzero(silent | entered)
    caller = np.where(silent, spans.service, upper)[rows].astype(np.int64)
    callee = charges.service[rows].astype(np.int64)
    pairs, index, counts = np.unique(caller * len(charges.names) + callee, return_inverse=True, return_counts=True)
    total_ms = np.bincount(index, (spans.end_ns - spans.start_ns)[rows] / 1e6)
    failed = np.bincount(index, spans.error[rows].astype(np.float64))
    all_edges = [
        Edge(
            caller=charges.names[pair // len(charges.names)],
            callee=charges.names[pair % len(charges.names)],
            calls=int(count),
            per_request=float(count) / len(spans.traces),
            mean_ms=float(total / count),
            errors=float(wrong / count),
        )
        for pair, count, total, wrong in zip(pairs, counts, total_ms, failed, strict=True)
    ]
    return tuple(sorted(all_edges, key=lambda edge: (-edge.calls, edge.caller, edge.callee)))
