"""Clock skew: spans of several hosts have times of several clocks, so that a child may lie outside its parent.

The adjustment is that of Jaeger's clock-skew adjuster: a child of another host that does not fit into its parent is
shifted, with everything below it on the same host: to its parent's start where it is longer than its parent, else to
its parent's middle, as if both ways of the network took equally long.  Parents are adjusted before children.

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
    """Return the table with its times adjusted; the table itself where no span moves."""
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
    """Return the shift of each span in ns; shape (n,)."""
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
                below = child[place]
                if unknown_is_elsewhere:
                    moves = host[below] != clock[row] or host[below] == UNKNOWN
                else:
                    moves = host[below] != UNKNOWN and clock[row] != UNKNOWN and host[below] != clock[row]
                    if host[below] == UNKNOWN:
                        clock[below] = clock[row]
                shift[below] = (
                    _into(start[below], end[below], start[row] + shift[row], end[row] + shift[row])
                    if moves
                    else shift[row]
                )
                top += 1
                stack[top] = below
    return shift


@numba.njit(cache=True, nogil=True, inline="always")
def _into(start: int, end: int, parent_start: int, parent_end: int) -> int:
    """Return the shift in ns that moves a child into its parent."""
    if end - start > parent_end - parent_start:
        return max(0, parent_start - start)
    if start >= parent_start and end <= parent_end:
        return 0
    return parent_start + (parent_end - parent_start - (end - start)) // 2 - start
