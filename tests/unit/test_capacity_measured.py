"""From sweeps of a node to its law: how well points are known, services with few cores, the memory of one arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.capacity.counting import Request
from framework.capacity.laws import BEYOND_LAWS, NarrowService, fit
from framework.capacity.measured import narrow_services, node_of, scaling_points, with_cpu_ratio
from framework.capacity.nodes import CORES_OF, MeasuredNode, mean_wait, most_busy
from framework.capacity.plan import plan
from framework.model import Estimate
from framework.model.capacity import Interval, Need, ScalingPoint
from framework.model.node_measurement import NodePoint
from tests.unit.test_capacity_plan import EXACTLY, machine
from tests.unit.test_node_sweep import node_with

REDIS = NarrowService("redis", 1.0, 1e-4)  # a request takes 0.9 ms of the web server, 0.1 ms of redis' one thread
LAW = fit([ScalingPoint(n, 1_000.0 * n, 1.0) for n in (1, 2, 4, 8)], 0, [REDIS])
NODE = MeasuredNode(LAW, extrapolate=True)
NEED = Need("n", EXACTLY(50_000.0), EXACTLY(0.0), EXACTLY(1e9), EXACTLY(1e3), latency_s=EXACTLY(3e-3))
REDIS_CORES = CORES_OF.format("redis")


def runs(*knees: float, above: float = 1.0001) -> list[NodePoint]:
    return [NodePoint("default", "requests", 4, run, knee, knee * above) for run, knee in enumerate(knees)]


def test_a_service_that_uses_few_cores_is_a_ceiling() -> None:
    points = [
        NodePoint("default", "requests", n, 0, 100.0 * n, 101.0 * n, cpu_s={"web": 0.008, "redis": 0.002})
        for n in (1, 2, 4)
    ]
    [narrow] = narrow_services(points, {"redis": 1.0, "idle": 1.0})
    assert narrow.name == "redis"
    assert narrow.ceiling == pytest.approx(500)
    node = node_with(8, points=tuple(points), most_cores={"default": {"redis": 1.0}})
    law = node_of(node).reads
    assert [service.name for service in law.narrow] == ["redis"]
    assert float(law.rps(4)) == pytest.approx(401, rel=0.01)
    assert float(law.rps(16)) == pytest.approx(500)
    wide = law.predict(16).rps
    assert 430 < wide.low < 500 < wide.high < 570
    reached = node_with(8, points=(*points, replace(points[-1], cores=8, knee_rps=495.0, above_rps=500.0)),
                        most_cores={"default": {"redis": 1.0}})  # fmt: skip
    assert node_of(reached).reads.name == "linear", "a point at the ceiling tells nothing of the law below it"


@pytest.mark.parametrize("cores", [8.0, 16.0, 32.0, 64.0])
def test_a_ceiling_is_no_time_that_a_request_takes(cores: float) -> None:
    """A request takes 1 ms on any number of cores, however many of them the one thread leaves idle."""
    [chosen] = plan(Request(NEED, NODE, 200), [machine(cores=cores)]).plans
    nodes_of_cpu = 50_000 * 1e-3 / float(most_busy(np.array(cores)))
    assert chosen.by_resource["cpu"] == pytest.approx(nodes_of_cpu, rel=0.1, abs=1.1)
    assert [entry.reason for entry in plan(Request(NEED, NODE, 200), [machine(cores=cores)]).refused] == []


@pytest.mark.parametrize("limit", [None, EXACTLY(3e-3), EXACTLY(1.2e-3)])
def test_a_service_with_one_thread_keeps_the_spare_time_of_a_machine_with_one_core(limit: Interval | None) -> None:
    request = Request(replace(NEED, latency_s=limit), NODE, 400)
    [chosen] = plan(request, [machine(cores=64.0)]).plans
    assert chosen.binding == REDIS_CORES
    busy = 50_000 * REDIS.cpu_s / chosen.nodes
    assert busy <= float(most_busy(np.array(1.0))) + 1e-3
    if limit is not None:
        waits = [
            mean_wait(np.array(seconds), np.array(50_000 * seconds / chosen.nodes), np.array(width))
            for seconds, width in ((REDIS.cpu_s, 1.0), (1e-3, 64.0))
        ]
        assert 1e-3 + float(sum(waits)) <= limit.likely * 1.001
    faster = with_cpu_ratio(LAW, Estimate(0.5, 0.49, 0.51, 8), 1)
    [half] = plan(replace(request, node=replace(NODE, reads=faster)), [machine(cores=64.0)]).plans
    assert half.by_resource[REDIS_CORES] == pytest.approx(chosen.by_resource[REDIS_CORES] / 2, rel=0.1)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e3, 1e6), st.floats(1, 10), st.floats(1.05e-3, 1e-1), st.floats(1, 5), st.sampled_from([4.0, 64.0]))
def test_more_load_and_a_stricter_limit_never_take_less_of_a_ceiling(
    reads: float, more: float, limit: float, stricter: float, cores: float
) -> None:
    def nodes(rate: float, limit_s: float) -> int | None:
        need = replace(NEED, reads=EXACTLY(rate), latency_s=EXACTLY(limit_s))
        plans = plan(Request(need, NODE, 40, most_nodes=10**9), [machine(cores=cores)]).plans
        return plans[0].nodes if plans else None

    few, many, strict = nodes(reads, limit), nodes(reads * more, limit), nodes(reads, limit / stricter)
    for harder in (many, strict):
        assert few is not None or harder is None
        assert harder is None or harder >= (few or 0)


def test_copies_of_writes_reach_a_service_with_few_cores_too() -> None:
    need = replace(NEED, reads=EXACTLY(0.0), writes=EXACTLY(20_000.0), latency_s=None)
    once, twice = (
        plan(Request(replace(need, replicas=copies), NODE, 200), [machine(cores=64.0)]).plans[0].by_resource
        for copies in (1, 2)
    )
    assert twice[REDIS_CORES] == pytest.approx(2 * once[REDIS_CORES], abs=1)
    assert once[REDIS_CORES] == pytest.approx(2.0 / float(most_busy(np.array(1.0))), rel=0.15)


def test_each_configuration_has_its_own_memory() -> None:
    def swept(arm: str, gigabytes: float) -> tuple[NodePoint, ...]:
        return tuple(
            NodePoint(arm, "requests", n, 0, 100.0 * n, 101.0 * n, memory_bytes={"web": gigabytes * 1e9})  # type: ignore[arg-type]
            for n in (1, 2, 4)
        )

    node = node_with(4, points=(*swept("default", 1.0), *swept("tuned", 40.0)))
    assert node_of(node).software_bytes == 1e9
    assert node_of(node, "tuned").software_bytes == 40e9


def test_equal_sweeps_tell_how_well_a_point_is_known() -> None:
    def spread(*knees: float, above: float = 1.0001) -> float:
        [point] = scaling_points(runs(*knees, above=above))
        return point.spread / point.throughput_rps

    assert spread(1000.0) == pytest.approx(0.02, rel=0.01), "what equal sweeps usually differ by"
    assert spread(1000.0, 1000.0) >= 0.02 / 2**0.5 * 0.99, "two say too little"
    assert spread(*[1000.0] * 5) < 0.001
    few, many = spread(990.0, 1000.0, 1010.0), spread(*[990.0, 1000.0, 1010.0] * 4)
    assert few == pytest.approx(0.01 / 3**0.5 * 4.303 / 1.96, rel=0.02), "Student's t of two degrees"
    assert many < few / 2
    assert spread(*[1000.0] * 5, above=1.04) == pytest.approx(0.04 / 12**0.5, rel=0.03), "all between the same rates"


def test_far_fewer_cores_than_measured_are_marked_and_known_less_well() -> None:
    need = replace(NEED, latency_s=None)
    node = MeasuredNode(fit([ScalingPoint(n, 1e5 * n, 1.0) for n in (16, 20, 24, 28, 32)]))
    kinds = [machine("near", cores=4.0), machine("far", cores=2.0)]
    near, far = sorted(plan(Request(need, node, 60), kinds).plans, key=lambda chosen: -(chosen.machine.cores or 0))
    assert (near.extrapolated, far.extrapolated) == (False, True)
    widths = [node.reads.predict(cores).rps for cores in (16, 2)]
    beyond = 2 * 1.96 * BEYOND_LAWS
    assert (widths[0].high - widths[0].low) / widths[0].likely == pytest.approx(beyond, rel=0.2)
    assert (widths[1].high - widths[1].low) / widths[1].likely >= 3.5 * beyond
