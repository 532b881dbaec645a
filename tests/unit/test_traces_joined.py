"""Traces of Zipkin and Tempo, read by the ids of requests and joined to the load generator's root spans.

The servers here answer as the real ones do: Zipkin 3.4.4 gave these answers to these spans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from framework.bootstrap.adapters import STORES
from framework.errors import TracesMissing
from framework.model import Tracing
from framework.model.application import TraceApi
from framework.model.spans import RootSpan, SpanTable
from framework.traces.joined import JoiningReader
from tests.unit.test_traces_jaeger import Answer, application, running, served

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND


def root(number: int, *, error: bool = False) -> RootSpan:
    start_ns = BEGIN + number * SECOND // 100
    return RootSpan(f"{number + 1:032x}", 0x100 + number, "GET /", error, start_ns, start_ns + 8_000_000)


def join(
    api: TraceApi, answer: Answer, roots: Sequence[RootSpan], *, sleep: Callable[[float], None] = lambda _: None
) -> tuple[SpanTable, JoiningReader]:
    with served(answer) as port:
        traced = replace(application(port), tracing=Tracing("store", port, api=api))
        # The time for which spans may be held back is over.
        reader = JoiningReader(traced, STORES, sleep=sleep, now_ns=lambda: BEGIN + 10_000 * SECOND)
        return reader.join(running(store="127.0.0.1"), roots), reader


# --------------------------------------------------------------------------- Zipkin


def zipkin_spans(of: RootSpan, *, half: bool = False, shared: bool = False) -> list[dict[str, Any]]:
    """Return the spans of a server, which calls a database, in Zipkin's form.

    ``half``: the library knows ids of 64 bits.  ``shared``: the server takes its caller's span for its own, as B3 has
    it.
    """
    trace = of.trace[-16:] if half else of.trace
    own = f"{of.span_id:016x}" if shared else "000000000000aaaa"
    server = {
        "traceId": trace, "id": own, "kind": "SERVER", "name": "get /",
        "timestamp": of.start_ns // 1000 + 1000, "duration": 5000, "localEndpoint": {"serviceName": "web"},
        **({"shared": True} if shared else {"parentId": f"{of.span_id:016x}"}),
    }  # fmt: skip
    client = {
        "traceId": trace, "id": "000000000000bbbb", "parentId": own, "kind": "CLIENT", "name": "select",
        "timestamp": of.start_ns // 1000 + 2000, "duration": 1000, "localEndpoint": {"serviceName": "web"},
        "remoteEndpoint": {"serviceName": "db"},
    }  # fmt: skip
    return [server, client]


@dataclass
class Zipkin:
    """Zipkin's API over some traces: refuses an id alone, and one twice, where it wants several."""

    traces: dict[str, list[dict[str, Any]]]
    asked: list[str] = field(default_factory=list)

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append(path)
        if path == "/api/v2/traceMany":
            ids = query["traceIds"].split(",")
            if len(ids) < 2 or len(set(ids)) < len(ids):
                return 400, b"Use /api/v2/trace/{traceId} endpoint to retrieve a single trace"
            return 200, orjson.dumps([self.traces[name] for name in ids if name in self.traces])
        name = path.removeprefix("/api/v2/trace/")
        return (200, orjson.dumps(self.traces[name])) if name in self.traces else (404, b"not found")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("count", [1, 2, 51, 120])
def test_zipkins_spans_join_the_roots_that_it_never_had(count: int, half: bool, shared: bool) -> None:
    roots = [root(number) for number in range(count)]
    traces = {(r.trace[-16:] if half else r.trace): zipkin_spans(r, half=half, shared=shared) for r in roots}
    spans, reader = join("zipkin", Zipkin(traces), roots)
    assert reader.rejected == {}
    assert sorted(spans.traces) == sorted(r.trace for r in roots)
    assert len(spans) == 3 * count
    for row in range(len(spans)):
        service = spans.strings[spans.service[row]]
        parent = spans.parent[row]
        above = "" if parent < 0 else spans.strings[spans.service[parent]]
        assert (service, above) in {("loadgen", ""), ("web", "loadgen"), ("web", "web")}


def test_a_trace_that_zipkin_does_not_know_is_its_root() -> None:
    roots = [root(0, error=True), root(1)]
    spans, _ = join("zipkin", Zipkin({roots[1].trace: zipkin_spans(roots[1])}), roots)
    assert len(spans) == 4
    assert spans.error.tolist() == [True, False, False, False]


def test_a_trace_with_a_missing_span_is_counted_and_not_used() -> None:
    roots = [root(0), root(1)]
    broken = [{**span, "parentId": "00000000000000ff"} for span in zipkin_spans(roots[0])]
    spans, reader = join("zipkin", Zipkin({roots[0].trace: broken, roots[1].trace: zipkin_spans(roots[1])}), roots)
    assert spans.traces == (roots[1].trace,)
    assert reader.rejected == {"missing parent": 1}


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [(500, b"on fire", "500.*on fire"), (404, b"", "2.14 or later"), (200, b"<html>", "no Zipkin v2 JSON")],
)
def test_what_is_no_zipkin_is_said(status: int, body: bytes, text: str) -> None:
    with pytest.raises(TracesMissing, match=text):
        join("zipkin", lambda *_: (status, body), [root(0), root(1)])


# --------------------------------------------------------------------------- Tempo


def otlp(of: RootSpan) -> bytes:
    """Return a server's span as Tempo gives it: resource spans in protobuf."""
    data = TracesData()
    group = data.resource_spans.add()
    attribute = group.resource.attributes.add(key="service.name")
    attribute.value.string_value = "web"
    group.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(of.trace), span_id=b"\xaa" * 8, parent_span_id=of.span_id.to_bytes(8, "big"),
        name="GET /", kind=2, start_time_unix_nano=of.start_ns + 1_000_000, end_time_unix_nano=of.start_ns + 6_000_000,
    )  # fmt: skip
    return data.SerializeToString()


def test_tempos_spans_join_the_roots() -> None:
    roots = [root(number) for number in range(120)]
    known = {f"/api/traces/{r.trace}": otlp(r) for r in roots[:-1]}

    def answer(method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        return (200, known[path]) if path in known else (404, b"trace not found")

    spans, reader = join("tempo", answer, roots)
    assert reader.rejected == {}
    assert len(spans.traces) == 120
    assert len(spans) == 239
    server = [row for row in range(len(spans)) if spans.strings[spans.service[row]] == "web"]
    assert all(spans.strings[spans.service[spans.parent[row]]] == "loadgen" for row in server)


def test_a_tempo_that_is_not_ready_is_said() -> None:
    with pytest.raises(TracesMissing, match=r"500.*empty ring"):
        join("tempo", lambda *_: (500, b"empty ring"), [root(0)])


# --------------------------------------------------------------------------- all stores


@pytest.mark.parametrize("api", ["zipkin", "tempo"])
def test_a_store_that_is_gone(api: TraceApi) -> None:
    with served(lambda *_: (200, b"")) as port:
        pass  # nothing listens at the port any more
    traced = replace(application(port), tracing=Tracing("store", port, api=api))
    with pytest.raises(TracesMissing, match="does not answer"):
        JoiningReader(traced, STORES).join(running(store="127.0.0.1"), [root(0)])
    with pytest.raises(TracesMissing, match="no such container"):
        JoiningReader(traced, STORES).join(running(), [root(0)])


def test_another_generator_kept_no_ids() -> None:
    reader = JoiningReader(replace(application(1), tracing=Tracing("store", 1, api="tempo")), STORES)
    with pytest.raises(TracesMissing, match=r"load\.generator: tailor"):
        reader.read(running(store="127.0.0.1"), 0, SECOND, None)


def test_few_traces_are_asked_for_until_they_are_complete_then_all() -> None:
    """Spans arrive two readings late."""
    roots = [root(number) for number in range(1000)]
    asked: list[str] = []
    pauses: list[float] = []

    def answer(method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        asked.append(path)
        of = roots[int(path.rpartition("/")[2], 16) - 1]
        return (200, otlp(of)) if len(pauses) >= 2 else (404, b"")

    spans, _ = join("tempo", answer, roots, sleep=pauses.append)
    assert len(spans) == 2000
    assert len(pauses) == 4
    assert len(asked) < 1000 + 6 * 110
