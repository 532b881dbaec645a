"""Spans of a simulated run, in the table that readers of real traces return.

A call between traced services has two spans, the caller's and the callee's.  A service that sends no spans appears only
in its caller's span, which names it as the peer.  The root span is the load generator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.waiting import CLIENT, SERVER
from framework.model.spans import SpanTable
from framework.model.twin import TwinOperation
from framework.twin.simulator.simulate import Outcome

Longs = NDArray[np.int64]


def span_table(
    outcome: Outcome,
    operations: Sequence[TwinOperation],
    traced: Sequence[bool],
    chosen: NDArray[np.bool_],
    *,
    generator: str,
    origin_ns: int,
) -> SpanTable:
    """Return the spans of the chosen requests.  ``traced``: whether each operation's service sends spans, (o,).

    ``chosen``: whether to return a request's spans, (r,); unanswered calls have none.  ``origin_ns``: start of the run.
    """
    rows = np.flatnonzero(chosen[outcome.span_request] & (outcome.span_end >= 0))
    place = np.full(len(outcome.span_op), -1, np.int64)
    place[rows] = np.arange(len(rows))
    op, above = outcome.span_op[rows], outcome.span_parent[rows]
    root = above < 0
    above = np.where(root, -1, place[np.maximum(above, 0)])
    sends = np.asarray(traced, np.bool_)
    known = root | (above >= 0)  # the call above it has ended too
    caller = np.where(root, 0, op[np.maximum(above, 0)])
    client = known & ~root & sends[caller]
    server = known & ~root & sends[op]
    first = np.cumsum(np.where(root, 1, client.astype(np.int64) + server)) - np.where(
        root, 1, client.astype(np.int64) + server
    )
    count = int(np.where(root, 1, client.astype(np.int64) + server).sum())
    own = np.where(root, first, np.where(server, first + client, -1))  # the span that stands for the operation itself
    over = np.where(root, -1, own[np.maximum(above, 0)])
    over = np.where(~root & (over < 0) & (above >= 0), _outer(own, above), over)
    names, operation_names, index = _strings(operations, generator)
    columns = _Columns(count)
    start, enter, end = (
        origin_ns + np.round(times[rows] * 1e9).astype(np.int64)
        for times in (outcome.span_start, outcome.span_enter, outcome.span_end)
    )
    request = outcome.span_request[rows]
    failed = outcome.failed[request]
    service_of = index[op]
    columns.put(
        first[root],
        request[root],
        -1,
        names.index(generator),
        operation_names[op[root]],
        CLIENT,
        start[root],
        end[root],
        failed[root],
    )
    columns.put(
        first[client], request[client], over[client], index[caller[client]], operation_names[op[client]], CLIENT,
        start[client], end[client], False, peer=service_of[client],
    )  # fmt: skip
    above_server = np.where(client, first, over)
    columns.put(
        (first + client)[server], request[server], above_server[server], service_of[server],
        operation_names[op[server]], SERVER, enter[server], end[server], False,
    )  # fmt: skip
    return columns.table(names)


def _outer(own: Longs, above: Longs) -> Longs:
    """Return the span of the nearest operation above that has one; -1 where none has."""
    at = above.copy()
    for _ in range(len(own)):
        missing = (at >= 0) & (own[np.maximum(at, 0)] < 0)
        if not missing.any():
            break
        at[missing] = above[at[missing]]
    return np.where(at >= 0, own[np.maximum(at, 0)], -1)


def _strings(operations: Sequence[TwinOperation], generator: str) -> tuple[list[str], Longs, Longs]:
    """Return all strings, and for each operation the index of its name and of its service."""
    services, names = [o.service for o in operations], [o.operation for o in operations]
    strings = list(dict.fromkeys([generator, *services, *names]))
    place = {text: number for number, text in enumerate(strings)}
    return (
        strings,
        np.array([place[name] for name in names], np.int64),
        np.array([place[service] for service in services], np.int64),
    )


class _Columns:
    """A span table that is filled in parts."""

    def __init__(self, count: int) -> None:
        self.trace = np.zeros(count, np.int32)
        self.parent = np.full(count, -1, np.int64)
        self.service = np.zeros(count, np.int32)
        self.operation = np.zeros(count, np.int32)
        self.peer = np.full(count, -1, np.int32)
        self.kind = np.zeros(count, np.int8)
        self.error = np.zeros(count, np.bool_)
        self.start = np.zeros(count, np.int64)
        self.end = np.zeros(count, np.int64)

    def put(
        self, at: Longs, trace: Any, parent: Any, service: Any, operation: Any, kind: int, start: Any, end: Any,
        error: Any, peer: Any = -1,
    ) -> None:  # fmt: skip
        """Set the rows ``at`` of every column."""
        for column, values in (
            (self.trace, trace), (self.parent, parent), (self.service, service), (self.operation, operation),
            (self.kind, kind), (self.start, start), (self.end, end), (self.error, error), (self.peer, peer),
        ):  # fmt: skip
            column[at] = values

    def table(self, strings: Sequence[str]) -> SpanTable:
        """Return the table, with the traces numbered from 0 in the order of their requests."""
        requests, trace = np.unique(self.trace, return_inverse=True)
        order = np.argsort(trace, kind="stable")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        parent = self.parent[order]
        count, nothing = len(order), np.full(len(order), -1, np.int32)
        return SpanTable(
            traces=tuple(f"{number:x}" for number in requests.tolist()),
            strings=tuple(strings),
            trace=trace[order].astype(np.int32),
            span_id=np.arange(1, count + 1, dtype=np.uint64),
            parent=np.where(parent >= 0, back[np.maximum(parent, 0)], -1),
            follows=np.zeros(count, np.bool_),
            service=self.service[order],
            operation=self.operation[order],
            peer=self.peer[order],
            host=nothing,
            address=nothing.copy(),
            kind=self.kind[order],
            error=self.error[order],
            start_ns=self.start[order],
            end_ns=self.end[order],
        )
