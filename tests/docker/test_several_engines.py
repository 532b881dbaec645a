"""One study on two Docker Engines, each a swarm of one node: one is reached by SSH, the other by TCP with TLS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.studies import ROOT, SHORT, TAILOR, environment, slice_in, tailor, trials_of, tune
from tests.secured import way_to, write_certificates, write_context
from tests.ssh_server import SshServer
from tests.swarm_nodes import Nodes

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(900), pytest.mark.usefixtures("namespaces")]
TESTBEDS = ("swarm:left", "swarm:right")
SIDES = ("--testbeds", ",".join(TESTBEDS), "--rate", "50", "--json")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(2, joined=False, options=write_certificates(tmp_path / "certificates")) as nodes:
        yield nodes


@pytest.fixture
def swarms(nodes: Nodes, tmp_path: Path) -> Iterator[dict[str, str]]:
    config = tmp_path / "docker-config"
    with way_to(nodes[2]) as port, SshServer(tmp_path / "ssh") as ssh:
        write_context(config, "secured", f"tcp://127.0.0.1:{port}", tmp_path / "certificates")
        plugins = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "cli-plugins"
        (config / "cli-plugins").symlink_to(plugins)
        yield {
            "TAILOR_SWARM_LEFT": ssh.url(nodes[1].socket.removeprefix("unix://")), "TAILOR_SWARM_RIGHT": "secured",
            "DOCKER_CONFIG": str(config), **ssh.environment,
        }  # fmt: skip


def left_on(nodes: Nodes) -> list[str]:
    """Return what bears the label of a study on any of the engines, without kept data."""
    return [
        name
        for node in nodes.nodes
        for what in (("ps", "-aq"), ("network", "ls", "-q"), ("volume", "ls", "-q"), ("service", "ls", "-q"))
        for name in node.docker(*what, "--filter", "label=tailor.study").split()
    ]


def test_trials_run_on_both_and_each_pair_on_one(
    nodes: Nodes, swarms: dict[str, str], home: Path, tmp_path: Path
) -> None:
    findings = json.loads(tailor(home, "doctor", "--testbed", "swarm:right", "--json", code=0, **swarms).stdout)
    assert {finding["state"] for finding in findings} == {"ok"}
    document = json.loads(tune(home, slice_in(tmp_path), *SIDES, code=0, **swarms).stdout)
    assert document["state"] == "completed"
    trials = trials_of(home, document["study"], **swarms)
    finished = [trial for trial in trials if trial["state"] == "completed"]
    for purposes in (("default", "drift"), ("search",)):  # "drift" is also the default on the testbeds after the first
        assert {t["testbed"] for t in finished if t["purpose"] in purposes} == set(TESTBEDS), purposes
    pairs = [t for t in finished if t["purpose"] == "verdict"]
    for number in {t["pair"] for t in pairs}:
        assert len({t["testbed"] for t in pairs if t["pair"] == number}) == 1
    assert left_on(nodes) == []


def test_a_killed_engine_loses_no_trial(nodes: Nodes, swarms: dict[str, str], home: Path, tmp_path: Path) -> None:
    words = [*TAILOR, "tune", str(slice_in(tmp_path)), *SHORT, "--iterations", "4", *SIDES]
    study = subprocess.Popen(words, env=environment(home, **swarms), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (running := nodes[2].docker("ps", "-q", "--filter", "label=tailor.study").split()):
        assert study.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert running
    nodes[2].end(signal.SIGKILL)
    nodes[2].end_containers()
    printed, _ = study.communicate(timeout=600)
    document = json.loads(printed)
    assert (study.returncode, document["state"]) == (0, "completed")
    events = tailor(home, "show", document["study"], "--json", code=0, **swarms).stdout
    trials = json.loads(events)["trials_detail"]
    finished = [trial for trial in trials if trial["state"] == "completed"]
    assert sorted(t["ask"] for t in finished if t["ask"] is not None) == [0, 1, 2, 3], "each of the search's trials"
    assert {t["testbed"] for t in trials if t["state"] != "completed"} <= {"swarm:right"}
    nodes[2].start()
    nodes[2].wait()
    tailor(home, "clean", code=0, **swarms)
    assert left_on(nodes) == []
