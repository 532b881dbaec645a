"""The contract kits on four Docker Engines in network namespaces of their own, joined to a swarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.bootstrap.adapters import swarm_kind
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.settings import Settings
from framework.testing.testbed import DeploymentContract, GivenTestbed, LoadGeneratorContract, TraceReaderContract
from tests.docker.studies import slice_in
from tests.swarm_nodes import Nodes, missing
from tests.testbed_documents import new_project

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(900)]
HOSTS = ("frontend", "logic", "backend", "monitoring")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    if why := missing():
        pytest.skip(f"no engines in network namespaces: {why}")
    with Nodes(len(HOSTS)) as nodes:
        nodes.label(HOSTS)
        yield nodes


@pytest.fixture(scope="module")
def given(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GivenTestbed]:
    directory = tmp_path_factory.mktemp("swarm")
    swarm = ",".join(node.socket for node in nodes.nodes)
    kind = swarm_kind(Settings.from_environment({"TAILOR_HOME": str(directory / "home"), "TAILOR_SWARM": swarm}))
    application = load_application(slice_in(directory))
    assert kind.manage is not None
    machine = kind.manage({}).machine()
    types = resolved(load_service_types(), cores=machine.cores, memory_mib=machine.memory_mib)
    given = GivenTestbed(kind, application, types, new_project(), rate_rps=50.0)
    yield given
    given.clean()


class TestSwarm(DeploymentContract, LoadGeneratorContract, TraceReaderContract):
    """One stack over four nodes: every service on its host, load and traces on the monitoring host."""

    def test_every_service_is_on_its_host(self, given: GivenTestbed, nodes: Nodes) -> None:
        running = given.running
        names = dict(zip(HOSTS, nodes.nodes, strict=True))
        for service in given.application.services:
            if service.name in running.containers:
                there = names[service.host].docker("ps", "--no-trunc", "-q").split()
                assert running.containers[service.name].id in there

    def test_cleaning_leaves_nothing_on_any_node(self, given: GivenTestbed, nodes: Nodes) -> None:
        project = f"{given.project}-gone"
        given.rig.testbed.deploy(given.deployment(project), lambda step: None)
        assert given.rig.testbed.clean(project)
        for node in nodes.nodes:
            label = f"label=tailor.project={project}"
            assert not node.docker("ps", "-aq", "--filter", label)
            assert not node.docker("volume", "ls", "-q", "--filter", label)
            assert not node.docker("network", "ls", "-q", "--filter", label)
        assert not nodes[1].docker("service", "ls", "-q", "--filter", f"label=tailor.project={project}")
        assert not nodes[1].docker("config", "ls", "-q", "--filter", f"label=tailor.project={project}")
