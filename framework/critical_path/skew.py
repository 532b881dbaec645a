"""Clock skew: spans of several hosts carry several clocks, and a child seems to lie outside its parent.

The adjustment is that of Jaeger's clock-skew adjuster: a child of another host that does not fit into its parent is
shifted, with everything below it on the same host, as little as says something: to its parent's start when it lasts
longer, else to its middle, as if the way there and back took equally long.  Parents come before children.

``auto`` compares only hosts that are known by their ``host.id``: containers of one machine share its clock though
their addresses differ.  ``on`` compares addresses (the process tags ``ip``, else ``hostname``), and takes a span of
unknown address to be elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from framework.critical_path.extract import children_of
from framework.model.spans import SpanTable
from framework.numba_cache import numba

Mode = Literal["auto", "on", "off"]
UNKNOWN = -1


def adjusted(spans: SpanTable, mode: Mode = "auto") -> SpanTable:
    """The table with its times adjusted; the same table where nothing has to move."""
    if mode == "off" or not len(spans):
        return spans
    shift = _shifts(spans.parent, spans.start_ns, spans.end_ns, spans.host if mode == "auto" else spans.address,
                    mode == "on")  # fmt: skip
    if not shift.any():
        return spans
    return replace(spans, start_ns=spans.start_ns + shift, end_ns=spans.end_ns + shift)


@numba.njit(cache=True, nogil=True)
def _shifts(
    parent: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    host: NDArray[np.int32],
    unknown_is_elsewhere: bool,
) -> NDArray[np.int64]:
    """By how much each span moves; shape (n,)."""
    count = len(parent)
    first, child = children_of(parent, parent >= 0)
    shift = np.zeros(count, np.int64)
    clock = host.copy()  # the host whose shift a span carries: its own, or its parent's where it is unknown
    stack = np.empty(count, np.int64)
    for root in range(count):
        if parent[root] != -1:
            continue
        stack[0] = root
        top = 0
        while top >= 0:
            row = stack[top]
            top -= 1
            for place in range(first[row], first[row + 1]):
                one = child[place]
                if unknown_is_elsewhere:
                    moves = host[one] != clock[row] or host[one] == UNKNOWN
                else:
                    moves = host[one] != UNKNOWN and clock[row] != UNKNOWN and host[one] != clock[row]
                    if host[one] == UNKNOWN:
                        clock[one] = clock[row]
                shift[one] = (
                    _into(start[one], end[one], start[row] + shift[row], end[row] + shift[row])
                    if moves
                    else (shift[row])
                )
                top += 1
                stack[top] = one
    return shift


@numba.njit(cache=True, nogil=True, inline="always")
def _into(start: int, end: int, parent_start: int, parent_end: int) -> int:
    """The shift that brings a child into its parent."""
    if end - start > parent_end - parent_start:
        return max(0, parent_start - start)
    if start >= parent_start and end <= parent_end:
        return 0
    return parent_start + (parent_end - parent_start - (end - start)) // 2 - start
