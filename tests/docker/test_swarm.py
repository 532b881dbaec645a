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
from framework.model.links import Link
from framework.testbeds.swarm import links
from framework.testbeds.swarm.fleet import discover
from framework.testing.testbed import DeploymentContract, GivenTestbed, LoadGeneratorContract, TraceReaderContract
from optimizer.space import Configuration
from tests.docker.profiles import write_profile
from tests.docker.studies import slice_on, tailor, trials_of, tune
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

    def test_links_between_hosts_are_measured_once(self, given: GivenTestbed, nodes: Nodes) -> None:
        assert given.kind.links is not None
        measured = given.kind.links(given.application)
        assert {(link.origin, link.target) for link in measured} == {(a, b) for a in HOSTS for b in HOSTS}
        assert all(0 < link.round_trip_ms < 1000 and link.mbit_per_s > 0 for link in measured)
        assert given.kind.links(given.application) == measured, "kept: measured again, they would differ"
        assert not any(node.docker("ps", "-aq", "--filter", "name=tailor-links") for node in nodes.nodes)
        assert "tailor-links" not in nodes[1].docker("network", "ls", "--format", "{{.Name}}")

    def test_a_placement_over_hosts_is_proposed_by_what_calls_cost_and_measured(
        self, given: GivenTestbed, nodes: Nodes, tmp_path: Path
    ) -> None:
        endpoints = [node.socket for node in nodes.nodes]
        swarm, home, directory = ",".join(endpoints), tmp_path / "home", given.application.directory
        far = [Link(a, b, 0.1 if a == b else 2.1, 1e3) for a in HOSTS for b in HOSTS]  # hosts of one machine are near
        links.keep(home / "swarms" / "unnamed", discover(endpoints).nodes, far)
        calls = {"nginx": {"url-shorten": 2.0}, "url-shorten": {"url-shorten-db": 9.0}}
        profile = write_profile(tmp_path / "profile.jsonl", dict.fromkeys(("nginx", "url-shorten"), 0.1), calls)
        asked = (
            "--testbed", "swarm", "--placement", "only", "--optimizer", "placement-exact", "--iterations", "1",
            "--profile", str(profile), "--only", "nginx", "--only", "url-shorten", "--rate", "50", "--json",
        )  # fmt: skip
        study = json.loads(tune(home, directory, *asked, code=0, TAILOR_SWARM=swarm).stdout)["study"]
        [searched] = [trial for trial in trials_of(home, study) if trial["purpose"] == "search"]
        assert searched["configuration"] == {"nginx.host": "backend", "url-shorten.host": "backend"}
        assert searched["state"] == "completed"
        findings = json.loads(tailor(home, "doctor", str(directory), "--json", TAILOR_SWARM=swarm).stdout)
        [between] = [finding["found"] for finding in findings if finding["what"] == "overlay network"]
        assert between.startswith("a call to another host takes 2.000 ms longer than one within a host")
