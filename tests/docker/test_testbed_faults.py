"""Faults of a testbed are named, with the failing container's own words, and do not stop the next deployment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from framework.errors import (
    DeploymentFailed,
    InputError,
    MissingPrerequisite,
    ParameterNotApplied,
    StoreError,
    TestbedUnavailable,
)
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.testbed import DockerTestbed
from tests.testbed_documents import NGINX, TYPES, application, deployment, document, new_project, quiet, with_web

pytestmark = pytest.mark.docker


def test_a_service_that_will_not_start_is_named_with_its_last_lines(testbed: DockerTestbed, project: str) -> None:
    wanted = deployment(project, with_web(document()), files={"files/web/nginx.conf": "nonsense;\n"})
    with pytest.raises(
        DeploymentFailed, match=r"(?s)web: its container is exited.*unknown directive \"nonsense\""
    ) as raised:
        testbed.deploy(wanted, quiet)
    assert raised.value.service == "web"
    mended = replace(wanted, files={"files/web/nginx.conf": NGINX % "well"})
    assert "web" in testbed.deploy(mended, quiet).containers, "the next deployment starts from whatever was left"


def test_a_service_that_keeps_restarting_is_an_error(testbed: DockerTestbed, project: str) -> None:
    source = document()
    source["services"]["cache"] |= {"restart": "always", "entrypoint": ["sh", "-c", "echo no luck; exit 7"]}
    with pytest.raises(DeploymentFailed, match=r"(?s)cache: .*(restart|exited with 7).*no luck"):
        testbed.deploy(deployment(project, source), quiet)


def test_a_service_that_never_gets_ready_times_out(tmp_path: Path, project: str) -> None:
    source = document()
    source["services"]["cache"] |= {"entrypoint": ["sh", "-c", "echo asleep; sleep 600"], "command": []}
    with pytest.raises(DeploymentFailed, match=r"(?s)cache: not ready after 2 s: port 11211.*asleep"):
        DockerTestbed(tmp_path, TYPES, ready_timeout_s=2).deploy(deployment(project, source), quiet)


def test_the_application_s_own_health_check_is_honoured(testbed: DockerTestbed, project: str) -> None:
    check = {"test": ["CMD-SHELL", "redis-cli ping"], "interval": "1s", "retries": 2}
    source = document()
    source["services"]["store"]["healthcheck"] = check
    testbed.deploy(deployment(project, source), quiet)
    source["services"]["store"]["healthcheck"] = {**check, "test": ["CMD-SHELL", "exit 1"]}
    with pytest.raises(DeploymentFailed, match="store: its own health check fails"):
        testbed.deploy(deployment(project, source), quiet)


def test_an_image_that_is_missing_is_named(testbed: DockerTestbed, project: str, tmp_path: Path) -> None:
    source = document()
    source["services"]["cache"]["image"] = "tailor/no-such-image:1"
    with pytest.raises(DeploymentFailed, match=r"cache: image tailor/no-such-image:1 is not on this machine"):
        testbed.deploy(deployment(project, source), quiet)
    with pytest.raises(MissingPrerequisite, match=r"(?s)tailor/no-such-image:1 \(service cache\).*make images"):
        testbed.check(application("small", tmp_path, source))
    testbed.check(application("small", tmp_path, document()))


def test_a_port_that_is_taken_does_not_matter_since_nothing_is_published(testbed: DockerTestbed, project: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        source = document()
        source["services"]["cache"]["ports"] = [f"127.0.0.1:{port}:11211", "11211"]
        running = testbed.deploy(deployment(project, source), quiet)
        inspected = Engine().inspect(running.containers["cache"].id) or {}
        assert not inspected["HostConfig"]["PortBindings"]


def test_a_mount_that_is_not_there_is_named(testbed: DockerTestbed, project: str, tmp_path: Path) -> None:
    source = document()
    source["services"]["cache"]["volumes"] = [f"{tmp_path}/no-such-place:/x:ro"]
    with pytest.raises(InputError, match=r"services\.cache\.volumes: .*no-such-place .there is no such file"):
        testbed.deploy(replace(deployment(project, source), roots=(tmp_path,)), quiet)
    assert not (tmp_path / "no-such-place").exists()


def test_an_invalid_document_is_refused_with_its_place(testbed: DockerTestbed, project: str) -> None:
    source = document()
    source["services"]["cache"]["memery"] = 1
    with pytest.raises(InputError, match=r"services\.cache\.memery .not on the list"):
        testbed.deploy(deployment(project, source), quiet)
    source = document()
    source["services"]["cache"]["mem_limit"] = ["x"]
    with pytest.raises(DeploymentFailed, match=r"(?s)invalid.*mem_limit"):
        testbed.deploy(deployment(project, source), quiet)


def test_a_parameter_that_does_not_take_effect_is_named(testbed: DockerTestbed, project: str) -> None:
    with pytest.raises(ParameterNotApplied, match=r"cache.memory_mib did not take effect: wanted 128, .* says 64"):
        testbed.deploy(deployment(project, document(64), memory_mib=128), quiet)


def test_a_container_killed_in_between_is_noticed(testbed: DockerTestbed, project: str) -> None:
    running = testbed.deploy(deployment(project, document()), quiet)
    subprocess.run(["docker", "kill", running.containers["store"].id], check=True, capture_output=True)
    with pytest.raises(DeploymentFailed, match=r"store: its container is exited with 137"):
        testbed.alive(running)
    with pytest.raises(DeploymentFailed, match="store: "):
        testbed.usage(running)
    assert set(testbed.deploy(deployment(project, document()), quiet).containers) == {"cache", "store"}


def test_a_run_directory_that_cannot_be_written_is_an_error(tmp_path: Path, project: str) -> None:
    home = tmp_path / "home"
    home.write_text("a file where a directory is needed")
    with pytest.raises(StoreError, match=r"cannot write .*TAILOR_HOME"):
        DockerTestbed(home, TYPES).deploy(deployment(project, document()), quiet)


KILLED = """
import sys, os, signal
from pathlib import Path
from framework.testbeds.docker.testbed import DockerTestbed
from tests.testbed_documents import TYPES, deployment, document, quiet
def progress(step):
    if step.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
DockerTestbed(Path(sys.argv[1]), TYPES).deploy(deployment(sys.argv[2], document()), progress)
"""


@pytest.mark.parametrize("phase", ["start", "healthy", "read back"])
def test_a_killed_process_leaves_nothing_that_matters(
    tmp_path: Path, testbed: DockerTestbed, project: str, phase: str
) -> None:
    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), project, phase],
        env={**os.environ, "PYTHONPATH": str(root)}, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    subprocess.run(["docker", "stop", "-t", "0", *containers_of(project)[:1]], check=False, capture_output=True)
    assert set(testbed.deploy(deployment(project, document()), quiet).containers) == {"cache", "store"}
    testbed.clean(project)
    assert containers_of(project) == []


def containers_of(project: str) -> list[str]:
    return [container.id for container in Engine().containers(f"com.docker.compose.project={project}")]


def test_an_engine_that_does_not_answer_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, testbed: DockerTestbed
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
    with pytest.raises(TestbedUnavailable, match="does not answer"):
        testbed.deploy(deployment(new_project(), document()), quiet)
    with pytest.raises(MissingPrerequisite, match=r"(?s)does not answer.*DOCKER_HOST"):
        testbed.check(application("small", tmp_path, document()))
    assert testbed.machine().engine == "none"
