"""Sweeps of a node whose load generator is part of what is measured: too few CPUs of its own, or shared ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.capacity.law_draws import throughput
from framework.capacity.measured import node_of, notes, scaling_points
from framework.config.node_file import load_node
from framework.errors import FieldError
from framework.model import Estimate, Step
from framework.model.load_generators import ExternalLoad
from framework.model.node_measurement import NodeRequest
from framework.model.topology import Cpu, Topology
from framework.study.node_sweep import NodeCase, Reading, generator_cpus, measured_node, swept
from framework.study.sweep import rate_digits, rising_steps
from framework.testing.pretend import pretend_application
from tests.node_machine import A, B, G, Made, opened_machines
from tests.unit.test_node_sweep import node_with, quiet, with_closed_loop

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = NodeRequest(SMALL, cores=(1, 2, 4), refinements=4, window_s=10.0, warmup_s=2.0)
TWO_THREADS = Topology(tuple(Cpu(number, number % 4, 0, 0) for number in range(8)))  # four cores
P95 = Estimate(10.0, 9.0, 11.0, 100)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield from opened_machines(tmp_path)


def test_a_generator_that_has_too_few_cpus_is_no_knee(made: Made) -> None:
    tailor, machine = made(rps=lambda _, cores: 100.0 * cores, generator_s=0.005, limited_by_generator=True)
    node, path = tailor.nodes.measure(replace(REQUEST, cores=(1, 2, 3, 4, 6, 7)), quiet)
    assert {point.cores: point.knee_rps is not None for point in node.points} == {
        1: True, 2: True, 3: True, 4: True, 6: False, 7: False,
    }  # fmt: skip
    assert load_node(path) == node
    assert float(node_of(node).reads.rps(28)) == pytest.approx(2_800, rel=0.1)
    [six, _] = [note for note in notes(node) if "load generator" in note]
    assert "6 cores: no knee" in six
    assert "of the 2 CPUs busy that it can use" in six
    assert "the application answers 3" in six, "and says how much it was given"
    rates = [rate for services, _, rate, _ in machine.driven if services == "0-5"]
    assert sum(rate > 2 / 0.005 for rate in rates) == 1, "no higher rate is tried"


def test_requests_that_are_sent_late_are_judged_by_the_limit(made: Made) -> None:
    """A lag of microseconds beside a latency of microseconds says nothing against a rate; one near the limit does."""
    tailor, machine = made(sent_late_ms=lambda rate: 3.0)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet)
    assert node.points[0].knee_rps == pytest.approx(G, rel=0.1)
    machine.sent_late_ms = lambda rate: 600.0 if rate > 50 else 0.0
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet, again=True)
    assert node.points[0].knee_rps is None
    assert "sent requests late: p99 of its lag is 600 ms of the 500 ms allowed; the application" in "".join(notes(node))


def test_rates_that_say_nothing_are_no_knee() -> None:
    def probe(rate_rps: float) -> Reading:
        held = rate_rps <= 60
        step = Step(rate_rps, P95 if held else None, True if held else None, "" if held else "a backup ran")
        return Reading(step, cpu_s={"web": 0.01})

    case = NodeCase("default", "requests", 1, 0)
    point = swept(node_with(4), case, probe, 50.0, 100.0, 1e6)
    assert (point.knee_rps, point.statement) == (
        None, "no knee: at 72 requests/s a backup ran; the application answers 60 requests/s at least",
    )  # fmt: skip
    capped = swept(node_with(4), case, probe, 50.0, 100.0, 62.0)
    assert (capped.knee_rps, capped.above_rps) == (60, None), "nothing above was asked for"


def test_a_rate_above_which_nothing_was_tried_is_no_knee_for_the_next_size(made: Made) -> None:
    firsts: dict[int, float] = {}

    def probe_of(case: NodeCase) -> Callable[[float], Reading]:
        def probe(rate_rps: float) -> Reading:
            firsts.setdefault(case.cores, rate_rps)
            return Reading(Step(rate_rps, P95, rate_rps <= 1_000 * case.cores, ""), cpu_s={"web": 0.001})

        return probe

    cases = [NodeCase("default", "requests", cores, 0) for cores in (1, 2)]
    node = measured_node(node_with(4), cases, probe_of, start_rps=50.0, maximum_rps=700.0, keep=lambda node: None)
    assert [point.above_rps for point in node.points] == [None, None]
    assert firsts == {1: 50, 2: 50}


def test_a_rate_that_was_answered_counts_however_busy_the_generator_was() -> None:
    def probe(rate_rps: float) -> Reading:
        return Reading(Step(rate_rps, P95, rate_rps <= 100, ""), cpu_s={"web": 0.01}, unusable="")

    point = swept(node_with(4), NodeCase("default", "requests", 1, 0), probe, 50.0, 100.0, 1e6)
    assert point.knee_rps == pytest.approx(100, rel=0.05)


def test_windows_of_a_closed_loop_whose_generator_is_saturated_do_not_count() -> None:
    said = ["", "the load generator is too small", "the load generator is too small"]

    def probe(rate_rps: float) -> Reading:
        return Reading(Step(100.0 + len(said), P95, True, ""), unusable=said.pop())

    case = NodeCase("default", "requests", 1, 0)
    point = swept(node_with(4, closed_loop=True), case, probe, 50.0, None, 1e6)
    assert point.knee_rps == 101
    said += ["the load generator is too small"] * 3
    point = swept(node_with(4, closed_loop=True), case, probe, 50.0, None, 1e6)
    assert (point.knee_rps, point.statement) == (None, "no window counts: the load generator is too small")


@pytest.mark.parametrize(("most", "above"), [(150.0, 150.0), (300.0, None)])
def test_a_busy_generator_of_a_closed_loop_leaves_a_bound(
    made: Made, tmp_path: Path, most: float, above: float | None
) -> None:
    """How busy the services are at the rate that it reached says how far they are from their end."""
    tailor, _ = made(rps=lambda _, cores: most, generator_s=0.01)
    busy = replace(REQUEST, application=with_closed_loop(tmp_path) / "busy", cores=(7,), start_rps=99.0)
    node, _ = tailor.nodes.measure(busy, quiet)
    [point] = node.points
    assert (point.knee_rps is None) == (above is None)
    assert point.above_rps == (None if above is None else pytest.approx(above, rel=0.03))
    said = "CPU time allows up to 15" if above else "kept 1.0 of the 1 CPUs busy"
    assert said in point.statement


def test_what_the_generator_takes_of_shared_cores_is_counted_in_cores(made: Made) -> None:
    tailor, _ = made(cpus=TWO_THREADS, generator_s=0.005, cpus_of_core=2)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(4,)), quiet)
    [point] = node.points
    assert point.knee_rps is not None
    assert point.generator_cores == pytest.approx(0.005 * point.knee_rps / 2)
    [scaled] = scaling_points(node.points)
    assert scaled.throughput_rps == pytest.approx(float(throughput(scaled.cores, G, A, B)), rel=0.05)


def test_a_generator_that_takes_all_of_the_shared_cores_leaves_no_knee(made: Made) -> None:
    tailor, _ = made(rps=lambda _, cores: 10_000.0 * cores, generator_s=0.05)
    node, path = tailor.nodes.measure(replace(REQUEST, cores=(8,)), quiet)
    assert load_node(path) == node, "what is kept can be read again"
    assert node.points[0].knee_rps is None
    assert "the load generator kept" in node.points[0].statement
    with pytest.raises(FieldError, match="no knee of reads"):
        node_of(node)


def test_a_generator_of_which_nothing_is_known_leaves_no_knee_on_shared_cores(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framework.study.node_sweep._busy_cpus", lambda load: None)
    tailor, _ = made(generator_s=0.001)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(4, 8)), quiet)
    apart, shared = node.points
    assert apart.knee_rps is not None
    assert shared.knee_rps is None
    assert "what it took of them is not known" in shared.statement
    assert any("on 8 cores: no knee" in note for note in notes(node))


def test_cpus_that_a_generator_can_use(tmp_path: Path) -> None:
    application = pretend_application(tmp_path)
    assert generator_cpus(application) > 1_000
    locust = replace(application, generator="locust")
    assert generator_cpus(locust) == 1
    several = replace(locust, external=ExternalLoad(command=("locust", "--processes", "4")))
    assert generator_cpus(several) > 1_000, "called in another way, it is not known"


def test_rates_of_a_generator_that_takes_whole_ones(tmp_path: Path) -> None:
    application = pretend_application(tmp_path)
    assert (rate_digits(application), rate_digits(replace(application, generator="wrk2"))) == (1, 0)
    rising = rising_steps(
        lambda rate: Step(rate, P95, rate < 3.4, ""), start_rps=1.4, factor=1.25, maximum_rps=50, digits=0
    )
    assert [step.rate_rps for step in rising] == [1, 2, 3, 4]


def test_a_node_is_swept_at_whole_rates(tmp_path: Path) -> None:
    rates = []

    def probe(rate_rps: float) -> Reading:
        rates.append(rate_rps)
        return Reading(Step(rate_rps, P95, rate_rps <= 33.3, ""), cpu_s={"web": 0.03})

    case = NodeCase("default", "requests", 1, 0)
    point = swept(node_with(4), case, probe, 7.7, None, 1e6, digits=0)
    assert all(rate == round(rate) for rate in rates)
    assert (point.knee_rps, point.above_rps) == (32, 34)


def test_bytes_of_a_run_whose_calibration_is_not_told_are_not_known(made: Made) -> None:
    """Its requests are those of the window, and the counters have those of the calibration too."""
    tailor, machine = made(timing="distribution")
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet)
    assert node.points[0].knee_rps is not None
    assert (node.points[0].received_bytes, node.points[0].sent_bytes) == (None, None)
    assert node.points[0].memory_bytes
    assert machine.driven
