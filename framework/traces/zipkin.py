"""Reader of Zipkin's v2 JSON: a list of spans, or a list of traces, each a list of spans; times are microseconds.

Where client and server share one span id (Zipkin's B3 propagation), the server's span gets an id of its own and the
client's span as parent.  Spans whose parent is the shared id become children of the server, which made their calls.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from framework.errors import TracesMissing
from framework.traces.columns import CALLS, KIND, LATEST_NS, NONE, ROOT, SpanColumns
from framework.traces.jaeger_json import collector_paused
from framework.traces.link import MALFORMED
from framework.traces.registry import FORMATS, TraceFormat, begins_with

_Micros = Annotated[int, msgspec.Meta(ge=0, le=LATEST_NS // 1000)]
_OWN = 0xA5A5_A5A5_A5A5_A5A5
"""Mask that turns a shared id into the server's own.  Any one-to-one change will do: collisions show as duplicates."""


class _Endpoint(msgspec.Struct, gc=False, rename="camel"):
    service_name: str | None = None
    ipv4: str | None = None
    ipv6: str | None = None


class _Span(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str
    id: str
    timestamp: _Micros
    duration: _Micros = 0
    parent_id: str | None = None
    name: str | None = None
    kind: str | None = None
    local_endpoint: _Endpoint | None = None
    remote_endpoint: _Endpoint | None = None
    tags: dict[str, str] = {}
    shared: bool = False


class _OnlyTrace(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str


_LISTS = msgspec.json.Decoder(list[list[msgspec.Raw]])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_SPAN = msgspec.json.Decoder(_Span)
_TRACE_OF = msgspec.json.Decoder(_OnlyTrace)
_BROKEN = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def read_into(columns: SpanColumns, document: bytes) -> None:
    """Add a document's spans.  Raises TracesMissing when it is not a list of spans."""
    with collector_paused():
        parts = _parts(document)
        spans: list[tuple[int, int, _Span]] = []  # trace, id, span
        shared: set[tuple[int, int]] = set()  # (trace, id) that both a client and a server use
        for part in parts:
            try:
                span = _SPAN.decode(part)
                trace, span_id = _trace(columns, span.trace_id), _span_id(span.id)
            except (*_BROKEN, ValueError):
                _spoil(columns, part)
                continue
            spans.append((trace, span_id, span))
            if span.shared:
                shared.add((trace, span_id))
        clients = {(trace, span_id) for trace, span_id, span in spans if not span.shared}
        shared &= clients  # without the client's span, the server keeps the id
        for trace, span_id, span in spans:
            _add(columns, trace, span_id, span, shared)
        columns.added()


def _parts(document: bytes) -> list[msgspec.Raw]:
    try:
        return [span for trace in _LISTS.decode(document) for span in trace]
    except _BROKEN:
        pass
    try:
        return _LIST.decode(document)
    except _BROKEN as error:
        raise TracesMissing(f"no Zipkin v2 JSON: {error}") from error


def _add(columns: SpanColumns, trace: int, span_id: int, span: _Span, shared: set[tuple[int, int]]) -> None:
    """Add a span, or spoil its trace."""
    try:
        parent = _span_id(span.parent_id) if span.parent_id else ROOT
        if (span.timestamp + span.duration) * 1000 > LATEST_NS:
            raise ValueError("later than any clock")
    except ValueError:
        columns.spoil(trace)
        return
    if span.shared and (trace, span_id) in shared:
        parent, span_id = span_id, span_id ^ _OWN
    elif (trace, parent) in shared:
        parent ^= _OWN
    kind = KIND.get((span.kind or "internal").lower(), 0)
    remote, local = span.remote_endpoint, span.local_endpoint
    peer = span.tags.get("peer.service") or (remote.service_name if remote else None)
    columns.trace.append(trace)
    columns.span_id.append(span_id)
    columns.parent_id.append(parent)
    columns.follows.append(False)
    columns.service.append(columns.intern((local.service_name if local else None) or "unknown_service"))
    columns.host.append(columns.optional(span.tags.get("host.id")))
    columns.address.append(columns.optional((local.ipv4 or local.ipv6) if local else None))
    columns.operation.append(columns.intern(span.name or ""))
    columns.kind.append(kind)
    columns.peer.append(columns.intern(peer) if peer and kind in CALLS else NONE)
    columns.error.append("error" in span.tags)
    columns.start_ns.append(span.timestamp * 1000)
    columns.end_ns.append((span.timestamp + span.duration) * 1000)


def _trace(columns: SpanColumns, text: str) -> int:
    """Return the trace's number; ids are compared in lower case, padded to 16 digits.  Raises ValueError for no id."""
    if not int(text, 16):
        raise ValueError(text)
    return columns.number(text.lower().rjust(16, "0")[-32:])


def _span_id(text: str) -> int:
    span_id = int(text, 16)
    if not 0 < span_id < 2**64:
        raise ValueError(text)
    return span_id


def _spoil(columns: SpanColumns, part: msgspec.Raw) -> None:
    """Reject the trace of a malformed span; where even the trace's id is unreadable, count the span alone."""
    try:
        columns.spoil(_trace(columns, _TRACE_OF.decode(part).trace_id))
    except (*_BROKEN, ValueError):
        columns.reject(MALFORMED)


FORMATS.register("zipkin")(TraceFormat(lambda document: 0 if begins_with(document) == b"[" else None, read_into))
