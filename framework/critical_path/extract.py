"""The critical path: at each moment of a request, the one span that it was waiting for.

Walk back from the end of the root.  The child that finished last before the cursor is what its parent waited for; the
gap between its end and the cursor was the parent's own; then go on from that child's start.  Every child on the path
is walked likewise, so the sections of a trace are contiguous, disjoint and add up to its root.

The sweep is that of Jaeger's web page and of CRISP (Zhang et al., USENIX ATC'22), with ends that touch the cursor
counted as before it.  Children are clipped to their parents first, parents before children; a child outside is left
out.  Only children that their parent waits for take part: no spans that merely follow, no consumers of its messages.

One pass over the whole table, compiled with numba: no Python object per span, no recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.waiting import waited_for
from framework.model.spans import SpanTable
from framework.numba_cache import numba

Int64s = NDArray[np.int64]
SMALL = 24
"""Up to this number, siblings are sorted by insertion, above it by radix sort."""
DIGIT_BITS = 11
DIGIT = np.uint64((1 << DIGIT_BITS) - 1)
"""A digit of the radix sort."""


@dataclass(frozen=True, slots=True)
class Sections:
    """Sections of critical paths, newest first within a trace; columns of shape (m,), times in ns.

    ``row``: the span, a row of the table that they were extracted from.
    """

    row: Int64s
    start_ns: Int64s
    end_ns: Int64s

    def __len__(self) -> int:
        return len(self.row)


def path_time_ns(spans: SpanTable, *, tolerance: float = 0.0) -> Int64s:
    """Return the time of each span on the critical path in ns; shape (n,), adds up to the roots' durations.

    ``tolerance``: siblings that overlap by less than this fraction of their parent's duration count as one after the
    other; the earlier one is cut (CRISP uses 0.01).
    """
    return _extract(spans, tolerance, keep=False)[0]


def sections(spans: SpanTable, *, tolerance: float = 0.0) -> Sections:
    """Return the sections of all critical paths, trace after trace in the order of their roots' rows."""
    return _extract(spans, tolerance, keep=True)[1]


def _extract(spans: SpanTable, tolerance: float, *, keep: bool) -> tuple[Int64s, Sections]:
    own, row, start, end = _sweep(
        spans.parent, waited_for(spans), spans.start_ns, spans.end_ns, spans.span_id, tolerance, keep
    )
    return own, Sections(row, start, end)


@numba.njit(cache=True, nogil=True)
def children_of(parent: Int64s, wanted: NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """Return (first, child): the wanted children of row p are ``child[first[p] : first[p + 1]]``, in row order."""
    count = len(parent)
    first = np.zeros(count + 1, np.int64)
    for row in range(count):
        if wanted[row]:
            first[parent[row] + 1] += 1
    for row in range(count):
        first[row + 1] += first[row]
    place = first[:-1].copy()
    child = np.empty(first[count], np.int64)
    for row in range(count):
        if wanted[row]:
            child[place[parent[row]]] = row
            place[parent[row]] += 1
    return first, child


@numba.njit(cache=True, nogil=True, inline="always")
def _before(a: Any, b: Any, start: Int64s, end: Int64s, span_id: NDArray[np.uint64]) -> Any:
    """Return whether sibling ``a`` is visited before ``b``: ends later, then starts later, then the smaller id."""
    if end[a] != end[b]:
        return end[a] > end[b]
    if start[a] != start[b]:
        return start[a] > start[b]
    return span_id[a] < span_id[b]


@numba.njit(cache=True, nogil=True)
def _sort(rows: Int64s, start: Int64s, end: Int64s, span_id: NDArray[np.uint64]) -> None:
    """Sort siblings in place into the order in which they are visited."""
    if len(rows) <= SMALL:
        _insert(rows, start, end, span_id)
        return
    _latest_first(rows, end)
    for low, high in _equal(end[rows]):
        tied = rows[low:high]
        if len(tied) <= SMALL:
            _insert(tied, start, end, span_id)
            continue
        _latest_first(tied, start)
        for left, right in _equal(start[tied]):
            same = tied[left:right]
            same[:] = same[np.argsort(span_id[same], kind="mergesort")]


@numba.njit(cache=True, nogil=True)
def _insert(rows: Int64s, start: Int64s, end: Int64s, span_id: NDArray[np.uint64]) -> None:
    for i in range(1, len(rows)):
        row = rows[i]
        j = i - 1
        while j >= 0 and _before(row, rows[j], start, end, span_id):
            rows[j + 1] = rows[j]
            j -= 1
        rows[j + 1] = row


@numba.njit(cache=True, nogil=True)
def _latest_first(rows: Int64s, time: Int64s) -> None:
    """Sort by a time, newest first, stable: radix sort, linear for any input."""
    count = len(rows)
    newest = np.uint64(time[rows].max())
    age = newest - time[rows].astype(np.uint64)  # modulo 2**64, so right for any two int64
    oldest = age.max()
    sorted_rows, sorted_age = np.empty_like(rows), np.empty_like(age)
    shift = np.uint64(0)
    while shift < 64 and oldest >> shift > 0:
        place = np.zeros((1 << DIGIT_BITS) + 1, np.int64)
        for value in age:
            place[((value >> shift) & DIGIT) + np.uint64(1)] += 1
        for digit in range(1 << DIGIT_BITS):
            place[digit + 1] += place[digit]
        for at in range(count):
            digit = (age[at] >> shift) & DIGIT
            sorted_rows[place[digit]], sorted_age[place[digit]] = rows[at], age[at]
            place[digit] += 1
        rows[:], age[:] = sorted_rows, sorted_age
        shift += np.uint64(DIGIT_BITS)


@numba.njit(cache=True, nogil=True)
def _equal(values: Int64s) -> list[tuple[int, int]]:
    """Return [low, high) of each run of two or more equal neighbours."""
    runs = [(0, 0) for _ in range(0)]  # tells numba the type
    low = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[low]:
            if at - low > 1:
                runs.append((low, at))
            low = at
    return runs


@numba.njit(cache=True, nogil=True)
def _sweep(
    parent: Int64s,
    waited: NDArray[np.bool_],
    start_ns: Int64s,
    end_ns: Int64s,
    span_id: NDArray[np.uint64],
    tolerance: float,
    keep: bool,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Return the time of each row on the path, and the sections (empty unless ``keep``).

    A frame of the stack is a span being walked: its row, the next child to look at, the end of its children, and the
    cursor.
    """
    count = len(parent)
    first, child = children_of(parent, waited)
    start, end = start_ns.copy(), end_ns.copy()  # clipped as the walk goes down
    own = np.zeros(count, np.int64)
    # A span on the path is cut into one section more than it has children on it.
    room = 2 * count if keep else 0
    at_row, at_start, at_end = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    cut = 0
    depth = 64
    frames = np.empty((depth, 4), np.int64)
    for root in range(count):
        if parent[root] != -1:
            continue
        top = 0
        frames[0, 0], frames[0, 1] = root, first[root]
        frames[0, 2] = _enter(root, first, child, start, end, span_id)
        frames[0, 3] = end[root]
        while top >= 0:
            row, place, last, cursor = frames[top, 0], frames[top, 1], frames[top, 2], frames[top, 3]
            below = np.int64(-1)
            allowed = tolerance * (end[row] - start[row])
            while place < last:
                candidate = child[place]
                place += 1
                if end[candidate] > cursor and end[candidate] - cursor < allowed and start[candidate] < cursor:
                    end[candidate] = cursor
                if end[candidate] <= cursor and end[candidate] > start[candidate]:
                    below = candidate
                    break
            low = start[row] if below < 0 else end[below]
            own[row] += cursor - low
            if keep and cursor > low:
                at_row[cut], at_start[cut], at_end[cut] = row, low, cursor
                cut += 1
            if below < 0:
                top -= 1
                continue
            frames[top, 1], frames[top, 3] = place, start[below]
            top += 1
            if top == depth:
                wider = np.empty((2 * depth, 4), np.int64)
                wider[:depth] = frames
                frames, depth = wider, 2 * depth
            frames[top, 0], frames[top, 1] = below, first[below]
            frames[top, 2] = _enter(below, first, child, start, end, span_id)
            frames[top, 3] = end[below]
    return own, at_row[:cut], at_start[:cut], at_end[:cut]


@numba.njit(cache=True, nogil=True)
def _enter(row: Any, first: Int64s, child: Int64s, start: Int64s, end: Int64s, span_id: NDArray[np.uint64]) -> Any:
    """Clip the children of ``row`` to it, move those that are left to the front, sorted; return where they end."""
    last = first[row]
    for place in range(first[row], first[row + 1]):
        below = child[place]
        if start[below] >= end[row] or end[below] <= start[row]:
            continue
        start[below] = max(start[below], start[row])
        end[below] = min(end[below], end[row])
        child[last] = below
        last += 1
    _sort(child[first[row] : last], start, end, span_id)
    return last
