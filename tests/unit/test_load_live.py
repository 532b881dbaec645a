"""A live load keeps what its generator tells, and a sensor reads it; the generator's container is a fake."""

from __future__ import annotations

import base64
import json
import math
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import InputError, LoadFailed, MissingPrerequisite
from framework.load.container import ContainerLoad
from framework.load.live import LiveLoad, LoadLatency, Recent, live_window
from framework.model import Application, Deployment, LoadPlan, Objective, RatePoint, Running, Tracing, Workload
from framework.model.side_container import Ended, SideContainer
from framework.ports.sensor import Sensor
from framework.testing.clock import VirtualClock
from optimizer.space import Configuration

APPLICATION = Application(
    name="a", directory=Path(), compose={}, services=(), hosts=(),
    workload=Workload(50, "poisson", "http://target", {}), tracing=Tracing("jaeger"), objective=Objective(),
)  # fmt: skip
PLAN = LoadPlan(APPLICATION.workload, 0, 1.0, 2.0, seed=1, profile=(RatePoint(0, 10), RatePoint(2, 30)))
RUNNING = Running(Deployment("a", "tailor-s", Configuration({}), {}, {}), "net", {})
FAILED = 0xFFFFFFFF
WELL = Ended(0, "", late=False)
PATIENCE_S = 60.0  # more than any machine needs


class Containers:
    """A fake engine whose container writes the events of a queue; None ends it with ``ended``."""

    def __init__(self, ended: Ended, image: bool = True) -> None:
        self.ended, self.image = ended, image
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.plan: dict[str, Any] = {}
        self.removed = threading.Event()

    def has_image(self, name: str) -> bool:
        return self.image

    def cores(self) -> int:
        return 2

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        self.plan = json.loads(wanted.files["/plan.json"])
        try:
            while True:
                event = self.events.get(timeout=PATIENCE_S)
                try:
                    if event is None:
                        return self.ended
                    each(json.dumps(event).encode())
                finally:
                    self.events.task_done()
        finally:
            self.removed.set()


class Bench:
    """A live load on a virtual clock; the generator's own clock is another machine's."""

    def __init__(self, ended: Ended = WELL, image: bool = True) -> None:
        self.clock, self.containers = VirtualClock(), Containers(ended, image)
        self.load = LiveLoad(ContainerLoad(APPLICATION, self.containers), self.clock)
        self.at_ns = 5_000_000_000

    def start(self) -> None:
        self.load.start(PLAN, RUNNING)

    def passes(self, ended: list[int], *, waiting: list[int] | None = None, due: int | None = None) -> None:
        """Let 100 ms pass, and the generator tell of them; latencies and waiting times in us."""
        self.clock.sleep(0.1)
        self.at_ns += 100_000_000
        self.tell(window(ended, waiting or [], len(ended) if due is None else due, self.at_ns))

    def tell(self, event: dict[str, Any] | None) -> None:
        self.containers.events.put(event)
        self.containers.events.join()

    def now(self) -> float:
        return self.clock.monotonic()

    def ended(self) -> None:
        """Let the generator end, and wait for what it was."""
        self.containers.events.put(None)
        self.load.wait(PATIENCE_S)


def packed(values: list[int]) -> str:
    return base64.b64encode(np.array(values, "<u4").tobytes()).decode()


def window(ended: list[int], waiting: list[int], due: int, at_ns: int) -> dict[str, Any]:
    return {
        "event": "window", "from_ns": at_ns - 100_000_000, "at_ns": at_ns, "due": due, "finished": len(ended),
        "failed": ended.count(FAILED), "in_flight": len(waiting), "oldest_us": max(waiting, default=0),
        "latencies": packed(ended), "waiting": packed(waiting),
    }  # fmt: skip


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.start()
    yield made
    if not made.containers.removed.is_set():
        made.containers.events.put(None)
    made.load.stop()


def test_the_plan_asks_for_windows_and_no_traces(bench: Bench) -> None:
    bench.passes([1000])
    plan = bench.containers.plan
    assert (plan["live_ms"], plan["forget"], plan["trace"], plan["rate_rps"]) == (100, True, False, 0)
    assert plan["profile"] == [{"at_s": 0, "rate_rps": 10}, {"at_s": 2, "rate_rps": 30}]


def test_the_last_seconds_are_kept(bench: Bench) -> None:
    assert bench.load.latencies(bench.now(), 2.0).age_s == math.inf
    bench.passes([9000] * 4)
    bench.passes([1000, FAILED], due=3)
    bench.passes([2000], waiting=[500, 100], due=3)
    recent = bench.load.latencies(bench.now(), 0.2)
    assert sorted(recent.latencies_ms) == [1, 2, math.inf]
    assert recent.waiting_ms.tolist() == [0.5, 0.1]
    assert recent.rate_rps == pytest.approx(30)
    assert recent.age_s == pytest.approx(0, abs=1e-6)
    for _ in range(700):
        bench.passes([])
    assert bench.load.latencies(bench.now(), 1e9).latencies_ms.size == 0, "older than a minute"


def test_a_window_that_comes_late_is_seen_to_be_late(bench: Bench) -> None:
    bench.passes([1000])
    bench.clock.sleep(0.7)
    bench.passes([1000])  # by now the generator is 0.7 s behind
    assert bench.load.latencies(bench.now(), 2.0).age_s == pytest.approx(0.7, abs=1e-6)


def test_a_stale_load_has_no_latency_and_an_idle_one_has_none_to_wait_for(bench: Bench) -> None:
    sensor: Sensor = LoadLatency(bench.load)
    assert sensor.gives == ("latency_ms", "rate_rps")
    assert sensor.read(bench.now()) == {}
    bench.passes([])
    assert sensor.read(bench.now()) == {"latency_ms": 0, "rate_rps": 0}, "nobody asks, and nobody waits"
    bench.passes([1000] * 20)
    assert sensor.read(bench.now() + 0.95) == {"latency_ms": 1, "rate_rps": pytest.approx(100)}
    assert sensor.read(bench.now() + 1.05) == {}


def test_a_service_that_stands_still_is_seen_while_it_does(bench: Bench) -> None:
    sensor = LoadLatency(bench.load, window_s=1.0)
    for _ in range(9):
        bench.passes([1000] * 10)
    assert sensor.read(bench.now())["latency_ms"] == 1
    bench.passes([], waiting=[90_000 - 10_000 * number for number in range(10)], due=10)
    assert sensor.read(bench.now())["latency_ms"] == 50  # the 95th of 100, of which ten wait 0 to 90 ms
    bench.passes([], waiting=[190_000 - 10_000 * number for number in range(20)], due=10)
    assert sensor.read(bench.now())["latency_ms"] > 100


def test_a_quantile_among_failed_requests_is_infinite(bench: Bench) -> None:
    bench.passes([1000] * 18 + [FAILED] * 2)
    assert LoadLatency(bench.load).read(bench.now())["latency_ms"] == math.inf
    assert LoadLatency(bench.load, quantile=0.9).read(bench.now())["latency_ms"] == 1


latencies = st.lists(st.floats(0, 1e6) | st.just(math.inf), max_size=40)


@given(latencies, st.lists(st.floats(0, 1e6), max_size=40), st.floats(0.01, 1))
def test_waiting_requests_never_make_a_load_look_faster(
    ended: list[float], waiting: list[float], quantile: float
) -> None:
    alone = Recent(np.array(ended), np.empty(0), 1.0, 0.0).quantile_ms(quantile)
    both = Recent(np.array(ended), np.array(waiting), 1.0, 0.0).quantile_ms(quantile)
    if alone is None:
        assert (both is None) == (not waiting)
    else:
        assert both is not None
        assert both >= alone
        assert alone == sorted(ended)[max(math.ceil(quantile * len(ended)), 1) - 1]


def test_a_plan_that_came_to_its_end_is_finished(bench: Bench) -> None:
    for name in ("warmup", "window", "drain", "done"):
        bench.tell({"event": "phase", "name": name})
    bench.passes([1000])
    bench.tell({"event": "result", "interrupted": False})
    assert not bench.load.finished
    bench.ended()
    assert bench.load.finished
    bench.load.check()


def test_a_load_that_is_stopped_ends_at_the_next_event() -> None:
    bench = Bench()
    with bench.load:
        bench.start()
        bench.passes([1000])
        stopping = threading.Thread(target=bench.load.stop)
        stopping.start()
        while not bench.containers.removed.is_set():
            bench.containers.events.put(window([], [], 0, bench.at_ns))
            bench.containers.removed.wait(0.01)
        stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    bench.load.check()
    assert not bench.load.finished


def test_the_generators_own_words_are_told() -> None:
    bench = Bench(Ended(1, "out of file descriptors\n", late=False))
    bench.start()
    bench.passes([1000])
    with pytest.raises(LoadFailed, match=r"(?s)ended in start with status 1.*out of file descriptors"):
        bench.ended()
    with pytest.raises(LoadFailed, match="out of file descriptors"):
        bench.load.check()


def test_an_image_that_does_not_know_windows_asks_for_another() -> None:
    bench = Bench(Ended(2, "", late=False))
    bench.start()
    bench.tell({"event": "problem", "refused": True, "message": 'plan: json: unknown field "profile"'})
    with pytest.raises(InputError, match=r"unknown field \"profile\"; its image .* is older .* `make images`"):
        bench.ended()


def test_without_the_image_it_does_not_start() -> None:
    bench = Bench(image=False)
    assert "is not here" in LoadLatency(bench.load).missing()
    bench.start()
    with pytest.raises(MissingPrerequisite, match="make images"):
        bench.load.wait(PATIENCE_S)
    assert LoadLatency(Bench().load).missing() == ""


@pytest.mark.parametrize(
    "damage",
    [
        {"latencies": "x"}, {"latencies": "AAA="}, {"finished": 3}, {"in_flight": 1}, {"waiting": None},
        {"due": "many"}, {"at_ns": None},
    ],
)  # fmt: skip
def test_a_damaged_window_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(LoadFailed, match="the generator's window cannot be read"):
        live_window({**window([1000, 2000], [], 2, 0), **damage})


def test_a_window_of_a_run_that_asked_for_none_is_unknown() -> None:
    containers = Containers(WELL)
    containers.events.put(window([], [], 0, 0))
    with pytest.raises(LoadFailed, match="unknown event 'window'"):
        ContainerLoad(APPLICATION, containers).run(replace(PLAN, profile=()), RUNNING, pytest.fail, lambda step: None)
