"""Two workers with an engine each, as on two machines, on one PostgreSQL: studies are measured on both at once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.model import StudyState, TrialState, TuneRequest
from framework.testbeds.docker.generators import GENERATOR
from tests.databases import Server
from tests.docker.studies import ROOT, TAILOR, environment, slice_in
from tests.swarm_nodes import Node, Nodes

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(900), pytest.mark.usefixtures("namespaces")]
IMAGES = (
    "nginx:1.22", "memcached:1.6", "postgres:15", "jaegertracing/jaeger:2.13.0", "tailor/social-network:1",
    GENERATOR,
)  # fmt: skip
PATIENCE_S = 500.0
STUDIES = 3


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with Nodes(2, joined=False) as nodes:
        for node in nodes.nodes:
            node.load(IMAGES)
        yield nodes


def worker(node: Node, directory: Path, url: str) -> subprocess.Popen[bytes]:
    """Start a worker in a node's network namespace, with the node's engine and a TAILOR_HOME of its own."""
    home = directory / f"home {node.number}"
    with (directory / f"worker {node.number}.log").open("ab") as log:
        return subprocess.Popen(
            node.inside(*TAILOR, "worker"), cwd=ROOT, stdout=log, stderr=log,
            env=environment(home, TAILOR_DATABASE=url, DOCKER_HOST=node.socket),
        )  # fmt: skip


def launched(kept: Opened, application: Path, seed: int) -> str:
    """Queue a short study."""
    request = TuneRequest(
        application, testbed="docker", iterations=2, repetitions=1, window_s=3.0, warmup_s=1.0, pairs=0, drift_every=0,
        minimal=0, rate_rps=50.0, optimizer="random", seed=seed,
    )  # fmt: skip
    study = kept.studies.create(request)
    kept.queue.put(study.id, resource=kept.studies.resource(study))
    return study.id


def test_studies_run_on_both_engines_at_the_same_time(nodes: Nodes, tmp_path: Path) -> None:
    application = slice_in(tmp_path)
    with Server(tmp_path / "sockets") as server, ExitStack() as running:
        kept = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path / "home"), "TAILOR_DATABASE": server.url}))
        running.callback(kept.close)
        studies = [launched(kept, application, seed) for seed in range(STUDIES)]
        for node in nodes.nodes:
            running.enter_context(_ended(worker(node, tmp_path, server.url)))
        busy: dict[int, set[str]] = {node.number: set() for node in nodes.nodes}
        together = False
        deadline = time.monotonic() + PATIENCE_S
        while any(kept.store.get(study).state is not StudyState.COMPLETED for study in studies):
            logs = [(tmp_path / f"worker {node.number}.log").read_text()[-3000:] for node in nodes.nodes]
            assert time.monotonic() < deadline, logs
            seen = {node.number: _studies_on(node) for node in nodes.nodes}
            together = together or all(seen.values())
            for number, names in seen.items():
                busy[number] |= names
            time.sleep(0.5)
        assert together, "at some moment both engines had a study's containers"
        assert not busy[1] & busy[2], "each study was on one engine"
        assert busy[1] | busy[2] == set(studies)
        for study in studies:
            trials = kept.store.trials(study)
            assert [t.state for t in trials if t.purpose == "search"] == [TrialState.COMPLETED] * 2, study
        while left := [name for node in nodes.nodes for name in _studies_on(node)]:  # a study is completed, then clean
            assert time.monotonic() < deadline, left
            time.sleep(0.2)


def _studies_on(node: Node) -> set[str]:
    """Return the studies that have containers on a node's engine."""
    names = ("ps", "-a", "--filter", "label=tailor.study", "--format", '{{.Label "tailor.study"}}')
    return set(node.docker(*names).split())


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process at the end of a block."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
