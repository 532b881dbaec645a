"""The generator's container tells of its requests while it runs, follows a profile, and leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from framework.bootstrap.storage import SystemClock
from framework.errors import InputError
from framework.load.container import ContainerLoad
from framework.load.live import LiveLoad, LoadLatency
from framework.model import LoadPlan, RatePoint, Workload
from framework.testbeds.docker.side_containers import DockerSideContainers
from tests.docker.test_load_container import APPLICATION, Target, run
from tests.testbed_documents import new_project

pytestmark = pytest.mark.docker

SLOW: Mapping[str, Any] = {
    "kind": "workload", "version": 1, "timeout_ms": 5000,
    "requests": [{"name": "slow", "weight": 1, "path": "/slow/100"}],
}  # fmt: skip
PATIENCE_S = 60.0
RISE = (RatePoint(0, 20), RatePoint(1, 20), RatePoint(1, 200))


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target(new_project())
    yield made
    made.remove()


def plan(window_s: float, document: Mapping[str, Any] = SLOW) -> LoadPlan:
    workload = Workload(50, "constant", "http://target:8080", document)
    return LoadPlan(workload, 0, 0.0, window_s, seed=11, trace=False, profile=RISE)


def live_load() -> LiveLoad:
    return LiveLoad(ContainerLoad(APPLICATION, DockerSideContainers()), SystemClock(), kept_s=600.0)


def test_a_sensor_reads_latency_and_rate_while_the_load_runs(target: Target) -> None:
    with live_load() as load:
        sensor = LoadLatency(load, window_s=60.0)
        assert sensor.missing() == ""
        load.start(plan(600.0), target.running)
        until = time.monotonic() + PATIENCE_S
        readings: Mapping[str, float] = {}
        while time.monotonic() < until and not readings.get("latency_ms", 0.0) >= 100:
            load.check()
            readings = sensor.read(time.monotonic())
            time.sleep(0.05)
        assert readings["latency_ms"] >= 100, "each reply takes that long"
        assert readings["rate_rps"] > 0
        assert target.left(), "it still runs"
    assert target.left() == ""
    load.check()
    assert not load.finished


def test_every_request_of_a_profile_is_told_once(target: Target) -> None:
    with live_load() as load:
        load.start(plan(3.0), target.running)
        assert load.wait(PATIENCE_S + 120)
        told = load.latencies(time.monotonic(), 600.0)
    assert told.latencies_ms.size == 20 + 2 * 200
    assert float(told.latencies_ms.min()) >= 100
    assert told.waiting_ms.size == 0
    assert target.left() == ""


def test_arrivals_follow_the_profile(target: Target) -> None:
    result = run(target, plan(3.0))
    due_s = (result.due_ns - result.started_ns) / 1e9
    assert np.histogram(due_s, [0, 1, 2, 3])[0].tolist() == [20, 200, 200]


def test_a_workload_that_the_generator_refuses_ends_the_load_with_its_words(target: Target) -> None:
    with live_load() as load:
        load.start(plan(3.0, {**SLOW, "surprise": 1}), target.running)
        with pytest.raises(InputError, match=r"the load generator: .*surprise"):
            load.wait(PATIENCE_S)
    assert target.left() == ""
