"""A user's stack runs during studies of the very same compose file, undisturbed.

It has everything that has a name outside of its project: a volume with a name of its own, an external volume and an
external network, container names, a fixed port, and a directory of data.  Whatever happens to the study, the stack runs
on, and its data are byte for byte the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from framework.config.document import read_document
from tests.docker.studies import (
    DISTURBED,
    PATIENT,
    ROOT,
    SHORT,
    TAILOR,
    Disturbed,
    edit,
    environment,
    left_behind,
    tailor,
    tune,
)

pytestmark = [pytest.mark.docker, pytest.mark.alone, PATIENT]
STORES = ("ledger", "sessions", "archive")
ALLOWED = "url-shortener:networks.shared.external,url-shortener:volumes.archive.external"


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Stack:
    """``directory``: of the compose file, which is also the application's; ``tag``: in every name that is outside."""

    directory: Path
    tag: str
    port: int

    def container(self, store: str) -> str:
        return f"shop-{store}-{self.tag}"

    def up(self) -> None:
        docker("network", "create", f"shared-{self.tag}")
        docker("volume", "create", f"archive-{self.tag}")
        docker(
            "compose", "-p", f"shop-{self.tag}", "-f", str(self.directory / "compose.yaml"), "up", "-d", "--no-build"
        )
        for store in STORES:
            self.wait(store)
            docker("exec", self.container(store), "redis-cli", "set", "owner", f"{store} of the user")

    def wait(self, store: str) -> None:
        for _ in range(200):
            with suppress(subprocess.CalledProcessError):
                if docker("exec", self.container(store), "redis-cli", "ping") == "PONG":
                    return
            time.sleep(0.1)
        pytest.fail(f"{store} of the user's stack does not answer")

    def down(self) -> None:
        for command in (
            ["compose", "-p", f"shop-{self.tag}", "-f", str(self.directory / "compose.yaml"), "down", "-v"],
            ["volume", "rm", "-f", f"archive-{self.tag}", f"ledger-{self.tag}"],
            ["network", "rm", f"shared-{self.tag}"],
        ):
            subprocess.run(["docker", *command], capture_output=True, check=False)

    def data(self) -> dict[str, str]:
        """Return file -> digest of everything that the stack keeps; idle stores write nothing."""
        volumes = json.loads(docker("volume", "inspect", f"ledger-{self.tag}", f"archive-{self.tag}"))
        places = [Path(volume["Mountpoint"]) for volume in volumes] + [self.directory / "sessions"]
        files = [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]
        assert len(files) >= len(STORES)
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def state(self) -> dict[str, Any]:
        """Return its state, as the engine and its port answer."""
        named = [self.container(store) for store in STORES]
        shown = json.loads(docker("inspect", *named))
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as asking:
            asking.sendall(b"GET owner\r\n")
            answer = asking.recv(100)
        return {
            "containers": [
                (c["Id"], c["State"]["StartedAt"], c["State"]["Running"], c["RestartCount"], c["HostConfig"])
                for c in shown
            ],
            "networks": [sorted(c["NetworkSettings"]["Networks"].items()) for c in shown],
            "volumes": json.loads(docker("volume", "inspect", f"ledger-{self.tag}", f"archive-{self.tag}")),
            "network": json.loads(docker("network", "inspect", f"shared-{self.tag}"))[0]["Id"],
            "answer": answer,
        }


@pytest.fixture
def stack(slice_application: Path) -> Iterator[Stack]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Stack(slice_application, secrets.token_hex(3), port)
    compose = read_document(slice_application / "compose.yaml").data
    redis = ["redis-server", "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    mounts = {"ledger": "ledger:/data", "sessions": "./sessions:/data", "archive": "archive:/data"}
    for store in STORES:
        compose["services"][store] = {
            "image": "redis:7.0", "command": redis, "container_name": made.container(store), "restart": "always",
            "volumes": [mounts[store]], "networks": ["default", "shared"],
            "labels": {"traefik.enable": "true"},
        }  # fmt: skip
    compose["services"]["sessions"]["ports"] = [f"127.0.0.1:{port}:6379"]
    compose["networks"] = {"shared": {"external": True, "name": f"shared-{made.tag}"}}
    compose["volumes"] |= {
        "ledger": {"name": f"ledger-{made.tag}"},
        "archive": {"external": True, "name": f"archive-{made.tag}"},
    }
    (slice_application / "sessions").mkdir()
    (slice_application / "compose.yaml").write_text(json.dumps(compose))
    lines = "".join(f"  {store}: {{type: redis, host: backend, tuned: false}}\n" for store in STORES)
    edit(slice_application, "application.yaml", "services:\n", f"services:\n{lines}")
    made.up()
    yield made
    made.down()


def started(home: Path, application: Path, iterations: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TAILOR, "tune", str(application), *SHORT, "--iterations", str(iterations)],
        env=environment(home, TAILOR_ALLOW=ALLOWED), cwd=ROOT, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def until(running: subprocess.Popen[str], beginning: str) -> list[str]:
    """Read the study's lines up to one with this beginning."""
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if line.startswith(beginning):
            return said
    if DISTURBED in "".join(said):
        raise Disturbed(said)
    pytest.fail("".join(said))


def left_behind_of(home: Path) -> list[str]:
    """Return the names left behind by any study of a TAILOR_HOME."""
    studies = json.loads(tailor(home, "studies", "--json").stdout)
    assert studies
    return [name for study in studies for name in left_behind(study["study"])]


def copied_for(home: Path) -> set[str]:
    """Return projects of studies of a TAILOR_HOME that have copies of the user's data."""
    ours = {f"tailor-{study['study']}" for study in json.loads(tailor(home, "studies", "--json").stdout)}
    copies = docker("volume", "ls", "-q", "--filter", "label=tailor.copy-for").split()
    shown = json.loads(docker("volume", "inspect", *copies)) if copies else []
    return ours & {container["Labels"]["tailor.copy-for"] for container in shown}


def in_the_study(service: str, *command: str) -> str:
    """Return a command's output in the study's container of a service; a study makes new ones all the time."""
    label = f"label=com.docker.compose.service={service}"
    for _ in range(100):
        for container in docker("ps", "-q", "--filter", "label=tailor.study", "--filter", label).split():
            with suppress(subprocess.CalledProcessError):
                return docker("exec", container, *command)
        time.sleep(0.1)
    pytest.fail(f"{service} of the study does not answer")


def test_a_stack_of_the_user_s_never_notices(home: Path, stack: Stack) -> None:
    before, data = stack.state(), stack.data()

    # Nobody has allowed what is outside: nothing is started.
    said = tune(home, stack.directory, code=2).stderr
    assert "networks.shared.external" in said
    assert "volumes.archive.external" in said
    assert "TAILOR_ALLOW='url-shortener:volumes.archive.external'" in said
    listed = json.loads(tailor(home, "doctor", str(stack.directory), "--json", code=3).stdout)
    assert {"url-shortener: networks.shared.external", "url-shortener: volumes.archive.external"} <= {
        row["what"] for row in listed if row["state"] == "missing"
    }
    listed = json.loads(tailor(home, "doctor", str(stack.directory), "--json", TAILOR_ALLOW=ALLOWED).stdout)
    assert any("container names of ledger, sessions, archive" in row["found"] for row in listed)

    # A study that is stopped by Ctrl-C, by SIGTERM and by kill -9.
    for end, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
        running = started(home, stack.directory, iterations=9)
        said_so_far = "".join(until(running, "trial 1"))
        assert "ports of nginx, jaeger, sessions" in said_so_far
        assert "copies" in said_so_far
        if end is signal.SIGINT:
            for store in STORES:
                owner = "" if store == "ledger" else f"{store} of the user"
                change = f"redis-cli get owner && redis-cli set owner {owner and 'theirs'}x > /dev/null"
                assert in_the_study(store, "sh", "-c", change) == owner, "a copy of what is the user's"
        running.send_signal(end)
        _, rest = running.communicate()
        assert running.returncode == code, rest
        assert (stack.state(), stack.data()) == (before, data), end
    tailor(home, "clean")
    assert left_behind_of(home) == []
    assert (stack.state(), stack.data()) == (before, data)

    # A whole one; what it made is gone when it ends, its copies of the user's data too.
    paused = copied_for(home)
    assert len(paused) == 3, "a study that can be resumed keeps the data that it began with"
    tune(home, stack.directory, TAILOR_ALLOW=ALLOWED)
    assert left_behind_of(home) == []
    assert copied_for(home) == paused
    assert (stack.state(), stack.data()) == (before, data)
    tailor(home, "clean", "--seeds")
    assert copied_for(home) == set()
    assert (stack.state(), stack.data()) == (before, data)


def test_a_volume_of_the_user_s_that_has_a_study_s_name_stays(home: Path, slice_application: Path) -> None:
    """However unlikely: a name is no proof of whose something is."""
    running = started(home, slice_application, iterations=9)
    until(running, "trial 1")
    running.send_signal(signal.SIGINT)
    running.communicate()
    [listed] = json.loads(tailor(home, "studies", "--json").stdout)
    name = f"tailor-{listed['study']}_url-shorten-db"
    docker("volume", "create", name)
    try:
        said = tailor(home, "resume", listed["study"], code=2).stderr
        assert f"the volume {name} was not made for tailor.project=tailor-{listed['study']}, and is left alone" in said
        tailor(home, "clean")
        assert docker("volume", "inspect", "-f", "{{.Name}}", name) == name
    finally:
        docker("volume", "rm", name)


@pytest.mark.skipif(
    os.environ.get("TAILOR_REQUIRE_DOCKER") != "1", reason="restarts the machine's Docker Engine: in CI only"
)
def test_the_engine_is_restarted_in_between(home: Path, stack: Stack) -> None:
    data = stack.data()
    running = started(home, stack.directory, iterations=9)
    until(running, "trial 1")
    restart_engine()
    running.communicate()  # it goes on when the engine is back, or is paused
    for store in STORES:
        stack.wait(store)
    assert stack.data() == data
    assert stack.state()["answer"].endswith(b"sessions of the user\r\n")
    tailor(home, "clean")
    assert left_behind_of(home) == []
    assert stack.data() == data
    assert stack.state()["answer"].endswith(b"sessions of the user\r\n")


def restart_engine() -> None:
    """End the engine and start it again, as `scripts/engine` started it, or as the machine's init does."""
    if shutil.which("systemctl") and Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "restart", "docker"], check=True)
        return
    engine = int(Path("/var/run/docker.pid").read_text())
    os.kill(engine, signal.SIGTERM)
    for _ in range(600):
        if not Path(f"/proc/{engine}").exists():
            break
        time.sleep(0.1)
    subprocess.run([str(ROOT / "scripts" / "engine")], check=True, capture_output=True)
