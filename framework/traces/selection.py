"""Whole traces chosen out of a span table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from framework.spans import SpanTable


def without_traces(spans: SpanTable, unwanted: NDArray[np.bool_]) -> SpanTable:
    """The table without every trace that has a row marked in ``unwanted``, shape (n,); the rest is renumbered."""
    if not unwanted.any():
        return spans
    keep = ~np.isin(spans.trace, np.unique(spans.trace[unwanted]))
    kept, trace = np.unique(spans.trace[keep], return_inverse=True)
    parent = spans.parent[keep]
    row = np.cumsum(keep) - 1
    return SpanTable(
        traces=tuple(spans.traces[index] for index in kept),
        strings=spans.strings,
        trace=trace.astype(np.int32),
        span_id=spans.span_id[keep],
        parent=np.where(parent >= 0, row[np.maximum(parent, 0)], parent),
        follows=spans.follows[keep],
        service=spans.service[keep],
        operation=spans.operation[keep],
        peer=spans.peer[keep],
        host=spans.host[keep],
        address=spans.address[keep],
        kind=spans.kind[keep],
        error=spans.error[keep],
        start_ns=spans.start_ns[keep],
        end_ns=spans.end_ns[keep],
    )
