"""Root spans of a service, from a small server that answers as Jaeger's query API does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from framework.errors import FieldError, Transient
from framework.telemetry.latency import latency_source
from framework.telemetry.latency.jaeger import LAG_S, JaegerSource
from framework.telemetry.latency.pages import Pages
from framework.telemetry.latency.source import IDLE
from tests.unit.test_traces_jaeger import served

NOW_US = 1_700_000_000_000_000
LAG_US = round(LAG_S * 1e6)


def trace(start_us: int, duration_us: int, service: str = "shop", parent: str | None = None) -> dict[str, Any]:
    """A trace of a root and a child of it in another service."""
    reference = [] if parent is None else [{"refType": "CHILD_OF", "traceID": parent, "spanID": "0"}]
    root = {"traceID": "t", "spanID": "1", "processID": "p1", "startTime": start_us, "duration": duration_us}
    child = root | {"spanID": "2", "processID": "p2", "duration": duration_us // 2}
    link = [{"refType": "CHILD_OF", "traceID": "t", "spanID": "1"}]
    return {
        "traceID": "t",
        "spans": [root | {"references": reference}, child | {"references": link}],
        "processes": {"p1": {"serviceName": service}, "p2": {"serviceName": "db"}},
    }


class Jaeger:
    """Search over traces that start in the window asked for, the newest first."""

    def __init__(self, traces: list[dict[str, Any]]) -> None:
        self.traces, self.asked = traces, list[dict[str, str]]()

    def __call__(self, method: str, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        if path == "/api/services":
            return 200, json.dumps({"data": ["shop", "db"], "errors": None}).encode()
        self.asked.append(query)
        start, end = int(query["start"]), int(query["end"])
        inside = [known for known in self.traces if start <= known["spans"][1]["startTime"] <= end]
        inside.sort(key=lambda known: -known["spans"][0]["startTime"])
        return 200, json.dumps({"data": inside[: int(query["limit"])]}).encode()


@contextmanager
def looking(jaeger: Jaeger, limit: int = 500, service: str = "shop") -> Iterator[JaegerSource]:
    """The source of this Jaeger, at a fixed time of the day."""
    with served(jaeger) as port:
        pages = Pages(f"http://127.0.0.1:{port}", "Jaeger")
        source = JaegerSource(pages, service, 0.95, limit=limit, now_ns=lambda: NOW_US * 1000)
        try:
            yield source
        finally:
            source.close()


def test_the_window_ended_a_little_ago() -> None:
    end_us = NOW_US - LAG_US
    fast = [trace(end_us - 1_000_000 - number, 10_000) for number in range(95)]
    slow = [trace(end_us - 2_000_000 - number, 300_000) for number in range(5)]
    outside = [trace(end_us, 9_000_000), trace(end_us - 5_000_001, 9_000_000), trace(NOW_US - 1, 9_000_000)]
    jaeger = Jaeger(fast + slow + outside)
    with looking(jaeger) as source:
        assert source.begin(0.0) == pytest.approx({"rate_rps": 20.0, "latency_ms": 10.0})
    assert int(jaeger.asked[0]["end"]) == end_us
    assert int(jaeger.asked[0]["start"]) == end_us - 5_000_000


def test_only_roots_count() -> None:
    end_us = NOW_US - LAG_US
    traces = [
        trace(end_us - 1000, 10_000),
        trace(end_us - 2000, 900_000, parent="t"),
        trace(end_us - 3000, 20_000, parent="u"),
    ]
    with looking(Jaeger(traces)) as source:  # a link to another trace is no parent
        assert source.look(0.0) == pytest.approx({"rate_rps": 0.4, "latency_ms": 20.0})


def test_a_full_answer_tells_of_the_time_that_it_covers() -> None:
    end_us = NOW_US - LAG_US
    jaeger = Jaeger([trace(end_us - number * 1000, 10_000) for number in range(1, 4001)])
    with looking(jaeger, limit=100) as source:
        assert source.look(0.0)["rate_rps"] == pytest.approx(1000.0)


def test_no_trace_is_an_idle_service_and_traces_without_its_roots_are_missing() -> None:
    jaeger = Jaeger([])
    with looking(jaeger) as source:
        assert source.begin(0.0) == IDLE
        jaeger.traces = [trace(NOW_US - LAG_US - 1000, 10_000, service="gateway")]
        with pytest.raises(Transient, match="the service that has the first span"):
            source.look(1.0)


def test_an_unknown_service_is_an_input_error() -> None:
    with served(Jaeger([])) as port, pytest.raises(FieldError, match="db, shop"):
        latency_source(f"jaeger=http://127.0.0.1:{port}#shp", 0.95)
