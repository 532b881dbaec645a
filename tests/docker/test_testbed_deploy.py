"""The Docker testbed deploys to equal state, keeps what did not change when asked to, and leaves nothing behind."""

from __future__ import annotations

import socket
import subprocess

import pytest

from framework.errors import TrialFailed
from framework.model import Hook
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.probes import send
from framework.testbeds.docker.testbed import DockerTestbed
from tests.testbed_documents import NGINX, deployment, document, new_project, quiet, with_web

pytestmark = pytest.mark.docker


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def left(project: str) -> list[str]:
    """Return everything of a project that the engine still has."""
    asked = (
        ["ps", "-aq"], ["network", "ls", "-q"], ["volume", "ls", "-q"],
    )  # fmt: skip
    return [
        line
        for command in asked
        for line in subprocess.run(
            ["docker", *command, "--filter", f"label=tailor.project={project}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    ]


def test_a_deployment_is_up_labelled_read_back_and_then_gone(testbed: DockerTestbed, project: str) -> None:
    source = with_web(document(96))
    wanted = deployment(project, source, memory_mib=96, files={"files/web/nginx.conf": NGINX % "hello"})
    running = testbed.deploy(wanted, quiet)

    assert set(running.containers) == {"cache", "store", "web"}
    assert {"remove", "restore", "start", "healthy", "read back"} <= set(running.phases)
    assert running.network == f"{project}_default"
    web = running.containers["web"]
    assert web.image_digest.startswith("sha256:")
    assert web.pid > 0
    inspected = Engine().inspect(web.id)
    assert inspected is not None
    labels = inspected["Config"]["Labels"]
    assert wanted.labels.items() <= labels.items()
    networks = Engine().networks(f"tailor.project={project}")
    assert [network["Name"] for network in networks] == [running.network]

    assert testbed.statistics(running) == {"cache": {"items": 0.0}, "store": {"keys": 0.0}}
    usage = testbed.usage(running)
    assert set(usage.cpu_s) == {"cache", "store", "web"}
    assert all(seconds > 0 for seconds in usage.cpu_s.values())
    assert testbed.usage(running).at_ns > usage.at_ns
    testbed.alive(running)

    removed = testbed.clean(project)
    assert f"network {project}_default" in removed
    assert len([name for name in removed if name.startswith("container ")]) == 3
    assert left(project) == []


def test_every_repetition_starts_from_equal_state(testbed: DockerTestbed, project: str) -> None:
    wanted = deployment(project, document())
    first = testbed.deploy(wanted, quiet)
    send(first.containers["cache"].address, 11211, "set k 0 0 1\r\nv\r\n", "STORED")
    testbed.run_hook(first, Hook("change"))
    assert testbed.statistics(first) == {"cache": {"items": 1.0}, "store": {"keys": 1.0}}

    second = testbed.deploy(wanted, quiet)
    assert testbed.statistics(second) == {"cache": {"items": 0.0}, "store": {"keys": 0.0}}
    for name, before in first.containers.items():
        assert second.containers[name].id != before.id
        assert second.containers[name].started_at > before.started_at


def test_incremental_keeps_what_did_not_change_and_empties_its_cache(testbed: DockerTestbed, project: str) -> None:
    files = {"files/web/nginx.conf": NGINX % "one"}
    first = testbed.deploy(deployment(project, with_web(document()), files=files), quiet)
    send(first.containers["cache"].address, 11211, "set k 0 0 1\r\nv\r\n", "STORED")

    files = {"files/web/nginx.conf": NGINX % "two"}
    changed = deployment(project, with_web(document()), files=files, trial=2, fresh="changed")
    second = testbed.deploy(changed, quiet)
    assert second.containers["web"].id != first.containers["web"].id, "its mounted file changed"
    assert second.containers["cache"].id == first.containers["cache"].id
    assert second.containers["store"].id == first.containers["store"].id
    assert second.deployment.labels["tailor.fresh"] == "changed"
    answer = send(second.containers["cache"].address, 11211, "get k\r\n", "END")
    assert answer == "END\r\n", "its data were flushed"

    bigger = deployment(project, with_web(document(80)), memory_mib=80, files=files, trial=3, fresh="changed")
    third = testbed.deploy(bigger, quiet)
    assert third.containers["cache"].id != second.containers["cache"].id
    assert third.containers["web"].id == second.containers["web"].id

    before = with_web(document(96))
    before["services"]["web"]["depends_on"] = ["cache"]
    behind = deployment(project, before, memory_mib=96, files=files, trial=4, fresh="changed")
    fourth = testbed.deploy(behind, quiet)
    before["services"]["cache"]["command"] = ["memcached", "-m", "112"]
    fifth = testbed.deploy(deployment(project, before, memory_mib=112, files=files, trial=5, fresh="changed"), quiet)
    assert fifth.containers["web"].id != fourth.containers["web"].id, "it depends on what was recreated"
    assert fifth.containers["store"].id == fourth.containers["store"].id


def test_an_incremental_start_from_nothing_deploys_everything(testbed: DockerTestbed, project: str) -> None:
    running = testbed.deploy(deployment(project, document(), fresh="changed"), quiet)
    assert set(running.containers) == {"cache", "store"}


def test_one_shot_hooks_run_inside_the_network(testbed: DockerTestbed, project: str) -> None:
    running = testbed.deploy(deployment(project, document()), quiet)
    assert "OK" in testbed.run_hook(running, Hook("seed"))
    assert testbed.run_hook(running, Hook("seed", ("get", "b"))).strip() == "2"
    with pytest.raises(TrialFailed, match=r"(?s)fail echo lost; exit 3 ended with 3.*lost"):
        testbed.run_hook(running, Hook("fail", ("echo lost; exit 3",)))
    with pytest.raises(TrialFailed, match=r"did not end within 2 s"):
        testbed.run_hook(running, Hook("fail", ("sleep 60",), timeout_s=2))
    names = [c.labels["com.docker.compose.service"] for c in Engine().containers(f"tailor.project={project}")]
    assert sorted(names) == ["cache", "store"], "the one-shot that was cut off is gone"


def test_live_commands_run_once_all_is_healthy(testbed: DockerTestbed, project: str) -> None:
    from dataclasses import replace

    live = (("store", ("redis-cli", "CONFIG", "SET", "maxmemory", "12mb")),)
    running = testbed.deploy(replace(deployment(project, document()), live=live), quiet)
    answer = send(running.containers["store"].address, 6379, "CONFIG GET maxmemory\r\n", r"\d{4,}")
    assert str(12 * 2**20) in answer


def test_clean_up_spares_other_projects_and_what_somebody_attached(testbed: DockerTestbed) -> None:
    dead, alive = new_project(), new_project()
    try:
        for name in (dead, alive):
            testbed.deploy(deployment(name, {"services": {"cache": {"image": "memcached:1.6"}}}), quiet)
        sleeping = ("--network", f"{dead}_default", "--entrypoint", "sleep", "redis:7.0", "600")
        docker("run", "-d", "--label", f"tailor.project={dead}", *sleeping)  # as a load generator is started
        theirs = docker("run", "-d", "--label", f"tailor.study={dead}", *sleeping)  # somebody looked into the network
        assert {dead, alive} <= set(testbed.projects())
        removed = testbed.clean(dead)
        assert len([name for name in removed if name.startswith("container ")]) == 2
        assert docker("inspect", "-f", "{{.State.Running}}", theirs) == "true"
        assert len(left(dead)) == 1, "the network that it is attached to"
        docker("rm", "-f", theirs)
        assert testbed.clean(dead) == [f"network {dead}_default"]
        assert left(dead) == []
        assert len(left(alive)) == 2
        assert dead not in testbed.projects()
    finally:
        testbed.clean(dead)
        testbed.clean(alive)


def test_networks_are_gone_however_many_containers_they_had(testbed: DockerTestbed, project: str) -> None:
    """Engines before 28 count wrongly what is left in a network when several containers leave at the same time."""
    source = document()
    for number in range(6):
        source["services"][f"more{number}"] = {"image": "redis:7.0", "networks": ["default", "shared"]}
    source["networks"] = {"shared": {}}
    for trial in range(3):
        testbed.deploy(deployment(project, source, trial=trial), quiet)
    removed = testbed.clean(project)
    assert {f"network {project}_default", f"network {project}_shared"} <= set(removed)
    assert left(project) == []


def test_clean_is_quiet_when_there_is_nothing(testbed: DockerTestbed) -> None:
    assert testbed.clean(new_project()) == []


def test_the_machine_is_described(testbed: DockerTestbed) -> None:
    machine = testbed.machine()
    assert machine.hostname == socket.gethostname()
    assert machine.cores >= 1
    assert machine.memory_mib > 100
    assert machine.engine[0].isdigit()
    assert machine.compose[0].isdigit()
