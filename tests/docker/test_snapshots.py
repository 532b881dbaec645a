"""The first healthy start, a running stack's volumes and directories, kept once and restored for every repetition."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.compose.gate import Gate
from framework.errors import DeploymentFailed
from framework.model import Application, DatasetSource, Deployment, Running
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.testbed import DockerTestbed
from tests.testbed_documents import TYPES, application, deployment, quiet

pytestmark = pytest.mark.docker

REDIS = ["redis-server", "--appendonly", "yes", "--appendfsync", "always", "--protected-mode", "no", "--save", ""]
SHELL_REDIS = f"{' '.join(REDIS[:-1])} ''"
WRITES = f"mkdir -p /srv/state && head -c 1000000 /dev/zero > /srv/state/file; exec {SHELL_REDIS}"
POSTGRES: dict[str, Any] = {
    "image": "postgres:15",
    "environment": {"POSTGRES_PASSWORD": "x"},
    "healthcheck": {
        "test": ["CMD", "pg_isready", "-U", "postgres", "-h", "127.0.0.1"], "interval": "1s", "retries": 99,
    },
    "volumes": ["rows:/var/lib/postgresql/data"],
}  # fmt: skip


def store(*command: str, **keys: Any) -> dict[str, Any]:
    """A Redis whose data are in the volume that its image declares, which has no name."""
    return {"image": "redis:7.0", "command": list(command or REDIS), "labels": ["tailor.type=redis"], **keys}


class Case:
    """An application with the project's name, and the testbed that runs it."""

    def __init__(self, home: Path, project: str, services: Mapping[str, Any], volumes: Mapping[str, Any]) -> None:
        self.home, self.project = home, project
        self.document = {"services": dict(services), "volumes": dict(volumes)}
        self.application: Application = application(project, home / "app", self.document, seed=False)
        self.testbed = self.another()

    def another(self, **options: Any) -> DockerTestbed:
        gate = Gate(allowed=(f"{self.project}:dataset.project: {self.project}-live",))
        return DockerTestbed(self.home, TYPES, gate=gate, ready_timeout_s=30, **options)

    def deployment(self) -> Deployment:
        made = replace(deployment(self.project, self.document), application=self.application.name)
        return replace(made, every_volume=True, roots=self.application.roots)

    def load(self, testbed: DockerTestbed | None = None) -> list[str]:
        """Load the dataset; return its steps."""
        steps: list[str] = []
        (testbed or self.testbed).load_dataset(self.application, self.deployment(), steps.append)
        return steps

    def deploy(self, testbed: DockerTestbed | None = None) -> Running:
        return (testbed or self.testbed).deploy(self.deployment(), quiet)

    def kept(self) -> list[str]:
        """Return the volumes of datasets that are kept for the application."""
        return sorted(str(volume["Name"]) for volume in Engine().volumes(f"tailor.application={self.application.name}")
                      if "tailor.seed" in volume["Labels"])  # fmt: skip

    def left(self) -> list[Any]:
        """Return what is left of the project, but for what is kept."""
        engine, label = Engine(), f"tailor.project={self.project}"
        return [*engine.containers(label), *engine.volumes(label), *engine.networks(label)]


@pytest.fixture
def cases(tmp_path: Path, project: str) -> Iterator[Any]:
    made: list[Case] = []

    def make(services: Mapping[str, Any], volumes: Mapping[str, Any] | None = None) -> Case:
        made.append(Case(tmp_path, project, services, volumes or {}))
        return made[-1]

    yield make
    for case in made:
        case.testbed.clean(project, data=True)
        assert case.left() == []
        case.testbed.clean_datasets(application=project)
        assert case.kept() == []


def ask(running: Running, service: str, *command: str) -> str:
    code, output = Engine().execute(running.containers[service].id, command)
    assert code == 0, output
    return output.strip()


def sql(running: Running, text: str) -> str:
    return ask(running, "db", "psql", "-U", "postgres", "-tAc", text)


def test_the_first_healthy_start_is_kept_and_restored(cases: Any) -> None:
    case = cases({"db": POSTGRES, "store": store("sh", "-c", WRITES)}, {"rows": {}})
    steps = case.load()
    assert "the first start" in steps
    assert steps[-1].startswith("dataset: ")
    assert case.left() == [], "the first start itself is gone"
    assert len(case.kept()) == 3, "the named volume, the one without a name, and the mark"
    [*_, size, not_kept] = case.testbed.notes(case.application)
    assert size == steps[-1]
    assert "MiB in 2 volumes, restored in" in size
    assert "store:/srv/state" in not_kept
    seen = []
    for testbed in (case.testbed, case.testbed, case.another(overlays=False)):
        case.load(testbed)
        running = case.deploy(testbed)
        assert sql(running, "select to_regclass('marker') is null") == "t", "an earlier repetition's row is gone"
        assert ask(running, "store", "redis-cli", "get", "marker") == ""
        sql(running, "create table marker (a int)")
        ask(running, "store", "redis-cli", "set", "marker", "1")
        cluster = sql(running, "select system_identifier from pg_control_system()")
        seen.append((running.deployment.labels["tailor.restored"], cluster))
    assert [method for method, _ in seen] in (["overlay", "overlay", "copy"], ["copy"] * 3)
    assert len({cluster for _, cluster in seen}) == 1, "the database that was made once"
    [listed] = [row for row in case.testbed.examine([case.application]) if row.what == f"{case.project}: dataset"][:1]
    assert "kept: " in listed.found
    assert "MiB in 2 volumes" in listed.found


def test_kept_data_are_found_again_and_made_anew_for_other_files(cases: Any) -> None:
    case = cases({"store": store()})
    case.load()
    kept = case.kept()
    [step] = case.load(case.another())
    assert step.startswith("dataset: "), "nothing to make"
    assert case.kept() == kept
    case.document["services"]["store"] = store(*REDIS, "--databases", "17")
    assert "the first start" in case.load()
    assert len(case.kept()) == 2 * len(kept)


def test_an_application_that_does_not_start_twice_starts_anew(cases: Any) -> None:
    once = f"test -e /data/once && exit 1; touch /data/once; exec {SHELL_REDIS}"
    case = cases({"store": store("sh", "-c", once)})
    case.load()
    assert case.kept() == []
    assert "start anew in every repetition" in case.testbed.notes(case.application)[-1]
    for _ in range(2):
        ask(case.deploy(), "store", "redis-cli", "get", "a")
    case.application = replace(case.application, dataset=DatasetSource("first-start"))
    with pytest.raises(DeploymentFailed, match="store: its container is exited with 1"):
        case.load()
    assert (case.kept(), case.left()) == ([], []), "who asks for it is told, and nothing stays"


def test_directories_are_copied_and_stay_as_they_are(cases: Any) -> None:
    case = cases({"store": store("sh", "-c", f"echo more >> /data/given; exec {SHELL_REDIS}")})
    directory = case.application.directory / "backup"
    directory.mkdir(parents=True)
    (directory / "given").write_text("yes\n")
    case.application = replace(
        case.application, dataset=DatasetSource("directory", directories={"store:/data": directory})
    )
    case.load()
    for _ in range(2):
        given = ask(case.deploy(), "store", "cat", "/data/given").split()
        assert given == ["yes", "more", "more"], "once by the first start, and once by this one"
    assert (directory / "given").read_text() == "yes\n"
    assert [path.name for path in directory.iterdir()] == ["given"]


# ---------------------------------------------------------------------- a stack that runs


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


class Live:
    """The user's own stack of the same services, under another project's name."""

    def __init__(self, directory: Path, name: str, document: Mapping[str, Any]) -> None:
        self.name, self.file = name, directory / "live.yaml"
        self.file.write_text(json.dumps(document))
        docker("compose", "-p", name, "-f", str(self.file), "up", "-d")
        self.container = docker("ps", "-q", "--filter", f"label=com.docker.compose.project={name}")

    def ask(self, *command: str) -> str:
        for _ in range(100):
            with suppress(subprocess.CalledProcessError):
                return docker("exec", self.container, *command)
            time.sleep(0.1)
        pytest.fail(f"{self.name} does not answer")

    def state(self) -> tuple[Any, ...]:
        """Return its containers, its volumes and every file of them, with digest and times."""
        [about] = json.loads(docker("inspect", self.container))
        mounts = sorted(about["Mounts"], key=lambda mount: str(mount["Destination"]))  # the engine has no order
        files = {
            str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, path.stat().st_ino)
            for mount in mounts
            for path in sorted(Path(mount["Source"]).rglob("*"))
            if path.is_file()
        }
        assert files
        volumes = json.loads(docker("volume", "inspect", *(mount["Name"] for mount in mounts)))
        return (
            about["State"],
            about["RestartCount"],
            mounts,
            about["NetworkSettings"]["Networks"],
            volumes,
            files,
        )

    def down(self) -> None:
        docker("compose", "-p", self.name, "-f", str(self.file), "down", "-v")


@pytest.mark.usefixtures("compose_2")
def test_a_running_stack_s_volumes_are_copied_and_it_never_notices(cases: Any, tmp_path: Path, project: str) -> None:
    services = {"store": store(volumes=["named:/more"])}
    case = cases(services, {"named": {}})
    live = Live(
        tmp_path,
        f"{project}-live",
        {"services": {"store": {**services["store"], "labels": []}}, "volumes": {"named": {}}},
    )
    try:
        live.ask("redis-cli", "set", "owner", "user")
        live.ask("sh", "-c", "echo mine > /more/file")
        before = live.state()
        case.application = replace(case.application, dataset=DatasetSource("running", f"{project}-live"))
        assert "the running stack" in case.testbed.notes(case.application)[-1]
        case.load()
        for _ in range(2):
            running = case.deploy()
            assert ask(running, "store", "redis-cli", "get", "owner") == "user"
            assert ask(running, "store", "cat", "/more/file") == "mine"
            ask(running, "store", "redis-cli", "set", "owner", "study")
            ask(running, "store", "sh", "-c", "echo other > /more/file")
        assert live.state() == before
        assert len(case.kept()) == 3, "the copies that it began with are gone"
        case.testbed.clean(project, data=True)
        assert case.kept() == [], "data of the user's go with their study"
        assert live.state() == before
    finally:
        live.down()


def test_a_stack_that_is_not_there_is_named(cases: Any, project: str) -> None:
    case = cases({"store": store()})
    case.application = replace(case.application, dataset=DatasetSource("running", f"{project}-live"))
    with pytest.raises(DeploymentFailed, match=f"no container of the compose project {project}-live"):
        case.load()
    [row] = [row for row in case.testbed.examine([case.application]) if row.what == f"{project}: dataset"]
    assert (row.state, row.needed) == ("missing", True)
