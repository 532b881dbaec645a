"""From spans as they were read to the span table: whole traces only, every parent found, each rejection counted.

A trace is rejected whole, because half a trace has wrong self times and a wrong path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.model.spans import SpanTable, only_traces
from framework.numba_cache import numba

MALFORMED = "malformed field"
ROOTS = "roots other than one"
DUPLICATE = "duplicate span id"
ORPHAN = "missing parent"
CYCLE = "cycle of parents"
TWICE = "trace twice"

_SOUND = 0
_REASONS = ("", ROOTS, DUPLICATE, ORPHAN, CYCLE, MALFORMED)
_ROOTS, _DUPLICATE, _ORPHAN, _CYCLE, _MALFORMED = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class RawSpans:
    """Spans as a reader found them.

    ``columns``: those of a span table, rows in any order, with ``parent_id`` (0 for a root, since an id is never zero)
    in place of the parent's row.  ``spoilt``, shape (traces,): traces that have a malformed span, which is not among
    the rows.
    """

    traces: Sequence[str]
    spoilt: NDArray[np.bool_]
    strings: Sequence[str]
    columns: Mapping[str, NDArray[Any]]


def link(raw: RawSpans) -> tuple[SpanTable, Mapping[str, int]]:
    """The table of all sound traces, its rows grouped by trace, and how many traces were rejected for which reason."""
    order = _grouped(raw.columns["trace"])
    columns = {name: column if order is None else column[order] for name, column in raw.columns.items()}
    columns["parent"], verdict = _link(columns["trace"], columns["span_id"], columns.pop("parent_id"), len(raw.traces))
    verdict[raw.spoilt] = _MALFORMED
    counts = {reason: int((verdict == code).sum()) for code, reason in enumerate(_REASONS) if code != _SOUND}
    table = only_traces(SpanTable(raw.traces, raw.strings, **columns), verdict == _SOUND)
    return table, {reason: count for reason, count in counts.items() if count}


def _grouped(trace: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """The order that brings the rows of a trace together; None where they are already."""
    if (np.diff(trace) >= 0).all():
        return None
    return np.argsort(trace, kind="stable")


@numba.njit(cache=True, nogil=True)
def _link(
    trace: NDArray[np.int32],
    span_id: NDArray[np.uint64],
    parent_id: NDArray[np.uint64],
    traces: int,
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Row of each parent (-1: a root), and what is wrong with each trace; a trace without spans has no root.

    A hash table with open addressing finds the parents of one trace after the other; its slots are cleared by
    remembering which trace wrote them.
    """
    count = len(trace)
    parent = np.full(count, -1, np.int64)
    verdict = np.full(traces, _ROOTS, np.int8)
    longest = 0
    begin = 0
    while begin < count:
        end = begin
        while end < count and trace[end] == trace[begin]:
            end += 1
        longest = max(longest, end - begin)
        begin = end
    size = 4
    while size < 2 * longest:
        size *= 2
    mask = np.uint64(size - 1)
    slot_row = np.empty(size, np.int64)
    slot_trace = np.full(size, -1, np.int64)
    state = np.zeros(count, np.int8)  # 0: not looked at, 1: on the way up now, 2: reaches its root
    begin = 0
    while begin < count:
        number = trace[begin]
        end = begin
        while end < count and trace[end] == number:
            end += 1
        roots = 0
        problem = 0
        for row in range(begin, end):
            slot = _slot(span_id[row], mask)
            while slot_trace[slot] == number and span_id[slot_row[slot]] != span_id[row]:
                slot = (slot + np.uint64(1)) & mask
            if slot_trace[slot] == number:
                problem = _DUPLICATE
                break
            slot_trace[slot] = number
            slot_row[slot] = row
        if problem == 0:
            for row in range(begin, end):
                if parent_id[row] == 0:
                    roots += 1
                    continue
                slot = _slot(parent_id[row], mask)
                while slot_trace[slot] == number and span_id[slot_row[slot]] != parent_id[row]:
                    slot = (slot + np.uint64(1)) & mask
                if slot_trace[slot] != number:
                    problem = _ORPHAN
                    break
                parent[row] = slot_row[slot]
        if problem == 0 and roots != 1:
            problem = _ROOTS
        if problem == 0 and _circular(parent, state, begin, end):
            problem = _CYCLE
        verdict[number] = problem
        begin = end
    return parent, verdict


@numba.njit(cache=True, nogil=True, inline="always")
def _slot(key: np.uint64, mask: np.uint64) -> np.uint64:
    """Fibonacci hashing: ids need not be random."""
    return ((key ^ (key >> np.uint64(32))) * np.uint64(11400714819323198485) >> np.uint64(20)) & mask


@numba.njit(cache=True, nogil=True)
def _circular(parent: NDArray[np.int64], state: NDArray[np.int8], begin: int, end: int) -> bool:
    """Whether the way up from some row of the trace comes back to itself."""
    for row in range(begin, end):
        at = row
        while at >= 0 and state[at] == 0:
            state[at] = 1
            at = parent[at]
        if at >= 0 and state[at] == 1:
            return True
        at = row
        while at >= 0 and state[at] == 1:
            state[at] = 2
            at = parent[at]
    return False
