"""Jaeger's JSON becomes the columnar span table, quickly, and one broken trace never costs the others.

Format: the ``data`` of Jaeger's /api/traces and of the files its web page downloads; times are microseconds.
A trace is rejected whole, and counted by reason, because half a trace has wrong self times and a wrong path.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from framework.errors import TracesMissing
from framework.spans import KINDS, SpanTable
from framework.traces.selection import without_traces

MALFORMED = "malformed field"
ROOTS = "roots other than one"
DUPLICATE = "duplicate span id"
ORPHAN = "missing parent"
CYCLE = "cycle of parents"

_KIND = {name: index for index, name in enumerate(KINDS)}
_PEER_KEYS = {"peer.service": 3, "server.address": 2, "net.peer.name": 1}  # which one wins
_CALLS = (_KIND["client"], _KIND["producer"])  # a server span's server.address is the server itself
_LATEST_US = 2**62 // 1000  # in nanoseconds still far from the end of an int64

_Row = tuple[int, int, bool, int, int, int, int, bool, int, int]
"""trace, parent, follows, service, operation, peer, kind, error, start_us, end_us"""


def load(document: bytes) -> list[Any]:
    """The traces of one JSON document.  Raises TracesMissing when it is no Jaeger JSON."""
    try:
        with collector_paused():
            parsed = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise TracesMissing(f"Jaeger's answer is not JSON: {error}") from error
    traces = parsed.get("data") if isinstance(parsed, dict) else None
    if not isinstance(traces, list):
        raise TracesMissing('Jaeger\'s answer has no list under "data"')
    return traces


def spans_of(traces: Iterable[Any]) -> tuple[SpanTable, Mapping[str, int]]:
    """The spans of all sound traces, and how many traces were rejected for which reason."""
    columns = TraceColumns()
    with collector_paused():
        for trace in traces:
            columns.add(trace)
        return columns.table()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without Python's cycle collector, which walks the growing trees over and over: three times as fast."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Rejected(Exception):
    """Why a trace cannot be used."""


class TraceColumns:
    """Collects traces one by one; ``table`` gives what has been collected."""

    def __init__(self) -> None:
        self._traces: list[str] = []
        self._strings: dict[str, int] = {}
        self._ids: list[int] = []
        self._rows: list[_Row] = []
        self._rejected: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, trace: Any) -> None:
        """Take a trace of Jaeger's JSON, or count why not."""
        try:
            identity = trace["traceID"]
            if type(identity) is not str:
                raise _Rejected(MALFORMED)
            ids, rows = self._read(trace, identity)
        except _Rejected as error:
            self._reject(str(error))
        except (KeyError, TypeError, ValueError, AttributeError):
            self._reject(MALFORMED)
        else:
            self._traces.append(identity)
            self._ids += ids
            self._rows += rows

    def table(self) -> tuple[SpanTable, Mapping[str, int]]:
        """The spans so far, and the traces rejected so far by reason."""
        columns = np.array(self._rows, dtype=np.int64).reshape(-1, 10).T
        trace, parent, follows, service, operation, peer, kind, error, start_us, end_us = columns
        spans = SpanTable(
            traces=tuple(self._traces),
            strings=tuple(self._strings),
            trace=trace.astype(np.int32),
            span_id=np.array(self._ids, dtype=np.uint64),
            parent=parent.copy(),
            follows=follows.astype(np.bool_),
            service=service.astype(np.int32),
            operation=operation.astype(np.int32),
            peer=peer.astype(np.int32),
            kind=kind.astype(np.int8),
            error=error.astype(np.bool_),
            start_ns=start_us * 1000,
            end_ns=end_us * 1000,
        )
        sound = without_traces(spans, _in_cycle(spans.parent))
        cycles = len(spans.traces) - len(sound.traces)
        return sound, self._rejected | ({CYCLE: cycles} if cycles else {})

    def _reject(self, reason: str) -> None:
        self._rejected[reason] = self._rejected.get(reason, 0) + 1

    def _intern(self, text: Any) -> int:
        if type(text) is not str:
            raise _Rejected(MALFORMED)
        return self._strings.setdefault(text, len(self._strings))

    def _read(self, trace: Any, identity: str) -> tuple[list[int], list[_Row]]:
        """Span ids and rows of one trace.  Raises _Rejected, or what malformed fields raise by themselves."""
        services = {key: self._intern(process["serviceName"]) for key, process in trace["processes"].items()}
        spans = trace["spans"]
        row_of = {span["spanID"]: row for row, span in enumerate(spans, start=len(self._rows))}
        if len(row_of) != len(spans):
            raise _Rejected(DUPLICATE)
        ids = [int(span_id, 16) for span_id in row_of]
        if ids and not 0 <= min(ids) <= max(ids) < 2**64:
            raise _Rejected(MALFORMED)
        number, rows, roots = len(self._traces), [], 0
        for span in spans:
            start, duration = span["startTime"], span["duration"]
            # Floats, strings and booleans would slip through the arithmetic below.
            if type(start) is not int or type(duration) is not int or duration < 0:
                raise _Rejected(MALFORMED)
            if not 0 <= start <= start + duration < _LATEST_US:
                raise _Rejected(MALFORMED)
            parent, follows = _parent(span["references"], identity, row_of)
            roots += parent == -1
            kind, peer, error = _tags(span["tags"])
            rows.append(
                (
                    number,
                    parent,
                    follows,
                    services[span["processID"]],
                    self._intern(span["operationName"]),
                    -1 if peer is None else self._intern(peer),
                    kind,
                    error,
                    start,
                    start + duration,
                )
            )
        if roots != 1:
            raise _Rejected(ROOTS)
        return ids, rows


def _parent(references: Any, identity: str, row_of: Mapping[str, int]) -> tuple[int, bool]:
    """The parent's row (-1: none) and whether it is only followed.  CHILD_OF wins; links to other traces are none."""
    parent, follows = -1, False
    for reference in references or ():
        if reference.get("traceID", identity) != identity:
            continue
        kind = reference["refType"]
        if kind not in ("CHILD_OF", "FOLLOWS_FROM"):
            raise _Rejected(MALFORMED)
        row = row_of.get(reference["spanID"])
        if row is None:
            raise _Rejected(ORPHAN)
        if kind == "CHILD_OF":
            return row, False
        if parent == -1:
            parent, follows = row, True
    return parent, follows


def _tags(tags: Any) -> tuple[int, str | None, bool]:
    """Kind (an index into KINDS), the peer that a call names, and whether the span is an error."""
    kind, peer, rank, error = 0, None, 0, False
    for tag in tags or ():
        key = tag["key"]
        if key == "span.kind":
            kind = _KIND.get(tag["value"], 0)
        elif key == "error":
            error = tag["value"] in (True, "true")
        elif key in _PEER_KEYS and _PEER_KEYS[key] > rank:
            peer, rank = tag["value"], _PEER_KEYS[key]
    return kind, peer if kind in _CALLS else None, error


def _in_cycle(parent: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows from which no root can be reached: after 2^k steps upwards, with 2^k at least the number of rows."""
    above = parent.copy()
    for _ in range(len(parent).bit_length()):
        inner = above >= 0
        if not inner.any():
            break
        above[inner] = above[above[inner]]
    return above >= 0
