"""Linking of spans to their parents, which turns raw spans into the span table.

A trace with a fault is rejected whole and counted, because half a trace has wrong self times and a wrong path.
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
    """Spans as a reader delivers them, before they are linked.

    ``columns``: those of a span table, rows in any order, with ``parent_id`` (0 for a root, since an id is never zero)
    in place of the parent's row.  ``spoilt``, shape (traces,): True for a trace with a malformed span; that span has no
    row.
    """

    traces: Sequence[str]
    spoilt: NDArray[np.bool_]
    strings: Sequence[str]
    columns: Mapping[str, NDArray[Any]]


def link(raw: RawSpans) -> tuple[SpanTable, Mapping[str, int]]:
    """Return the table of all sound traces, its rows grouped by trace, and reason -> number of rejected traces."""
    order = _trace_order(raw.columns["trace"])
    columns = {name: column if order is None else column[order] for name, column in raw.columns.items()}
    columns["parent"], verdict = _link(columns["trace"], columns["span_id"], columns.pop("parent_id"), len(raw.traces))
    verdict[raw.spoilt] = _MALFORMED
    counts = {reason: int((verdict == code).sum()) for code, reason in enumerate(_REASONS) if code != _SOUND}
    table = only_traces(SpanTable(raw.traces, raw.strings, **columns), verdict == _SOUND)
    return table, {reason: count for reason, count in counts.items() if count}


def _trace_order(trace: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Return the order of rows that groups them by trace; None where they are grouped already."""
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
    """Return each parent's row (-1: a root), and each trace's verdict (0: sound); a trace without spans has no root.

    A hash table with open addressing finds the parents of one trace after the other.  A slot counts as empty when
    another trace wrote it, so the table is never cleared.
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
        if problem == 0 and _has_cycle(parent, state, begin, end):
            problem = _CYCLE
        verdict[number] = problem
        begin = end
    return parent, verdict


@numba.njit(cache=True, nogil=True, inline="always")
def _slot(key: np.uint64, mask: np.uint64) -> np.uint64:
    """Return an id's slot by Fibonacci hashing, since ids may not be random."""
    return ((key ^ (key >> np.uint64(32))) * np.uint64(11400714819323198485) >> np.uint64(20)) & mask


@numba.njit(cache=True, nogil=True)
def _has_cycle(parent: NDArray[np.int64], state: NDArray[np.int8], begin: int, end: int) -> bool:
    """Return whether the parents of some row of the trace lead back to it."""
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
