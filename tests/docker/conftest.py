"""Fixtures that several files of Docker tests use."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from framework.errors import MissingPrerequisite
from framework.testbeds.docker.compose_command import CANDIDATES, ComposeCommand
from framework.testbeds.docker.testbed import DockerTestbed
from tests import swarm_nodes
from tests.docker.studies import ROOT, TAILOR, environment, slice_in
from tests.testbed_documents import TYPES, new_project


@pytest.fixture(params=["compose 2", "compose 1.29"])
def testbed(request: pytest.FixtureRequest, tmp_path: Path) -> DockerTestbed:
    """A testbed with each generation of the compose command."""
    return DockerTestbed(tmp_path, TYPES, ready_timeout_s=60, compose=_compose(old=request.param == "compose 1.29"))


def _compose(*, old: bool) -> ComposeCommand:
    for candidate in CANDIDATES:
        with suppress(MissingPrerequisite):
            command = ComposeCommand.find([candidate])
            if command.old == old:
                return command
    missing = "compose 1.29 is missing (Debian: apt-get install docker-compose)" if old else "compose 2 is missing"
    if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture
def compose_2() -> None:
    """Skip, or fail, where the test's own stack cannot be started."""
    _compose(old=False)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip, or fail, where no engines can run in network namespaces of their own."""
    if why := swarm_nodes.missing():
        words = f"no engines in network namespaces: {why}"
        pytest.fail(words) if os.environ.get("TAILOR_REQUIRE_DOCKER") == "1" else pytest.skip(words)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[str]:
    """The name of a compose project of which nothing is left afterwards."""
    name = new_project()
    yield name
    DockerTestbed(tmp_path, TYPES).clean(name)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    subprocess.run([*TAILOR, "clean"], env=environment(tmp_path / "home"), cwd=ROOT, check=True, capture_output=True)


@pytest.fixture
def slice_application(tmp_path: Path) -> Path:
    return slice_in(tmp_path)
