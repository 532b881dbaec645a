"""Spans sent to a real Jaeger by OTLP come back through the reader, every one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
import httpx
import numpy as np
import pytest

from framework.critical_path.analysis import View, analyse
from framework.critical_path.service_time import service_times
from framework.errors import TracesMissing
from framework.model import Application, Container, Deployment, Objective, Running, Tracing, Workload
from framework.model.spans import KINDS
from framework.traces.files import read_all
from framework.traces.jaeger import JaegerReader
from optimizer.space import Configuration

pytestmark = pytest.mark.docker

IMAGE = "jaegertracing/jaeger:2.13.0"
READY_S = 60
TRACES = 2500
BEGIN_NS = (int(time.time()) - 3600) * 1_000_000_000  # recent: Jaeger looks back two days where it is not told a time
WINDOW_NS = 20_000_000_000
EACH_NS = WINDOW_NS // TRACES
SERVER, CLIENT = 2, 3  # OTLP's numbers of span kinds
APPLICATION = Application(
    "pretend",
    Path("apps/pretend"),
    {},
    (),
    (),
    Workload(1.0, "constant", "http://nginx", {}),
    Tracing("jaeger"),
    Objective(),
)


def span(trace: int, number: int, parent: int, kind: int, start_ns: int, took_ns: int, **more: Any) -> dict[str, Any]:
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{(trace + 1) * 16 + number:016x}",
        "parentSpanId": f"{(trace + 1) * 16 + parent:016x}" if parent else "",
        "traceState": "tailor=m",
        "name": "read",
        "kind": kind,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + took_ns),
    } | more


def resource(service: str, spans: list[dict[str, Any]]) -> dict[str, Any]:
    attribute = {"key": "service.name", "value": {"stringValue": service}}
    return {"resource": {"attributes": [attribute]}, "scopeSpans": [{"spans": spans}]}


def request(trace: int) -> dict[str, list[dict[str, Any]]]:
    """Service -> its spans of one request: the generator calls post, which asks its cache; every 100th one fails."""
    start, took = BEGIN_NS + trace * EACH_NS, 1_000_000 + trace * 1000
    peer = {"attributes": [{"key": "peer.service", "value": {"stringValue": "post-memcached"}}]}
    status = {"status": {"code": 2}} if trace % 100 == 0 else {}
    return {
        "loadgen": [span(trace, 1, 0, CLIENT, start, took, **status)],
        "post": [
            span(trace, 2, 1, SERVER, start + 100_000, took - 200_000),
            span(trace, 3, 2, CLIENT, start + 200_000, 300_000, **peer),
        ],
    }


@pytest.fixture(scope="module")
def jaeger() -> Iterator[Container]:
    engine = docker.from_env()
    container = engine.containers.run(IMAGE, detach=True, labels={"tailor.project": "tailor-test-traces"})
    try:
        container.reload()
        address = container.attrs["NetworkSettings"]["IPAddress"]
        until = time.monotonic() + READY_S
        while True:
            try:
                httpx.get(f"http://{address}:16686/api/services").raise_for_status()
                break
            except httpx.HTTPError:
                if time.monotonic() > until:
                    pytest.fail(f"Jaeger is not ready after {READY_S} s:\n{container.logs(tail=20).decode()}")
                time.sleep(0.1)
        send(address, [request(trace) for trace in range(TRACES)])
        yield Container("jaeger", str(container.id), "jaeger", IMAGE, "", address, 1, "")
    finally:
        container.remove(force=True, v=True)
        engine.close()


def send(address: str, requests: list[dict[str, list[dict[str, Any]]]]) -> None:
    with httpx.Client(timeout=READY_S) as client:
        for begin in range(0, len(requests), 250):
            batch = requests[begin : begin + 250]
            for service in ("post", "loadgen"):
                spans = [span for sent in batch for span in sent[service]]
                reply = client.post(
                    f"http://{address}:4318/v1/traces", json={"resourceSpans": [resource(service, spans)]}
                )
                reply.raise_for_status()


def running(container: Container) -> Running:
    return Running(Deployment("pretend", "p", Configuration({}), {}, {}), "bridge", {"jaeger": container})


def test_every_span_is_read_though_a_search_gives_few(jaeger: Container) -> None:
    reader = JaegerReader(APPLICATION, limit=400)
    spans = reader.read(running(jaeger), BEGIN_NS, BEGIN_NS + WINDOW_NS, 3 * TRACES)
    assert (len(spans), len(spans.traces), reader.rejected) == (3 * TRACES, TRACES, {})
    roots = np.flatnonzero(spans.parent == -1)
    order = roots[np.argsort(spans.start_ns[roots])]
    # Jaeger's JSON tells microseconds, and these are whole ones.
    assert (spans.start_ns[order] == BEGIN_NS + np.arange(TRACES) * EACH_NS).all()
    assert (spans.end_ns[order] - spans.start_ns[order] == 1_000_000 + np.arange(TRACES) * 1000).all()
    assert (np.flatnonzero(spans.error[order]) == np.arange(0, TRACES, 100)).all()
    assert {KINDS[kind] for kind in spans.kind[order]} == {"client"}


def test_time_is_charged_to_the_cache_that_sends_no_spans(jaeger: Container) -> None:
    spans = JaegerReader(APPLICATION).read(running(jaeger), BEGIN_NS, BEGIN_NS + WINDOW_NS, 3 * TRACES)
    times = {row.service: row for row in service_times(spans, "nginx")}
    assert {name: row.spans for name, row in times.items()} == dict.fromkeys(
        ("nginx", "post", "post-memcached"), TRACES
    )
    assert times["post-memcached"].mean_ms.value == pytest.approx(0.3)
    assert times["nginx"].mean_ms.value == pytest.approx(0.2)
    assert sum(row.share.value for row in times.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("address", "form", "traces"),
    [
        ("http://{}:16686", "jaeger", 1000),  # post and loadgen are in the same traces: each once
        ("http://{}:16686/api/traces?service=post&start={start}&end={end}&limit=50", "jaeger", 50),
        (
            "http://{}:16686/api/v3/traces?query.service_name=post&query.start_time_min={since}"
            "&query.start_time_max={until}&query.num_traces=50&query.search_depth=50",
            "otlp",
            50,
        ),
    ],
    ids=["a Jaeger", "a query", "api_v3"],
)
def test_traces_are_read_from_an_address(jaeger: Container, address: str, form: str, traces: int) -> None:
    seconds = (BEGIN_NS // 10**9, (BEGIN_NS + WINDOW_NS) // 10**9)
    start, end = (second * 10**6 for second in seconds)
    since, until = (f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}" for second in seconds)
    extraction = read_all([address.format(jaeger.address, start=start, end=end, since=since, until=until)], form)
    assert (len(extraction.spans.traces), extraction.rejected, extraction.unreadable) == (traces, {}, {})
    assert {extraction.spans.strings[service] for service in set(extraction.spans.service)} == {"loadgen", "post"}
    told = {service.name: service for service in analyse(extraction, View(entry="nginx")).services}
    assert told["post-memcached"].mean_ms.value == pytest.approx(0.3)


def test_an_address_where_no_jaeger_answers(jaeger: Container) -> None:
    extraction = read_all([f"http://{jaeger.address}:4318", "http://127.0.0.97:1"])
    assert len(extraction.unreadable) == 2
    assert len(extraction.spans) == 0


def test_only_the_window_is_read(jaeger: Container) -> None:
    reader = JaegerReader(APPLICATION, limit=100)
    start, end = BEGIN_NS + 500 * EACH_NS, BEGIN_NS + 600 * EACH_NS
    spans = reader.read(running(jaeger), start, end, 300)
    assert len(spans.traces) == 100
    assert spans.start_ns[spans.parent == -1].min() == start


def test_a_limit_above_what_the_store_holds_is_lowered(jaeger: Container) -> None:
    spans = JaegerReader(APPLICATION, limit=10**6).read(running(jaeger), BEGIN_NS, BEGIN_NS + WINDOW_NS, 3 * TRACES)
    assert len(spans) == 3 * TRACES


def test_spans_that_were_never_sent_are_missing(jaeger: Container) -> None:
    spans = JaegerReader(APPLICATION).read(running(jaeger), BEGIN_NS, BEGIN_NS + WINDOW_NS, 3 * TRACES + 1)
    assert len(spans) == 3 * TRACES


def test_a_trace_without_its_middle_is_rejected_alone(jaeger: Container) -> None:
    late = TRACES + 100  # past the window of the others
    broken, sound = request(late), request(late + 1)
    del broken["post"][0]
    send(jaeger.address, [broken, sound])
    reader = JaegerReader(APPLICATION)
    start = BEGIN_NS + late * EACH_NS
    spans = reader.read(running(jaeger), start, start + 10 * EACH_NS, 5)
    assert (len(spans), reader.rejected) == (3, {"missing parent": 1})


def test_jaeger_down(jaeger: Container) -> None:
    elsewhere = Container("jaeger", "", "jaeger", IMAGE, "", "127.0.0.97", 1, "")
    with pytest.raises(TracesMissing, match="jaeger does not answer"):
        JaegerReader(APPLICATION).read(running(elsewhere), BEGIN_NS, BEGIN_NS + WINDOW_NS, 1)
