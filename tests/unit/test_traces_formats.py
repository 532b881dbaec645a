"""Every format brings the same spans, and what is broken in one trace never costs another."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from framework.errors import InputError, TracesMissing
from framework.model.spans import KINDS, SpanTable
from framework.traces.columns import SpanColumns
from framework.traces.files import detect, read_all, read_into

TRACE = "0af7651916cd43dd8448eb211c80319c"
BEGIN_US = 1_700_000_000_000_000
# id, parent, service, operation, kind, start and end in us after BEGIN_US, peer, error
SPANS = (
    ("00000000000000a1", "", "loadgen", "GET /read", "client", 0, 900, "", False),
    ("00000000000000a2", "00000000000000a1", "post", "read", "server", 100, 800, "", True),
    ("00000000000000a3", "00000000000000a2", "post", "get", "client", 150, 250, "post-memcached", False),
)
Span = tuple[str, str, str, str, str, int, int, str, bool]


def jaeger(*spans: Span, trace: str = TRACE) -> bytes:
    records = []
    for identity, parent, service, operation, kind, start, end, peer, error in spans:
        tags: list[dict[str, Any]] = [{"key": "span.kind", "type": "string", "value": kind}]
        tags += [{"key": "peer.service", "value": peer}] if peer else []
        tags += [{"key": "error", "type": "bool", "value": True}] if error else []
        references = [{"refType": "CHILD_OF", "traceID": trace, "spanID": parent}] if parent else []
        records.append(
            {"traceID": trace, "spanID": identity, "operationName": operation, "references": references, "tags": tags,
             "startTime": BEGIN_US + start, "duration": end - start, "processID": f"p-{service}", "logs": []}
        )  # fmt: skip
    processes = {f"p-{span[2]}": {"serviceName": span[2], "tags": []} for span in spans}
    return orjson.dumps({"total": 0, "data": [{"traceID": trace, "spans": records, "processes": processes}]})


def otlp_document(*spans: Span, trace: str = TRACE) -> dict[str, Any]:
    groups = []
    for identity, parent, service, operation, kind, start, end, peer, error in spans:
        attributes = [{"key": "peer.service", "value": {"stringValue": peer}}] if peer else []
        span = {
            "traceId": trace, "spanId": identity, "parentSpanId": parent, "name": operation,
            "kind": 1 + KINDS.index(kind), "startTimeUnixNano": str((BEGIN_US + start) * 1000),
            "endTimeUnixNano": str((BEGIN_US + end) * 1000), "attributes": attributes,
            "status": {"code": 2} if error else {},
        }  # fmt: skip
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
        groups.append({"resource": resource, "scopeSpans": [{"scope": {}, "spans": [span]}]})
    return {"resourceSpans": groups}


def otlp(*spans: Span, trace: str = TRACE) -> bytes:
    return orjson.dumps(otlp_document(*spans, trace=trace))


def otlp_lines(*spans: Span, trace: str = TRACE) -> bytes:
    return b"\n".join(otlp(span, trace=trace) for span in spans) + b"\n"


def api_v3(*spans: Span, trace: str = TRACE) -> bytes:
    return orjson.dumps({"result": otlp_document(*spans, trace=trace)})


def api_v3_base64(*spans: Span, trace: str = TRACE) -> bytes:
    """As Jaeger v1 gives it: ids in base64, kinds and status by name."""
    document = otlp_document(*spans, trace=trace)
    for group in document["resourceSpans"]:
        [span] = group["scopeSpans"][0]["spans"]
        for key in ("traceId", "spanId", "parentSpanId"):
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        span["kind"] = f"SPAN_KIND_{KINDS[span['kind'] - 1].upper()}"
        span["status"] = {"code": "STATUS_CODE_ERROR"} if span["status"] else {}
    return orjson.dumps({"result": document})


def protobuf(*spans: Span, trace: str = TRACE) -> bytes:
    data = TracesData()
    for identity, parent, service, operation, kind, start, end, peer, error in spans:
        group = data.resource_spans.add()
        attribute = group.resource.attributes.add(key="service.name")
        attribute.value.string_value = service
        span = group.scope_spans.add().spans.add(
            trace_id=bytes.fromhex(trace), span_id=bytes.fromhex(identity), parent_span_id=bytes.fromhex(parent),
            name=operation, start_time_unix_nano=(BEGIN_US + start) * 1000, end_time_unix_nano=(BEGIN_US + end) * 1000,
        )  # fmt: skip
        span.kind = 1 + KINDS.index(kind)  # type: ignore[assignment]
        if peer:
            span.attributes.add(key="peer.service").value.string_value = peer
        if error:
            span.status.code = 2  # type: ignore[assignment]
    return data.SerializeToString()


def zipkin(*spans: Span, trace: str = TRACE) -> bytes:
    return orjson.dumps(
        [
            {"traceId": trace, "id": identity, **({"parentId": parent} if parent else {}), "name": operation,
             **({"kind": kind.upper()} if kind != "internal" else {}), "timestamp": BEGIN_US + start,
             "duration": end - start, "localEndpoint": {"serviceName": service},
             **({"remoteEndpoint": {"serviceName": peer}} if peer else {}), "tags": {"error": "500"} if error else {}}
            for identity, parent, service, operation, kind, start, end, peer, error in spans
        ]
    )  # fmt: skip


WRITERS = {
    "jaeger": jaeger, "otlp": otlp, "otlp-lines": otlp_lines, "api-v3": api_v3, "api-v3-base64": api_v3_base64,
    "otlp-protobuf": protobuf, "zipkin": zipkin,
}  # fmt: skip


def read(document: bytes, form: str | None = None) -> tuple[SpanTable, dict[str, int]]:
    columns = SpanColumns()
    read_into(columns, document, form)
    spans, rejected = columns.table()
    return spans, dict(rejected)


def facts(spans: SpanTable) -> list[tuple[Any, ...]]:
    """Return the rows of a table, in the order of the ids."""

    def name(index: int) -> str:
        return spans.strings[index] if index >= 0 else ""

    rows = []
    for row in np.argsort(spans.span_id):
        parent = spans.parent[row]
        rows.append(
            (
                f"{spans.span_id[row]:016x}",
                f"{spans.span_id[parent]:016x}" if parent >= 0 else "",
                name(spans.service[row]),
                name(spans.operation[row]),
                KINDS[spans.kind[row]],
                int(spans.start_ns[row]) // 1000 - BEGIN_US,
                int(spans.end_ns[row]) // 1000 - BEGIN_US,
                name(spans.peer[row]),
                bool(spans.error[row]),
            )
        )
    return rows


@pytest.mark.parametrize("form", WRITERS)
def test_every_format_tells_the_same(form: str) -> None:
    spans, rejected = read(WRITERS[form](*SPANS))
    assert rejected == {}
    assert spans.traces == (TRACE,)
    assert facts(spans) == [list(SPANS)[number] for number in range(3)]
    mixed, _ = read(WRITERS[form](*SPANS[::-1]))
    assert facts(mixed) == facts(spans)


@pytest.mark.parametrize("form", WRITERS)
def test_gzip_is_unpacked(form: str) -> None:
    document = WRITERS[form](*SPANS)
    assert facts(read(gzip.compress(document))[0]) == list(SPANS)


@pytest.mark.parametrize("form", WRITERS)
def test_a_missing_parent_costs_its_trace(form: str) -> None:
    _, rejected = read(WRITERS[form](SPANS[0], SPANS[2]))
    assert rejected == {"missing parent": 1}


@pytest.mark.parametrize("form", [form for form in WRITERS if form != "otlp-protobuf"])
def test_a_time_that_is_none_costs_its_trace(form: str) -> None:
    text = WRITERS[form](*SPANS).replace(str(BEGIN_US + 100).encode(), b"-1")
    _, rejected = read(text)
    assert rejected == {"malformed field": 1}


def test_spans_of_a_trace_in_several_documents(tmp_path: Path) -> None:
    for number, span in enumerate(SPANS):
        (tmp_path / f"{number}.json").write_bytes(otlp(span))
    for workers in (1, 2):
        extraction = read_all([str(tmp_path)], workers=workers)
        assert facts(extraction.spans) == list(SPANS)
        assert (extraction.rejected, extraction.unreadable) == ({}, {})


def test_the_same_trace_of_jaeger_in_two_documents_counts_once(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(jaeger(*SPANS))
    for workers in (1, 2):
        extraction = read_all([str(tmp_path)], workers=workers)
        assert facts(extraction.spans) == list(SPANS)
        assert extraction.rejected == {"trace twice": 1}


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes(zipkin(*SPANS))
    (tmp_path / "cut.json").write_bytes(jaeger(*SPANS)[:-40])
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "half.json.gz").write_bytes(gzip.compress(jaeger(*SPANS))[:-20])
    extraction = read_all([str(tmp_path)])
    assert facts(extraction.spans) == list(SPANS)
    assert {Path(name).name for name in extraction.unreadable} == {"cut.json", "empty.json", "half.json.gz"}
    with pytest.raises(InputError, match=r"found nothing; allowed: a file or a directory"):
        read_all([str(tmp_path / "none.json")])
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="found no trace files"):
        read_all([str(tmp_path / "nothing")])


@pytest.mark.parametrize(
    "document", [b"", b"  ", b"{}", b"[1]", b'[{"id": 1}', b"{" * 100_000, b"[" * 100_000, b"\x00\xff"]
)
def test_what_is_no_trace(document: bytes) -> None:
    try:
        spans, _ = read(document)
    except TracesMissing:
        return
    assert len(spans) == 0


@pytest.mark.parametrize("form", ["jaeger", "otlp", "zipkin"])
def test_detection(form: str) -> None:
    assert detect(b"\n  " + WRITERS[form](*SPANS)) == form
    assert detect(protobuf(*SPANS)) == "otlp-protobuf"


def test_a_link_of_otlp_within_the_trace_is_followed() -> None:
    document = otlp_document(*SPANS)
    span = document["resourceSpans"][1]["scopeSpans"][0]["spans"][0]
    span["parentSpanId"] = ""
    span["links"] = [{"traceId": "f" * 32, "spanId": "1" * 16}, {"traceId": TRACE, "spanId": SPANS[0][0]}]
    spans, rejected = read(orjson.dumps(document))
    assert rejected == {}
    assert spans.follows[np.argsort(spans.span_id)].tolist() == [False, True, False]


def test_client_and_server_of_zipkin_may_share_an_id() -> None:
    client = {"traceId": "1", "id": "a", "kind": "CLIENT", "name": "get", "timestamp": 100, "duration": 50,
              "localEndpoint": {"serviceName": "web"}}  # fmt: skip
    server = {**client, "kind": "SERVER", "shared": True, "timestamp": 110, "duration": 30,
              "localEndpoint": {"serviceName": "post"}}  # fmt: skip
    below = {**client, "id": "b", "parentId": "a", "kind": "CLIENT", "timestamp": 115, "duration": 10,
             "localEndpoint": {"serviceName": "post"}}  # fmt: skip
    spans, rejected = read(orjson.dumps([below, server, client]))
    assert rejected == {}
    rows = {(spans.strings[spans.service[row]], int(spans.start_ns[row]) // 1000): row for row in range(3)}
    assert spans.parent[rows["web", 100]] == -1
    assert spans.parent[rows["post", 110]] == rows["web", 100]
    assert spans.parent[rows["post", 115]] == rows["post", 110]
    alone, rejected = read(orjson.dumps([server]))
    assert (len(alone), rejected) == (1, {})


def test_hosts_and_addresses() -> None:
    document = otlp_document(*SPANS)
    for number, group in enumerate(document["resourceSpans"]):
        group["resource"]["attributes"] += [
            {"key": "host.id", "value": {"stringValue": f"host{number}"}},
            {"key": "host.name", "value": {"stringValue": f"name{number}"}},
        ]
    spans, _ = read(orjson.dumps(document))
    order = np.argsort(spans.span_id)
    assert [spans.strings[index] for index in spans.host[order]] == ["host0", "host1", "host2"]
    assert [spans.strings[index] for index in spans.address[order]] == ["name0", "name1", "name2"]
