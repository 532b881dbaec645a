"""The contract kits on four Docker Engines in network namespaces of their own, joined to a swarm."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.bootstrap.adapters import swarm_kind
from framework.config.settings import Settings
from framework.errors import DeploymentFailed, MissingPrerequisite, TestbedUnavailable
from framework.testing.testbed import DeploymentContract, GivenTestbed, LoadGeneratorContract, TraceReaderContract
from optimizer.space import Configuration
from tests.docker.profiles import write_profile
from tests.docker.studies import slice_on, tailor
from tests.swarm_nodes import Nodes

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.timeout(900), pytest.mark.usefixtures("namespaces")]
HOSTS = ("frontend", "logic", "backend", "monitoring")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with Nodes(len(HOSTS)) as nodes:
        nodes.label(HOSTS)
        yield nodes


@pytest.fixture(scope="module")
def given(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GivenTestbed]:
    directory = tmp_path_factory.mktemp("swarm")
    swarm = ",".join(node.socket for node in nodes.nodes)
    kind = swarm_kind(Settings.from_environment({"TAILOR_HOME": str(directory / "home"), "TAILOR_SWARM": swarm}))
    given = slice_on(kind, directory, rate_rps=50.0)
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
                assert (
                    running.containers[service.name].image
                    == given.application.compose["services"][service.name]["image"]
                )
        images = nodes[1].docker("service", "ls", "--format", "{{.Image}}").split()
        assert all(image.startswith("sha256:") for image in images), "by name, each node would ask a registry"

    def test_a_configuration_moves_a_service_to_another_host(self, given: GivenTestbed, nodes: Nodes) -> None:
        project, testbed = f"{given.project}-moved", given.rig.testbed
        moved = replace(given, configuration=Configuration({"nginx.host": "backend"}))
        running = testbed.deploy(moved.deployment(project), lambda step: None)
        assert running.containers["nginx"].id in nodes[3].docker("ps", "--no-trunc", "-q").split()
        assert "nginx=backend" in running.deployment.labels["tailor.hosts"]
        away = replace(given, configuration=Configuration({"url-shorten-db.host": "logic"}))
        with pytest.raises(DeploymentFailed, match="url-shorten-db: its data are on host backend"):
            testbed.deploy(away.deployment(project), lambda step: None)
        testbed.clean(project)
        sizes = given.kind.hosts
        assert sizes is not None
        assert set(sizes(given.application)) == set(HOSTS)
        assert all(cores >= 1 and memory_mib > 100 for cores, memory_mib in sizes(given.application).values())

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

    def test_a_lost_node_is_named_and_cleaned_when_it_is_back(self, given: GivenTestbed, nodes: Nodes) -> None:
        project = f"{given.project}-lost"
        testbed, lost = given.rig.testbed, nodes[2]
        testbed.deploy(given.deployment(project), lambda step: None)
        lost.end(signal.SIGKILL)
        with pytest.raises(TestbedUnavailable, match=lost.socket):
            testbed.deploy(given.deployment(project), lambda step: None)
        with pytest.raises(TestbedUnavailable, match=lost.socket):
            testbed.clean(project)
        label = f"label=tailor.project={project}"
        assert not any(node.docker("ps", "-aq", "--filter", label) for node in nodes.nodes if node is not lost)
        lost.end_containers()
        lost.start()
        lost.wait()
        testbed.clean(project)
        assert not any(node.docker("ps", "-aq", "--filter", label) for node in nodes.nodes)
        assert not any(node.docker("volume", "ls", "-q", "--filter", label) for node in nodes.nodes)

    def test_a_node_keeps_its_own_image(self, given: GivenTestbed, nodes: Nodes) -> None:
        """An image of the user's is not replaced by another of its name."""
        own = nodes[3].docker("image", "inspect", "--format", "{{.Id}}", "memcached:1.6")
        nodes[3].docker("tag", "postgres:15", "memcached:1.6")
        theirs = nodes[3].docker("image", "inspect", "--format", "{{.Id}}", "memcached:1.6")
        try:
            fresh = given.kind.open(given.application, given.types).testbed
            with pytest.raises(MissingPrerequisite, match=r"another image of the name memcached:1\.6"):
                fresh.deploy(given.deployment(f"{given.project}-image"), lambda step: None)
            assert nodes[3].docker("image", "inspect", "--format", "{{.Id}}", "memcached:1.6") == theirs
        finally:
            nodes[3].docker("tag", own, "memcached:1.6")

    def test_doctor_and_clean_know_the_nodes(self, given: GivenTestbed, nodes: Nodes, tmp_path: Path) -> None:
        swarm = ",".join(node.socket for node in nodes.nodes)
        directory = str(given.application.directory)
        findings = json.loads(tailor(tmp_path, "doctor", directory, "--json", TAILOR_SWARM=swarm).stdout)
        told = [finding["what"] for finding in findings]
        assert {f"url-shortener: host {host}" for host in HOSTS} < set(told)
        assert {f"node {node.socket}" for node in nodes.nodes} < set(told)
        absent = f"{swarm},unix:///nowhere.sock"
        done = tailor(tmp_path, "doctor", directory, "--json", code=3, TAILOR_SWARM=absent)
        [missing] = [finding for finding in json.loads(done.stdout) if "nowhere" in finding["what"]]
        assert missing["state"] == "missing"
        tailor(tmp_path, "clean", TAILOR_SWARM=swarm)

    def test_a_placement_over_hosts_is_proposed_by_what_calls_cost_and_measured(
        self, given: GivenTestbed, nodes: Nodes, tmp_path: Path
    ) -> None:
        swarm = ",".join(node.socket for node in nodes.nodes)
        calls = {"nginx": {"url-shorten": 500.0}, "url-shorten": {"url-shorten-db": 900.0}}  # dear on any network
        profile = write_profile(tmp_path / "profile.jsonl", dict.fromkeys(("nginx", "url-shorten"), 0.1), calls)
        home, directory = tmp_path / "home", str(given.application.directory)
        tailor(
            home, "place", directory, "--testbed", "swarm", "--profile", str(profile), "--pairs", "1", "--duration",
            "2s", "--rate", "50", TAILOR_SWARM=swarm,
        )  # fmt: skip
        study = json.loads(tailor(home, "studies", "--json").stdout)[0]["study"]
        shown = json.loads(tailor(home, "show", study, "--json").stdout)
        [searched] = [trial for trial in shown["trials_detail"] if trial["purpose"] == "search"]
        assert searched["configuration"] == {"nginx.host": "backend", "url-shorten.host": "backend"}
        assert {"default", "best", "spread"} <= {trial["label"] for trial in shown["trials_detail"]} | {"best"}
        findings = json.loads(tailor(home, "doctor", directory, "--json", TAILOR_SWARM=swarm).stdout)
        [between] = [finding for finding in findings if finding["what"] == "overlay network"]
        assert "a call to another host takes" in between["found"]
        assert "median of 12 links" in between["found"]
        left = [node.docker("ps", "-aq", "--filter", "name=tailor-links") for node in nodes.nodes]
        assert not any(left)
        assert "tailor-links" not in nodes[1].docker("network", "ls", "--format", "{{.Name}}")
