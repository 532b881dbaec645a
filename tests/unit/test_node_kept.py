"""Sweeps that are kept: planned with as asked, stopped under ``again``, shared by two processes; known ceilings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.capacity.measured import node_of
from framework.config.node_file import load_node
from framework.errors import FileError, InputError, Interrupted
from framework.model.node_measurement import NodeRequest
from framework.study.locks import file_lock
from framework.study.node_sweep import MOST_CPUS
from framework.use_cases.node import most_cores
from tests.node_machine import Made, opened_machines
from tests.unit.test_node_sweep import changed, node_with, quiet

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
REQUEST = NodeRequest(SMALL, cores=(1, 2), refinements=3, window_s=10.0, warmup_s=2.0)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield from opened_machines(tmp_path)


def test_a_plan_is_made_with_the_requests_that_were_asked_for(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    mixed = changed(tmp_path, [{"name": name, "weight": 1, "path": f"/{name}"} for name in ("get", "put")])
    request = replace(REQUEST, application=mixed)
    machine.rps = lambda configuration, cores: (200.0 if machine.names == ("get",) else 50.0) * cores
    reads, _ = tailor.nodes.measure(replace(request, reads=("get",)), quiet)
    mix, path = tailor.nodes.measure(request, quiet)
    assert {point.kind for point in mix.points} == {"requests"}
    assert float(node_of(mix).reads.rps(2)) == pytest.approx(100, rel=0.05)
    assert float(node_of(reads).reads.rps(2)) == pytest.approx(400, rel=0.05)
    assert {point.kind for point in load_node(path).points} == {"requests", "reads"}, "the file has both"
    driven = len(machine.driven)
    again, _ = tailor.nodes.measure(replace(request, reads=("get",)), quiet)
    assert (again.points, len(machine.driven)) == (reads.points, driven)


def test_a_tuned_configuration_is_not_swept_on_unless_it_is_asked_for() -> None:
    values: dict[str, dict[str, int]] = {"default": {}, "tuned": {"cache.threads": 2}}
    kept = replace(node_with(8), configurations=values, study="s1", most_cores={"default": {}, "tuned": {"cache": 2.0}})
    plain = kept.asked(node_with(8))
    assert (list(plain.configurations), list(plain.most_cores), plain.study) == (["default"], ["default"], "")
    assert kept.asked(kept) == kept


@pytest.mark.parametrize(("again", "how"), [(True, "command without --again goes on"), (False, "command goes on")])
def test_how_a_stopped_measurement_goes_on_is_said(made: Made, again: bool, how: str) -> None:
    tailor, machine = made()

    def stop(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    machine.on_load = stop
    with pytest.raises(Interrupted, match=f"sweeps are kept in .*small.json, and the same {how}"):
        tailor.nodes.measure(REQUEST, quiet, again=again)


def test_a_file_of_another_kind_is_not_overwritten(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    for text in ("precious", "kind: need\nversion: 1\n"):
        precious = tmp_path / "precious.yaml"
        precious.write_text(text)
        with pytest.raises(FileError, match="precious"):
            tailor.nodes.measure(REQUEST, quiet, precious, again=True)
        assert precious.read_text() == text
    assert not machine.driven
    old = tmp_path / "old.json"
    old.write_text('{"kind": "node-measurement", "version": 0}')
    node, _ = tailor.nodes.measure(REQUEST, quiet, old, again=True)
    assert load_node(old) == node


def test_two_processes_do_not_sweep_into_one_file(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    path = tailor.backends.home / "nodes" / "small.json"
    program = f"""
import sys
from pathlib import Path
from framework.study.locks import file_lock
with file_lock(Path({str(tailor.backends.home)!r}), Path({str(path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=r"small.json: it is being measured into by another process"):
            tailor.nodes.measure(REQUEST, quiet)
        assert not machine.driven
        with file_lock(tailor.backends.home, tmp_path / "another.json"):
            pass
        other.communicate()
    tailor.nodes.measure(replace(REQUEST, cores=(1,)), quiet)


def test_quick_sweeps_have_the_window_that_was_asked_for(made: Made) -> None:
    tailor, _ = made()
    quick = replace(REQUEST, cores=(1,), quick=True)
    asked, _ = tailor.nodes.measure(quick, quiet)
    usual, _ = tailor.nodes.measure(replace(quick, window_s=None), quiet, again=True)
    assert (asked.window_s, usual.window_s) == (10.0, 6.0)


def test_cores_that_services_can_use_are_those_of_their_types(made: Made) -> None:
    tailor, _ = made()
    types = tailor.nodes._types(MOST_CPUS, 64_000)
    small = tailor.backends.application(SMALL)
    assert most_cores(small, types, {}) == {"cache": 4.0}, "memcached's threads; nginx has a process for each core"
    assert most_cores(small, types, {"cache.threads": 8, "front.worker_processes": 2}) == {"cache": 8.0, "front": 2.0}
    store = tailor.backends.application(ROOT / "apps" / "key-value")
    assert most_cores(store, types, {}) == {}, "its threads are those of another protocol than HTTP"
    assert most_cores(store, types, {"key-value.gomaxprocs": 2, "key-value.threads": 8}) == {"key-value": 2.0}
    social = tailor.backends.application(ROOT / "apps" / "social-network")
    redis = [service.name for service in social.services if service.type == "redis"]
    assert redis
    known = most_cores(social, types, {f"{name}.io_threads": 4 for name in redis})
    assert {known[name] for name in redis} == {1.0}, "commands are executed by one thread"


def test_threads_beside_a_program_are_no_ceiling(made: Made) -> None:
    tailor, _ = made()
    types = tailor.nodes._types(MOST_CPUS, 64_000)
    assert [types[name].most_cores for name in ("node", "jvm", "dotnet")] == [None] * 3
    assert types["valkey"].most_cores == 1
    assert types["go-service"].most_cores == "gomaxprocs"
