"""Self time per service: where the time of the requests goes, waiting for others left out.

A span's self time is its duration minus the union of its children's intervals.  Caches and databases send no spans, so
the self time of a call to one is charged to the peer that the call names; what the client's root span spends
outside the first server span is the front end's, which queues requests and may send no spans either.
Sums over spans, not over the critical path: work done in parallel counts for each who does it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from framework.model import ServiceTime
from framework.spans import KINDS, SpanTable

_SERVER, _CLIENT, _PRODUCER, _CONSUMER = (KINDS.index(name) for name in ("server", "client", "producer", "consumer"))


def self_time_ns(spans: SpanTable) -> NDArray[np.int64]:
    """Duration minus the union of the children's intervals, clipped to the span; shape (n,).

    Children that only follow, and consumers of what a producer sent, never hold up their parent: they do not count.
    """
    duration = spans.end_ns - spans.start_ns
    child = np.flatnonzero(_waited_for(spans))
    parent = spans.parent[child]
    start = np.maximum(spans.start_ns[child], spans.start_ns[parent])
    end = np.minimum(spans.end_ns[child], spans.end_ns[parent])
    inside = end > start
    child, parent, start, end = child[inside], parent[inside], start[inside], end[inside]
    order = np.lexsort((start, parent))
    parent, start, end = parent[order], start[order], end[order]
    # All parents are laid end to end on one axis, so that one running maximum serves every family of siblings.
    axis = np.cumsum(duration) - duration - spans.start_ns
    start, end = start + axis[parent], end + axis[parent]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[0], reached[:-1]]) if len(reached) else reached
    covered = np.maximum(0, end - np.maximum(start, before))
    total = np.zeros(len(spans), dtype=np.int64)
    np.add.at(total, parent, covered)
    return duration - total


def charged_to(spans: SpanTable, entry: str) -> NDArray[np.str_]:
    """The service that each span's self time is charged to; shape (n,).

    A call without a server span below it goes to its peer, if it names one.  A client's root span goes to
    ``entry`` (empty: to itself).
    """
    names = np.array([*spans.strings, ""], dtype=np.str_)  # the last one stands for peer -1
    answered = np.zeros(len(spans), dtype=np.bool_)
    served = (spans.kind == _SERVER) & (spans.parent >= 0)
    answered[spans.parent[served]] = True
    call = (spans.kind == _CLIENT) | (spans.kind == _PRODUCER)
    charged = np.where(call & ~answered & (spans.peer >= 0), spans.peer, spans.service)
    found = names[charged]
    if entry:
        found = np.where((spans.parent == -1) & (spans.kind == _CLIENT), entry, found)
    return found


def service_times(spans: SpanTable, entry: str) -> tuple[ServiceTime, ...]:
    """Self time per span and its share of all root time, per service, the largest share first.

    Shares add up to more than one where services work in parallel.
    """
    if not len(spans):
        return ()
    own = self_time_ns(spans)
    names, index = np.unique(charged_to(spans, entry), return_inverse=True)
    root = spans.parent == -1
    root_ns = float((spans.end_ns - spans.start_ns)[root].sum())
    found = []
    for number, name in enumerate(names):
        times_ms = own[index == number] / 1e6
        found.append(
            ServiceTime(
                service=str(name),
                spans=len(times_ms),
                mean_ms=float(times_ms.mean()),
                p95_ms=float(np.quantile(times_ms, 0.95, method="inverted_cdf")),
                share=float(times_ms.sum() * 1e6) / root_ns if root_ns else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.share, one.service)))


def _waited_for(spans: SpanTable) -> NDArray[np.bool_]:
    """Rows whose parent waits for them."""
    has_parent = spans.parent >= 0
    sent = np.zeros(len(spans), dtype=np.bool_)
    sent[has_parent] = spans.kind[spans.parent[has_parent]] == _PRODUCER
    waited: NDArray[np.bool_] = has_parent & ~spans.follows & ~(sent & (spans.kind == _CONSUMER))
    return waited
