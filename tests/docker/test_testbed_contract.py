"""The contract kits on a real Docker Engine, with the slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from framework.bootstrap.adapters import docker_kind
from framework.config.settings import Settings
from framework.model import Running
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.isolation import DockerIsolation
from framework.testing.testbed import (
    DeploymentContract,
    GivenTestbed,
    IsolationContract,
    LoadGeneratorContract,
    TraceReaderContract,
)
from tests.docker.studies import slice_on

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GivenTestbed]:
    directory = tmp_path_factory.mktemp("contract")
    kind = docker_kind(Settings.from_environment({"TAILOR_HOME": str(directory / "home")}))
    given = slice_on(kind, directory, rate_rps=100.0)
    yield given
    given.clean()


@pytest.fixture(scope="module")
def isolation() -> DockerIsolation:
    return DockerIsolation()


@pytest.fixture(scope="module")
def allowed() -> Callable[[Running, str], str]:
    def told(running: Running, service: str) -> str:
        inspected = Engine().inspect(running.containers[service].id)
        assert inspected is not None
        return str(inspected["HostConfig"]["CpusetCpus"])

    return told


class TestDocker(DeploymentContract, LoadGeneratorContract, TraceReaderContract, IsolationContract):
    """Deployments by Docker Compose, the load generator's container, Jaeger, CPU sets."""
