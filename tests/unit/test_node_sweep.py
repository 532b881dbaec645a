"""Sweeps of a node on a pretended machine: its law, what requests take, the generator's cost, and going on later."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.capacity.law_draws import throughput
from framework.capacity.measured import node_of, notes, scaling_points
from framework.config.application import load_application
from framework.config.node_file import load_node
from framework.errors import FieldError, FileError, InputError, Interrupted, UnknownName
from framework.model import TuneRequest
from framework.model.events import Event
from framework.model.node_measurement import NodeMeasurement, NodePoint, NodeRequest
from framework.model.topology import Cpu, Topology
from framework.study.core_places import NodePlace, cpu_sets, place_of
from framework.use_cases.node import sizes_of
from tests.node_machine import MEMORY_MIB, RECEIVED, SENT, A, B, G, Made, opened_machines

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = NodeRequest(SMALL, cores=(1, 2, 4), refinements=4, window_s=10.0, warmup_s=2.0)


def quiet(event: Event) -> None:
    pass


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield from opened_machines(tmp_path)


def test_the_law_of_the_machine_is_found(made: Made) -> None:
    tailor, _ = made()
    node, path = tailor.nodes.measure(replace(REQUEST, cores=(1, 2, 3, 4, 6, 7)), quiet)
    assert [point.cores for point in node.points] == [1, 2, 3, 4, 6, 7]
    for point in node.points:
        assert point.knee_rps is not None
        assert point.above_rps is not None
        # One percent of the rate may be missing where it holds, beside what queued up in the warm-up.
        assert point.knee_rps / 1.03 <= throughput(point.cores, G, A, B) <= point.above_rps
        assert point.generator_cores == 0
        at_knee_s = point.cores / float(throughput(point.cores, G, A, B))
        assert sum(point.cpu_s.values()) == pytest.approx(at_knee_s, rel=0.03)
        assert point.cpu_s["front"] == pytest.approx(9 * point.cpu_s["cache"])
        assert point.memory_bytes == {name: MEMORY_MIB[name] * 2**20 for name in ("front", "cache")}, "not Jaeger's"
        assert (point.received_bytes, point.sent_bytes) == pytest.approx((RECEIVED, SENT))
    law = node_of(node).reads
    assert law.name != "linear"
    assert law.g == pytest.approx(G, rel=0.05)
    assert float(law.rps(7)) == pytest.approx(float(throughput(7, G, A, B)), rel=0.03)
    prediction = law.predict(28).rps
    assert prediction.low <= throughput(28, G, A, B) <= prediction.high
    assert load_node(path) == node
    assert path == tailor.backends.home / "nodes" / "small.json"


def test_services_and_generator_have_cores_of_their_own_where_there_are_enough(made: Made) -> None:
    tailor, machine = made(generator_s=0.001)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(2, 8)), quiet)
    assert {(services, generator) for services, generator, _, _ in machine.driven} == {("0-1", "2-7"), ("0-7", "0-7")}
    apart, shared = node.points
    assert apart.generator_cores == 0
    assert apart.generator_s == pytest.approx(0.001)
    assert shared.knee_rps is not None
    assert shared.generator_cores == pytest.approx(0.001 * shared.knee_rps)
    points = scaling_points(node.points)
    assert points[1].cores == pytest.approx(8 - shared.generator_cores)
    assert points[1].throughput_rps == pytest.approx(float(throughput(points[1].cores, G, A, B)), rel=0.05)
    assert any("the load generator shared the cores of size 8" in note for note in notes(node))


def test_cores_below_one_are_made_up_for() -> None:
    [point] = scaling_points([NodePoint("default", "requests", 1, 0, 90.0, 92.0, generator_cores=0.25)])
    assert point.cores == 1
    assert point.throughput_rps == pytest.approx((90 * 92) ** 0.5 / 0.75)


def test_most_windows_are_near_the_knee(made: Made) -> None:
    tailor, machine = made()
    tailor.nodes.measure(replace(REQUEST, cores=(4,)), quiet)
    rates = [rate for _, _, rate, _ in machine.driven]
    assert rates[0] < 10, "the application's own rate first"
    near = [rate for rate in rates if 0.5 < rate / float(throughput(4, G, A, B)) < 1.6]
    assert len(near) >= len(rates) - 2
    assert len(rates) <= 14


def test_a_sweep_that_begins_too_high_comes_down(made: Made) -> None:
    tailor, _ = made()
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1,), start_rps=500.0), quiet)
    assert node.points[0].knee_rps == pytest.approx(G, rel=0.1)


def test_a_measurement_goes_on_where_it_was_stopped(made: Made) -> None:
    tailor, machine = made()

    def stop(count: int) -> None:
        if count == stop_at:
            raise KeyboardInterrupt

    stop_at, machine.on_load = 14, stop
    with pytest.raises(Interrupted, match=r"1 sweeps are kept in .*small.json, and the same command goes on"):
        tailor.nodes.measure(REQUEST, quiet)
    stop_at = -1
    before = len(machine.driven)
    node, path = tailor.nodes.measure(REQUEST, quiet)
    assert [point.cores for point in node.points] == [1, 2, 4]
    assert {services for services, _, _, _ in machine.driven[before:]} == {"0-1", "0-3"}, "one core is not swept again"
    driven = len(machine.driven)
    assert tailor.nodes.measure(REQUEST, quiet) == (node, path)
    assert len(machine.driven) == driven
    more, _ = tailor.nodes.measure(replace(REQUEST, cores=(1, 2, 4, 6), runs=2), quiet)
    assert [(point.cores, point.run) for point in more.points[3:]] == [(6, 0), (1, 1), (2, 1), (4, 1), (6, 1)]
    assert not machine.cleaned or machine.cleaned[-1].startswith("tailor-")


def test_other_conditions_are_another_measurement(made: Made) -> None:
    tailor, _ = made()
    tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet)
    with pytest.raises(
        InputError, match=r"other conditions \(window_s, limit_ms\); allowed: again, or another node_file"
    ):
        tailor.nodes.measure(replace(REQUEST, cores=(1,), window_s=20.0, limit_ms=100.0), quiet)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(2,), window_s=20.0), quiet, again=True)
    assert [point.cores for point in node.points] == [2]


def changed(directory: Path, requests: list[dict[str, Any]]) -> Path:
    application = directory / "mixed"
    shutil.copytree(SMALL, application)
    document = {"kind": "workload", "version": 1, "timeout_ms": 1000, "requests": requests}
    (application / "workload.yaml").write_text(json.dumps(document))
    return application


def test_reads_and_writes_are_swept_apart(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    mixed = changed(tmp_path, [{"name": name, "weight": 1, "path": f"/{name}"} for name in ("get", "scan", "put")])
    request = replace(REQUEST, application=mixed, cores=(1, 2), reads=("get", "scan"), writes=("put",))
    machine.rps = lambda configuration, cores: (50.0 if machine.names == ("put",) else 100.0) * cores
    node, _ = tailor.nodes.measure(request, quiet)
    assert [(point.kind, point.cores) for point in node.points] == [
        ("reads", 1), ("writes", 1), ("reads", 2), ("writes", 2),
    ]  # fmt: skip
    measured = node_of(node)
    assert measured.writes is not None
    assert float(measured.reads.rps(4)) == pytest.approx(400, rel=0.05)
    assert float(measured.writes.rps(4)) == pytest.approx(200, rel=0.05)
    assert {names for _, _, _, names in machine.driven} == {("get", "scan"), ("put",)}
    with pytest.raises(UnknownName, match="unknown request 'got'; known: get, put, scan"):
        tailor.nodes.measure(replace(request, reads=("got",)), quiet, again=True)
    with pytest.raises(InputError, match="write_request: allowed with read_request"):
        tailor.nodes.measure(replace(request, reads=()), quiet, again=True)


def test_the_best_configuration_of_a_study_is_swept_beside_the_default(made: Made) -> None:
    tailor, machine = made()
    machine.scale = lambda configuration: 5.0 + 300.0 / float(str(configuration.get("cache.memory_mib", 64)))
    study = tailor.studies.create(
        TuneRequest(SMALL, rate_rps=50.0, iterations=6, repetitions=2, pairs=2, drift_every=0, minimal=0)
    )
    best = tailor.studies.run(study.id, quiet).id
    tuned = next(t for t in tailor.store.trials(best) if t.number == tailor.store.get(best).best).configuration
    assert tuned["cache.memory_mib"] != 64
    machine.rps = lambda configuration, cores: cores * (60.0 if configuration.get("cache.memory_mib") else 40.0)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1, 2), study=best), quiet)
    assert [(point.arm, point.cores) for point in node.points] == [
        ("default", 1), ("tuned", 1), ("tuned", 2), ("default", 2),
    ]  # fmt: skip
    assert node.configurations["tuned"]["cache.memory_mib"] == tuned["cache.memory_mib"]
    ratio = float(node_of(node, "tuned").reads.rps(2)) / float(node_of(node).reads.rps(2))
    assert ratio == pytest.approx(1.5, rel=0.05)
    assert node.study == best


def test_what_cannot_be_swept_is_refused(made: Made, tmp_path: Path) -> None:
    tailor, _ = made()
    for changes, says in (
        ({"cores": (9,)}, "cores: found 9; allowed: 1 to 8, the cores of this machine"),
        ({"runs": 0}, "runs: found 0; allowed: at least 1"),
        ({"factor": 1.0}, "factor: found 1.0"),
        ({"window_s": 0.5}, "window_s: found 0.5"),
        ({"start_rps": 0.0}, "start_rps: found 0"),
        ({"operations": float("inf")}, "operations: found inf"),
    ):
        with pytest.raises(FieldError, match=says):
            tailor.nodes.measure(replace(REQUEST, **changes), quiet, tmp_path / "new.json")


def test_where_no_rate_holds_nothing_is_planned_with_it(made: Made) -> None:
    tailor, _ = made(rps=lambda configuration, cores: 0.01)
    node, _ = tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet)
    assert node.points[0].knee_rps is None
    with pytest.raises(FieldError, match="node: found 'no knee of reads'; allowed: a node with at least one size"):
        node_of(node)
    assert any("no rate held" in note for note in notes(node))


def test_cpus_of_whole_cores_one_socket_first() -> None:
    threads = tuple(Cpu(number, number % 4, number % 4 % 2, 0) for number in range(8))  # two sockets, two cores each
    topology = Topology(threads)
    first, all_of_them = place_of(topology, 2), place_of(topology, 4)
    assert (first.services, first.generator, first.shared) == ("0,2,4,6", "1,3,5,7", False)
    assert (all_of_them.services, all_of_them.generator, all_of_them.shared) == ("0-7", "0-7", True)
    with pytest.raises(FieldError, match="cores"):
        place_of(topology, 5)


def with_closed_loop(directory: Path) -> Path:
    """Return the directory of an application that names a closed loop, ``busy`` in it."""
    application = directory / "application"
    shutil.copytree(SMALL, application)
    (application / "busy").mkdir()
    text = (application / "application.yaml").read_text()
    (application / "application.yaml").write_text(f"{text}closed_loop: busy\n")
    load = "load: {generator: key-value, command: [key-value-load, -depth, '16'], operations: 16}\n"
    text = text.replace("name: small", "name: small-busy\ncompose: ../compose.yaml")
    (application / "busy" / "application.yaml").write_text(text.replace("{file: workload.yaml, ", "{") + load)
    return application


def test_an_application_with_a_closed_loop_is_measured_there(made: Made, tmp_path: Path) -> None:
    application = with_closed_loop(tmp_path)
    tailor, machine = made()
    request = replace(REQUEST, application=application, cores=(1,))
    node, path = tailor.nodes.measure(request, quiet)
    assert (node.application, node.closed_loop, node.operations, len(machine.driven)) == ("small-busy", True, 16, 3)
    assert path.name == "small-busy.json"
    assert tailor.nodes.measure(replace(request, operations=4), quiet, tmp_path / "four.json")[0].operations == 4
    for asks in (
        {"limit_ms": 500.0}, {"start_rps": 10.0}, {"reads": ("root",)}, {"application": SMALL},
    ):  # fmt: skip
        rates, _ = tailor.nodes.measure(replace(request, **asks), quiet, again=True)
        assert (rates.application, rates.closed_loop, rates.operations) == ("small", False, 1), asks


def test_one_shot_commands_get_no_cpus() -> None:
    """They have no container in a window, so that their CPUs could not be read back."""
    application = load_application(Path(__file__).parents[2] / "apps" / "key-value")
    sets = cpu_sets(application, NodePlace("0", "1", shared=False))
    assert {hook.service for hook in (application.hooks.prepare, application.hooks.seed) if hook} == {"prepare"}
    assert sets == {
        **{f"{name}.cpuset": "0" for name in ("key-value", "redis", "memcached")},
        "jaeger.cpuset": "1",
    }


def node_with(cores: int, testbed: str = "docker", **changes: Any) -> NodeMeasurement:
    sent: dict[str, tuple[str, ...]] = {"requests": ()}
    values: dict[str, dict[str, Any]] = {"default": {}}
    return NodeMeasurement(
        "shop", "", testbed, False, "cpu", cores, 1.0, 1.0, 1.2, 2, 1, 500.0, sent, values, **changes
    )  # fmt: skip


def test_sizes_leave_a_core_for_the_generator_where_there_are_enough() -> None:
    assert sizes_of(node_with(1), quick=False) == (1,)
    assert sizes_of(node_with(2), quick=False) == (1, 2)
    assert sizes_of(node_with(4), quick=False) == (1, 2, 3)
    assert sizes_of(node_with(16), quick=False) == (1, 2, 3, 4, 6, 8, 12, 15)
    assert sizes_of(node_with(16), quick=True) == (1, 2, 4, 8, 15)
    assert sizes_of(node_with(2, "twin"), quick=True) == (1, 2, 4, 8, 16)


BAD: Mapping[str, tuple[str, str, str]] = {
    "another kind": ('"kind": "node-measurement"', '"kind": "node"', "kind: found 'node'"),
    "no cores": ('"cores": 1,', '"cores": 0,', "cores: found 0"),
    "a knee of nothing": ('"knee_rps": 100.0', '"knee_rps": 0', "knee_rps: found 0"),
    "above below the knee": ('"above_rps": 101.0', '"above_rps": 99.0', "above_rps above knee_rps"),
    "more generator than cores": ('"generator_cores": 0.0', '"generator_cores": 1.0', "generator_cores below cores"),
    "another arm": ('"arm": "default"', '"arm": "best"', "arm: found 'best'"),
    "a misspelt key": ('"limit_ms"', '"limit"', "limit: found 'limit'"),
}


@pytest.mark.parametrize(("good", "bad", "says"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused(good: str, bad: str, says: str, tmp_path: Path) -> None:
    from framework.config.node_file import write_node

    points = (NodePoint("default", "requests", 1, 0, 100.0, 101.0),)
    path = write_node(node_with(2, points=points), tmp_path / "node.json")
    assert load_node(path).points == points
    text = path.read_text()
    assert good in text
    path.write_text(text.replace(good, bad))
    with pytest.raises(FileError) as caught:
        load_node(path)
    assert says in str(caught.value)
