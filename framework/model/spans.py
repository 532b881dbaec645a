"""The columnar span table that all code for traces shares.

One row per span, numpy columns, strings interned: a million spans are a handful of arrays, not a million objects.
Times are integer nanoseconds.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("internal", "server", "client", "producer", "consumer")


COLUMNS: Mapping[str, type[np.generic]] = {
    "trace": np.int32, "span_id": np.uint64, "parent": np.int64, "follows": np.bool_, "service": np.int32,
    "operation": np.int32, "peer": np.int32, "host": np.int32, "address": np.int32, "kind": np.int8,
    "error": np.bool_, "start_ns": np.int64, "end_ns": np.int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpanTable:
    """Spans as columns, all of shape (n,).

    ``trace``: row's trace, an index into ``traces``.  ``span_id``: 64-bit id (unique in its trace only).  ``parent``:
    row of the parent in this table, -1 for a root, -2 when the parent is missing.  ``follows``: True when the reference
    to the parent is FOLLOWS_FROM, not CHILD_OF.  ``service``, ``operation``, ``peer``: indices into ``strings`` (peer
    -1: none).  ``host``: the host's id, ``address``: its address or name, indices into ``strings`` (-1: not known);
    they identify the clock of a span's times.  ``kind``: index into KINDS.  ``error``: the span's status is error.
    """

    traces: Sequence[str]
    strings: Sequence[str]
    trace: NDArray[np.int32]
    span_id: NDArray[np.uint64]
    parent: NDArray[np.int64]
    follows: NDArray[np.bool_]
    service: NDArray[np.int32]
    operation: NDArray[np.int32]
    peer: NDArray[np.int32]
    host: NDArray[np.int32]
    address: NDArray[np.int32]
    kind: NDArray[np.int8]
    error: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.span_id)


@dataclass(frozen=True, slots=True)
class RootSpan:
    """Root span of one request that the load generator kept: ``trace`` has 32 hexadecimal digits; times in ns."""

    trace: str
    span_id: int
    operation: str
    error: bool
    start_ns: int
    end_ns: int


def no_spans() -> SpanTable:
    """Return a table without rows."""
    return SpanTable((), (), **{name: np.empty(0, kind) for name, kind in COLUMNS.items()})


def only_traces(spans: SpanTable, wanted: NDArray[np.bool_]) -> SpanTable:
    """Return the table of the traces marked in ``wanted``, shape (traces,), with traces and parents renumbered."""
    if wanted.all():
        return spans
    keep = wanted[spans.trace]
    columns = {name: getattr(spans, name)[keep] for name in COLUMNS}
    columns["trace"] = (np.cumsum(wanted) - 1).astype(np.int32)[columns["trace"]]
    row = np.cumsum(keep) - 1
    columns["parent"] = np.where(columns["parent"] >= 0, row[np.maximum(columns["parent"], 0)], columns["parent"])
    return SpanTable(tuple(spans.traces[index] for index in np.flatnonzero(wanted).tolist()), spans.strings, **columns)


def packed(spans: SpanTable, most: int) -> bytes:
    """Return the first ``most`` traces of a table as the bytes of a numpy npz file."""
    kept = only_traces(spans, np.arange(len(spans.traces)) < most)
    buffer = io.BytesIO()
    columns: dict[str, Any] = {name: getattr(kept, name) for name in COLUMNS}
    np.savez(buffer, traces=np.array(kept.traces, str), strings=np.array(kept.strings, str), **columns)
    return buffer.getvalue()


def unpacked(data: bytes) -> SpanTable:
    """Return the table of bytes that ``packed`` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in COLUMNS}
        return SpanTable(tuple(arrays["traces"].tolist()), tuple(arrays["strings"].tolist()), **columns)


@dataclass(frozen=True, slots=True)
class TraceSet:
    """Spans of the sound traces of some sources, with an account of the others.

    ``rejected``: reason -> number of traces.  ``unreadable``: document -> reason.
    """

    sources: tuple[str, ...]
    spans: SpanTable
    rejected: Mapping[str, int]
    unreadable: Mapping[str, str]
