"""Whatever a server, a log or a load generator tells, no source of latencies raises: a reading is missing then."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from framework.errors import KnobRefused, LoadFailed, Transient
from framework.load.live import LiveLoad, LoadLatency
from framework.telemetry.latency.access_log import AccessLogSource, Times
from framework.telemetry.latency.jaeger import JaegerSource
from framework.telemetry.latency.metrics import MetricsSource
from framework.telemetry.latency.pages import Pages
from framework.telemetry.latency.prometheus import PrometheusSource
from framework.telemetry.latency.selector import Selector
from framework.telemetry.latency.source import BackgroundSensor, Source
from framework.testing.clock import VirtualClock
from tests.spoilt_files import PEOPLE, READ_S, SPOILS, Spoil


class Spoilt(Pages):
    """A server that answers with anything."""

    def __init__(self, good: Mapping[str, str], spoils: Sequence[Spoil]) -> None:
        self.url = httpx.URL("http://127.0.0.1:1")  # and no client: nothing is asked
        self._good, self._spoils, self._number = good, spoils, -1

    def get(self, path: str = "", query: Mapping[str, str] | None = None, accept: str = "application/json") -> bytes:
        self._number += 1
        try:
            return self._spoils[self._number % len(self._spoils)](self._good[path]).encode(errors="replace")
        except KnobRefused as error:
            raise Transient(str(error)) from error

    def close(self) -> None:
        """Nothing to let go of."""


BUCKETS = {"0.01": 50, "0.1": 90, "+Inf": 100}
METRICS = "# TYPE h_seconds histogram\n" + "".join(
    f'h_seconds_bucket{{le="{bound}"}} {count}\n' for bound, count in BUCKETS.items()
)
PROMETHEUS = json.dumps(
    {"data": {"result": [{"metric": {"le": bound}, "value": [1.0, str(count)]} for bound, count in BUCKETS.items()]}}
)
JAEGER = json.dumps(
    {
        "data": [
            {
                "spans": [{"traceID": "a", "processID": "p1", "startTime": 10**9 - 7 * 10**6, "duration": 5000}],
                "processes": {"p1": {"serviceName": "web"}},
            }
        ]
    }
)
SELECTOR = Selector("h_seconds")


def sources(spoils: Sequence[Spoil]) -> list[Source]:
    """Return the sources that ask a server."""
    return [
        MetricsSource(Spoilt({"": METRICS}, spoils), SELECTOR, 0.95, 1e3, 5.0),
        PrometheusSource(Spoilt({"/api/v1/query": PROMETHEUS}, spoils), SELECTOR, 0.95, 1e3, 30.0),
        JaegerSource(
            Spoilt({"/api/services": '{"data": ["web"]}', "/api/traces": JAEGER}, spoils), "web", 0.95,
            now_ns=lambda: 10**18,
        ),
    ]  # fmt: skip


def look(source: Source) -> None:
    """Ask a source again and again; an answer is none, or one that a sensor can have."""
    for second in range(READ_S):
        try:
            reading = source.look(float(second))
        except Transient:
            continue
        assert set(reading) <= {"latency_ms", "rate_rps"}
        assert all(isinstance(value, float | int) for value in reading.values())
    source.close()


@settings(PEOPLE, max_examples=150)
@given(spoils=st.lists(SPOILS, min_size=1, max_size=4))
def test_servers(spoils: list[Spoil]) -> None:
    for source in sources(spoils):
        look(source)


@settings(PEOPLE, max_examples=60)
@given(written=st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([b"GET / 0.01\n", b"9e999\n"])), max_size=12))
def test_an_access_log(written: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        path.write_bytes(b"")
        source = AccessLogSource(path, Times(""), 0.95, 2.0)
        source.begin(0.0)
        for piece in written:
            with path.open("ab") as file:
                file.write(piece)
            look_once = source.look(1.0)
            assert all(math.isfinite(value) for value in look_once.values())
        path.unlink()
        look(source)


def test_a_source_that_raises_anything_leaves_its_sensor_without_a_reading() -> None:
    class Broken:
        window_s, period_s = 0.01, 0.001

        def begin(self, now_s: float) -> Mapping[str, float]:
            return {}

        def look(self, now_s: float) -> Mapping[str, float]:
            raise RuntimeError("a bug")

        def close(self) -> None:
            pass

    sensor = BackgroundSensor("broken", Broken()).begin()
    for second in range(READ_S):
        assert sensor.read(float(second)) == {}
    sensor.close()


EVENT_FIELDS = ("from_ns", "at_ns", "due", "finished", "in_flight", "latencies", "waiting")
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.just("AAAAAA=="),
    st.lists(st.integers(), max_size=3),
)  # fmt: skip


@settings(PEOPLE, max_examples=150)
@example(events=[{"from_ns": math.inf}, {"at_ns": 10**400}, {"due": math.nan}])
@given(events=st.lists(st.dictionaries(st.sampled_from(EVENT_FIELDS), ANYTHING), max_size=6))
def test_a_generator(events: list[dict[str, Any]]) -> None:
    good = {
        "from_ns": 0, "at_ns": 10**8, "due": 3, "finished": 0, "in_flight": 0, "latencies": "", "waiting": "",
    }  # fmt: skip
    load = LiveLoad(None, VirtualClock())  # type: ignore[arg-type]
    sensor = LoadLatency(load)
    for number, event in enumerate(events):
        try:
            load._take({**good, "at_ns": 10**8 * (number + 1), **event})
        except LoadFailed:
            continue
        for second in range(3):
            assert set(sensor.read(float(second))) <= set(sensor.gives)
