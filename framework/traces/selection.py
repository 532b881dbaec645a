"""Whole traces chosen out of a span table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from framework.spans import COLUMNS, SpanTable


def only_traces(spans: SpanTable, wanted: NDArray[np.bool_]) -> SpanTable:
    """The table of the traces marked in ``wanted``, shape (traces,), renumbered; parents lie in their child's trace."""
    if wanted.all():
        return spans
    keep = wanted[spans.trace]
    columns = {name: getattr(spans, name)[keep] for name in COLUMNS}
    columns["trace"] = (np.cumsum(wanted) - 1).astype(np.int32)[columns["trace"]]
    row = np.cumsum(keep) - 1
    columns["parent"] = np.where(columns["parent"] >= 0, row[np.maximum(columns["parent"], 0)], columns["parent"])
    return SpanTable(tuple(spans.traces[index] for index in np.flatnonzero(wanted).tolist()), spans.strings, **columns)
