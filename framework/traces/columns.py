"""Columns in which readers collect spans for the span table, in any order and with interned strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.model import spans
from framework.model.spans import KINDS, SpanTable
from framework.traces.link import TWICE, RawSpans, link

KIND: Mapping[str, int] = {name: index for index, name in enumerate(KINDS)}
CALLS = (KIND["client"], KIND["producer"])  # a server span's server.address is the server itself
PEER_RANK = {"peer.service": 3, "server.address": 2, "net.peer.name": 1}  # of attributes that name a peer
NONE = -1  # no such string
ROOT = 0  # no parent: an id is never zero (W3C Trace Context)
LATEST_NS = 2**62  # leaves room in an int64 for differences and sums of a few times
CHUNK = 1 << 16  # spans

COLUMNS = {name: kind for name, kind in spans.COLUMNS.items() if name != "parent"} | {"parent_id": np.uint64}


class SpanColumns:
    """Collection of spans, one list per column; readers append to the lists, since a call per span would cost more.

    Lists become arrays every 65,536 spans, so that a span costs bytes and not objects.  Times are in nanoseconds.
    ``rejected``: reason -> traces.
    """

    def __init__(self) -> None:
        self._traces: dict[str, int] = {}
        self._strings: dict[str, int] = {}
        self._chunks: list[dict[str, NDArray[Any]]] = []
        self._count = 0
        self._spoilt: set[int] = set()
        self.rejected: dict[str, int] = {}
        self.clear()

    def clear(self) -> None:
        """Empty the lists; spans that were flushed to arrays stay."""
        self.trace: list[int] = []
        self.span_id: list[int] = []
        self.parent_id: list[int] = []  # ROOT: no parent
        self.follows: list[bool] = []
        self.service: list[int] = []
        self.operation: list[int] = []
        self.peer: list[int] = []
        self.host: list[int] = []
        self.address: list[int] = []
        self.kind: list[int] = []
        self.error: list[bool] = []
        self.start_ns: list[int] = []
        self.end_ns: list[int] = []

    def __len__(self) -> int:
        return self._count + len(self.span_id)

    def number(self, trace: str) -> int:
        """Return the number of a trace, a new one if its id is new."""
        return self._traces.setdefault(trace, len(self._traces))

    def known(self, trace: str) -> bool:
        return trace in self._traces

    def intern(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def optional(self, text: str | None) -> int:
        return NONE if text is None else self._strings.setdefault(text, len(self._strings))

    def reject(self, reason: str, traces: int = 1) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + traces

    def spoil(self, trace: int) -> None:
        """Mark a trace that has a malformed span: it will be rejected whole."""
        self._spoilt.add(trace)

    def added(self) -> None:
        """Note that a trace was added: to be called after each trace, or after a document."""
        if len(self.span_id) >= CHUNK:
            self._flush()

    def raw(self) -> RawSpans:
        """Return all spans so far, not linked yet."""
        self._flush()
        columns = {
            name: np.concatenate([np.empty(0, kind), *(chunk[name] for chunk in self._chunks)])
            for name, kind in COLUMNS.items()
        }
        self._chunks = [columns]
        spoilt = np.zeros(len(self._traces), dtype=np.bool_)
        spoilt[list(self._spoilt)] = True
        return RawSpans(tuple(self._traces), spoilt, tuple(self._strings), columns)

    def absorb(self, raw: RawSpans, rejected: Mapping[str, int], *, whole: bool) -> None:
        """Add the spans of another collection.

        ``whole``: its traces are complete, so one whose id is known already is a duplicate and left out; otherwise a
        trace may have spans in both.
        """
        self._flush()
        twice = np.array([whole and self.known(trace) for trace in raw.traces], dtype=np.bool_)
        numbers = np.array([self.number(trace) for trace in raw.traces], dtype=np.int32)
        strings = np.array([*(self.intern(text) for text in raw.strings), NONE], dtype=np.int32)
        columns = dict(raw.columns)
        keep = ~twice[columns["trace"]]
        columns["trace"] = numbers[columns["trace"]]
        if twice.any():
            columns = {name: column[keep] for name, column in columns.items()}
            self.reject(TWICE, int(twice.sum()))
        for name in ("service", "operation", "peer", "host", "address"):
            columns[name] = strings[columns[name]]  # the last one stands for NONE
        self._chunks.append(columns)
        self._count += len(columns["trace"])
        self._spoilt.update(int(number) for number in numbers[raw.spoilt & ~twice])
        for reason, count in rejected.items():
            self.reject(reason, count)

    def table(self) -> tuple[SpanTable, Mapping[str, int]]:
        """Link the spans so far; returns the sound traces, and reason -> number of rejected traces."""
        table, rejected = link(self.raw())
        names = self.rejected.keys() | rejected.keys()
        return table, {name: self.rejected.get(name, 0) + rejected.get(name, 0) for name in sorted(names)}

    def _flush(self) -> None:
        self._chunks.append({name: np.array(getattr(self, name), dtype=kind) for name, kind in COLUMNS.items()})
        self._count += len(self.span_id)
        self.clear()
