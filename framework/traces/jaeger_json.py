"""Reader of Jaeger's JSON, in which a malformed trace is rejected without the others.

Format: the ``data`` of Jaeger's /api/traces and of the files that its web page downloads; times are microseconds.
A typed decoder reads only the fields that Tailor uses.  Where the whole document does not fit the types, each trace is
decoded by itself, so that only malformed ones are rejected.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec

from framework.errors import TracesMissing
from framework.model.spans import SpanTable
from framework.traces.columns import CALLS, KIND, LATEST_NS, PEER_RANK, ROOT, SpanColumns
from framework.traces.link import MALFORMED, TWICE
from framework.traces.registry import FORMATS, TraceFormat, position

_Micros = Annotated[int, msgspec.Meta(ge=0, le=LATEST_NS // 1000)]


def _jaeger(name: str) -> str:
    """Rename a field to Jaeger's spelling: ``span_id`` to spanID."""
    first, *others = name.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in others)


class _Reference(msgspec.Struct, gc=False, rename=_jaeger):
    ref_type: str
    span_id: str
    trace_id: str = ""


class _Tag(msgspec.Struct, gc=False):
    key: str
    value: Any = None


class _Span(msgspec.Struct, gc=False, rename=_jaeger):
    span_id: str
    operation_name: str
    start_time: _Micros
    duration: _Micros
    process_id: str
    references: list[_Reference] | None = None
    tags: list[_Tag] | None = None


class _Process(msgspec.Struct, gc=False, rename=_jaeger):
    service_name: str
    tags: list[_Tag] | None = None


class _Trace(msgspec.Struct, gc=False, rename=_jaeger):
    trace_id: str
    spans: list[_Span]
    processes: dict[str, _Process]


class _Document(msgspec.Struct, gc=False):
    data: list[_Trace]


class _Parts(msgspec.Struct, gc=False):
    data: list[msgspec.Raw]


_DOCUMENT = msgspec.json.Decoder(_Document)
_PARTS = msgspec.json.Decoder(_Parts)
_TRACE = msgspec.json.Decoder(_Trace)


class _Rejected(Exception):
    """A trace that cannot be used; the message is the reason."""


def spans_of(document: bytes) -> tuple[SpanTable, Mapping[str, int]]:
    """Return the spans of all sound traces of a document, and reason -> number of rejected traces.

    Raises TracesMissing when it is not Jaeger JSON.
    """
    columns = SpanColumns()
    read_into(columns, document)
    return columns.table()


def read_into(columns: SpanColumns, document: bytes, seen: set[str] | None = None) -> int:
    """Add a document's traces; returns how many it has.

    ``seen``: ids of traces from other documents; these are skipped without being counted, and new ids are added to it.
    Raises TracesMissing when it is not Jaeger JSON.
    """
    with collector_paused():
        try:
            traces: list[_Trace | None] = list(_DOCUMENT.decode(document).data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            traces = [_decoded(part) for part in _parts(document)]
        for trace in traces:
            if trace is None:
                columns.reject(MALFORMED)
            elif seen is not None and trace.trace_id in seen:
                continue
            else:
                if seen is not None:
                    seen.add(trace.trace_id)
                _add(columns, trace)
    return len(traces)


def _parts(document: bytes) -> list[msgspec.Raw]:
    try:
        return _PARTS.decode(document).data
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise TracesMissing(f'no Jaeger JSON with a list under "data": {error}') from error


def _decoded(part: msgspec.Raw) -> _Trace | None:
    try:
        return _TRACE.decode(part)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector, which walks the growing trees again and again: three times as fast."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _add(columns: SpanColumns, trace: _Trace) -> None:
    """Add a trace, or reject it with a reason."""
    spans, trace_id = trace.spans, trace.trace_id
    if columns.known(trace_id):
        columns.reject(TWICE)
        return
    try:
        processes = {key: _process(columns, process) for key, process in trace.processes.items()}
        of_spans = [processes[span.process_id] for span in spans]
        ids = [int(span.span_id, 16) for span in spans]
        if ids and not 0 < min(ids) <= max(ids) < 2**64:
            raise _Rejected(MALFORMED)
        ends = [(span.start_time + span.duration) * 1000 for span in spans]
        if ends and max(ends) > LATEST_NS:
            raise _Rejected(MALFORMED)
        parents = [_parent(span.references, trace_id) for span in spans]
        tags = [_tags(span.tags) for span in spans]
    except _Rejected as error:
        columns.reject(str(error))
        return
    except (KeyError, ValueError, TypeError):
        columns.reject(MALFORMED)
        return
    number = columns.number(trace_id)
    columns.trace += [number] * len(spans)
    columns.span_id += ids
    columns.parent_id += [parent for parent, _ in parents]
    columns.follows += [follows for _, follows in parents]
    columns.service += [service for service, _, _ in of_spans]
    columns.host += [host for _, host, _ in of_spans]
    columns.address += [address for _, _, address in of_spans]
    columns.operation += [columns.intern(span.operation_name) for span in spans]
    columns.kind += [kind for kind, _, _ in tags]
    columns.peer += [columns.optional(peer) for _, peer, _ in tags]
    columns.error += [error for _, _, error in tags]
    columns.start_ns += [span.start_time * 1000 for span in spans]
    columns.end_ns += ends
    columns.added()


def _process(columns: SpanColumns, process: _Process) -> tuple[int, int, int]:
    """Return (service, host, address) of a process, interned."""
    texts = {tag.key: tag.value for tag in process.tags or () if type(tag.value) is str}
    return (
        columns.intern(process.service_name),
        columns.optional(texts.get("host.id")),
        columns.optional(texts.get("ip") or texts.get("hostname") or texts.get("host.name")),
    )


def _parent(references: list[_Reference] | None, trace_id: str) -> tuple[int, bool]:
    """Return (parent's id, whether it is FOLLOWS_FROM).  CHILD_OF wins; references to other traces are ignored."""
    parent, follows = ROOT, False
    for reference in references or ():
        if reference.trace_id not in ("", trace_id):
            continue
        if reference.ref_type == "CHILD_OF":
            return _span_id(reference.span_id), False
        if reference.ref_type != "FOLLOWS_FROM":
            raise _Rejected(MALFORMED)
        if parent == ROOT:
            parent, follows = _span_id(reference.span_id), True
    return parent, follows


def _span_id(text: str) -> int:
    span_id = int(text, 16)
    if not 0 < span_id < 2**64:
        raise _Rejected(MALFORMED)
    return span_id


def _tags(tags: list[_Tag] | None) -> tuple[int, str | None, bool]:
    """Return (kind as an index into KINDS, the peer that a call names, whether the span is an error)."""
    kind, peer, rank, error = 0, None, 0, False
    for tag in tags or ():
        key = tag.key
        if key == "span.kind":
            kind = KIND.get(tag.value, 0)
        elif key == "error":
            error = tag.value is True or tag.value == "true"
        elif key in PEER_RANK and PEER_RANK[key] > rank:
            peer, rank = tag.value, PEER_RANK[key]
    if peer is not None and type(peer) is not str:
        raise _Rejected(MALFORMED)
    return kind, peer if kind in CALLS else None, error


FORMATS.register("jaeger")(TraceFormat(lambda document: position(document, b'"data"'), read_into, whole=True))
