"""Readers of OTLP: JSON (one document, or one per line), Jaeger's api_v3, and protobuf.

Spans of a trace may lie in any number of documents, resources and scopes.  A span that has no parent, but a link to
another span of its trace, follows that span.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Status, TracesData

from framework.errors import TracesMissing
from framework.traces.columns import CALLS, LATEST_NS, NONE, PEER_RANK, ROOT, SpanColumns
from framework.traces.jaeger_json import collector_paused
from framework.traces.link import MALFORMED
from framework.traces.registry import FORMATS, TraceFormat, begins_with, position

_KINDS = {"SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 3, "SPAN_KIND_PRODUCER": 4,
          "SPAN_KIND_CONSUMER": 5}  # fmt: skip
_UNSET = ("", "0" * 16, None)

_Attributes = Mapping[str, Any]


class _KeyValue(msgspec.Struct, gc=False):
    key: str
    value: dict[str, Any] = {}


class _Link(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str = ""
    span_id: str = ""


class _Status(msgspec.Struct, gc=False):
    code: int | str = 0


class _Span(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str
    span_id: str
    name: str
    start_time_unix_nano: str | int
    end_time_unix_nano: str | int
    parent_span_id: str | None = None
    kind: int | str = 0
    attributes: list[_KeyValue] = []
    links: list[_Link] = []
    status: _Status | None = None


class _Scope(msgspec.Struct, gc=False):
    spans: list[msgspec.Raw] = []


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_KeyValue] = []


class _ResourceSpans(msgspec.Struct, gc=False, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_Scope] = []


class _Document(msgspec.Struct, gc=False, rename="camel"):
    resource_spans: list[_ResourceSpans] | None = None
    result: _Document | None = None  # api_v3 wraps the document


_DOCUMENT = msgspec.json.Decoder(_Document)
_SPAN = msgspec.json.Decoder(_Span)


class _Malformed(Exception):
    """A span that cannot be used; its trace is rejected with it."""


def read_json_into(columns: SpanColumns, document: bytes) -> None:
    """Add the spans of OTLP JSON.  Raises TracesMissing when the document is not OTLP JSON."""
    with collector_paused():
        for part in _documents(document):
            for group in part.resource_spans or ():
                resource = _resource(columns, _plain(group.resource.attributes if group.resource else ()))
                for scope in group.scope_spans:
                    for raw in scope.spans:
                        _add_json(columns, raw, resource)
        columns.added()


def read_protobuf_into(columns: SpanColumns, document: bytes) -> None:
    """Add the spans of an OTLP TracesData or ExportTraceServiceRequest.  Raises TracesMissing for anything else."""
    try:
        parsed = TracesData.FromString(document)
    except DecodeError as error:
        raise TracesMissing(f"no OTLP protobuf: {error}") from error
    with collector_paused():
        for group in parsed.resource_spans:
            resource = _resource(columns, _values(group.resource.attributes))
            for scope in group.scope_spans:
                for span in scope.spans:
                    _add(
                        columns,
                        resource,
                        trace=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                        name=span.name,
                        kind=span.kind,
                        attributes=_values(span.attributes),
                        error=span.status.code == Status.STATUS_CODE_ERROR,
                        start_ns=span.start_time_unix_nano,
                        end_ns=span.end_time_unix_nano,
                    )
        columns.added()


def _documents(text: bytes) -> Iterable[_Document]:
    """Decode one document, or one per line (OpenTelemetry's file exporter); api_v3 wraps them in a ``result``."""
    try:
        documents = [_DOCUMENT.decode(text)]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        try:
            documents = _DOCUMENT.decode_lines(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise TracesMissing(f"no OTLP JSON: {error}") from error
    unwrapped = [document.result if document.result is not None else document for document in documents]
    if all(document.resource_spans is None for document in unwrapped):
        raise TracesMissing('no OTLP JSON: there is no "resourceSpans"')
    return unwrapped


def _add_json(columns: SpanColumns, raw: msgspec.Raw, resource: tuple[int, int, int]) -> None:
    try:
        span = _SPAN.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        _spoil(columns, raw)
        return
    status = span.status.code if span.status else 0
    try:
        trace, links = _hexadecimal(span.trace_id, 16), [(link.trace_id, link.span_id) for link in span.links]
        _add(
            columns,
            resource,
            trace=trace,
            span_id=_hexadecimal(span.span_id, 8),
            parent=_hexadecimal(span.parent_span_id or "", 8),
            links=[(_hexadecimal(trace_id, 16), _hexadecimal(span_id, 8)) for trace_id, span_id in links],
            name=span.name,
            kind=span.kind if isinstance(span.kind, int) else _KINDS.get(span.kind, 0),
            attributes=_plain(span.attributes),
            error=status in (2, "STATUS_CODE_ERROR"),
            start_ns=int(span.start_time_unix_nano),
            end_ns=int(span.end_time_unix_nano),
        )
    except (_Malformed, ValueError):
        _spoil(columns, raw)


class _OnlyTrace(msgspec.Struct, gc=False, rename="camel"):
    trace_id: str


def _spoil(columns: SpanColumns, raw: msgspec.Raw) -> None:
    """Reject the trace of a malformed span; where even the trace's id is unreadable, count the span alone."""
    try:
        trace = _hexadecimal(msgspec.json.decode(raw, type=_OnlyTrace).trace_id, 16)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, _Malformed):
        columns.reject(MALFORMED)
    else:
        columns.spoil(columns.number(trace))


def _hexadecimal(text: str, size: int) -> str:
    """Return an id of ``size`` bytes as hexadecimal text; api_v3 of Jaeger v1 has base64, as protobuf's own JSON.

    Raises _Malformed.
    """
    if not text or len(text) == 2 * size:
        return text.lower()
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _Malformed(text) from error
    if len(decoded) != size:
        raise _Malformed(text)
    return decoded.hex()


def _add(
    columns: SpanColumns,
    resource: tuple[int, int, int],
    *,
    trace: str,
    span_id: str,
    parent: str,
    links: Iterable[tuple[str, str]],
    name: str,
    kind: int,
    attributes: _Attributes,
    error: bool,
    start_ns: int,
    end_ns: int,
) -> None:
    """Add a span, or spoil its trace.  ``kind`` is OTLP's: 0 unspecified, 1 internal, 2 server, ..."""
    if not trace or not int(trace, 16):
        columns.reject(MALFORMED)
        return
    number = columns.number(trace)
    follows = False
    if parent in _UNSET:
        parent = next((linked for of_trace, linked in links if of_trace == trace and linked != span_id), "")
        follows = bool(parent)
    own_id, parent_id = (int(text, 16) if text else ROOT for text in (span_id, parent))
    if not 0 < own_id < 2**64 or not 0 <= parent_id < 2**64 or not 0 <= start_ns <= end_ns < LATEST_NS:
        columns.spoil(number)
        return
    service, host, address = resource
    kind_index = kind - 1 if 1 <= kind <= 5 else 0
    named = [key for key in PEER_RANK if isinstance(attributes.get(key), str)]
    peer = max(named, key=PEER_RANK.__getitem__, default="")
    columns.trace.append(number)
    columns.span_id.append(own_id)
    columns.parent_id.append(parent_id)
    columns.follows.append(follows)
    columns.service.append(service)
    columns.host.append(host)
    columns.address.append(address)
    columns.operation.append(columns.intern(name))
    columns.kind.append(kind_index)
    columns.peer.append(columns.intern(attributes[peer]) if peer and kind_index in CALLS else NONE)
    columns.error.append(error)
    columns.start_ns.append(start_ns)
    columns.end_ns.append(end_ns)


def _resource(columns: SpanColumns, attributes: _Attributes) -> tuple[int, int, int]:
    """Return (service, host, address) of a resource, interned."""

    def text(*names: str) -> str | None:
        return next((attributes[name] for name in names if isinstance(attributes.get(name), str)), None)

    return (
        columns.intern(text("service.name") or "unknown_service"),
        columns.optional(text("host.id")),
        columns.optional(text("ip", "host.ip", "host.name")),
    )


def _plain(attributes: Iterable[_KeyValue]) -> _Attributes:
    return {attribute.key: next(iter(attribute.value.values()), None) for attribute in attributes}


def _values(attributes: Iterable[Any]) -> _Attributes:
    texts = (attribute for attribute in attributes if attribute.value.HasField("string_value"))
    return {attribute.key: attribute.value.string_value for attribute in texts}


FORMATS.register("otlp")(TraceFormat(lambda document: position(document, b'"resourceSpans"'), read_json_into))
FORMATS.register("otlp-protobuf")(
    TraceFormat(lambda document: None if begins_with(document) in b"[{" else 0, read_protobuf_into)
)
