"""Span tables written as short rows, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np

from framework.model.spans import KINDS, SpanTable


class Row(NamedTuple):
    """One span; ``parent`` is the index of its parent's row, times are nanoseconds."""

    service: str
    start: int
    end: int
    parent: int = -1
    kind: str = "internal"
    peer: str = ""
    follows: bool = False
    error: bool = False
    trace: int = 0
    host: str = ""
    address: str = ""


def span_table(rows: Sequence[Row]) -> SpanTable:
    names = (name for row in rows for name in (row.service, row.peer, row.host, row.address))
    strings = list(dict.fromkeys(name for name in names if name))
    return SpanTable(
        traces=tuple(f"{number:x}" for number in range(max((row.trace for row in rows), default=-1) + 1)),
        strings=tuple(strings),
        trace=np.array([row.trace for row in rows], dtype=np.int32),
        span_id=np.arange(1, len(rows) + 1, dtype=np.uint64),
        parent=np.array([row.parent for row in rows], dtype=np.int64),
        follows=np.array([row.follows for row in rows], dtype=np.bool_),
        service=np.array([strings.index(row.service) for row in rows], dtype=np.int32),
        operation=np.array([strings.index(row.service) for row in rows], dtype=np.int32),
        peer=np.array([strings.index(row.peer) if row.peer else -1 for row in rows], dtype=np.int32),
        host=np.array([strings.index(row.host) if row.host else -1 for row in rows], dtype=np.int32),
        address=np.array([strings.index(row.address) if row.address else -1 for row in rows], dtype=np.int32),
        kind=np.array([KINDS.index(row.kind) for row in rows], dtype=np.int8),
        error=np.array([row.error for row in rows], dtype=np.bool_),
        start_ns=np.array([row.start for row in rows], dtype=np.int64),
        end_ns=np.array([row.end for row in rows], dtype=np.int64),
    )


def shuffled(table: SpanTable, order: Sequence[int]) -> SpanTable:
    """Return the spans with row ``order[k]`` as row k."""
    place = np.argsort(order)
    columns = {
        field.name: getattr(table, field.name)[list(order)]
        for field in fields(table)
        if field.name not in ("traces", "strings", "parent")
    }
    parent = table.parent[list(order)]
    return replace(table, **columns, parent=np.where(parent >= 0, place[np.maximum(parent, 0)], parent))
