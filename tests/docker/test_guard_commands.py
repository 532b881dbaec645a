"""A guard with jobs that are commands of this machine: they have a group as containers have, and nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.command_runner import ATTEMPTS
from framework.testbeds.host.kernel_files import HostKernelFiles
from tests.docker import test_guard
from tests.docker.test_guard import BE, IMAGE, Guard, Metrics, Shop, eventually, kill_keeper, listed

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.usefixtures("compose_2")]  # a machine has one guard

shop, metrics = test_guard.shop, test_guard.metrics
BUSY = ["sh", "-c", "sleep 4321 & while true; do :; done"]


def jobs_file(directory: Path, *jobs: dict[str, Any]) -> str:
    path = directory / "jobs.yaml"
    path.write_text(json.dumps({"kind": "jobs", "version": 1, "jobs": list(jobs)}))
    return str(path)


def group_of(attempt: str) -> Group:
    return Cgroups(HostKernelFiles()).top(BE).child(f"{attempt}.job")


def pids(attempt: str) -> list[int]:
    return Cgroups(HostKernelFiles()).pids(group_of(attempt))


def run_still(processes: list[int]) -> list[int]:
    return [pid for pid in processes if Path(f"/proc/{pid}/cgroup").exists() and _state(pid) not in "ZX"]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def user_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def nothing_is_left(home: Path) -> bool:
    return test_guard.nothing_is_left(home) and not list((home / ATTEMPTS).iterdir())


def outputs(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (home / "guard").glob("*/output/*.txt")}


def test_commands_and_containers_run_beside_a_stack_and_nothing_is_left(
    tmp_path: Path, shop: Shop, metrics: str
) -> None:
    state, cpus = shop.state(), shop.cpus()
    work = (
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; cat /proc/self/cgroup; cat /proc/self/status; id -un; pwd"
    )
    jobs = jobs_file(
        tmp_path,
        {"name": "host", "command": ["sh", "-c", work], "directory": "/tmp", "memory_mib": 64, "cores": 0.5},
        {"name": "image", "image": IMAGE, "command": ["sh", "-c", "echo contained"], "cores": 0.5},
    )
    guard = Guard(tmp_path, shop, metrics, "20s", "--link", "1000", "--jobs", jobs)
    said = guard.ended()
    assert guard.process.returncode == 0, said
    assert said.count("jobs that are commands have this machine's own network") == 1
    assert "not given back" not in said
    assert (shop.cpus(), shop.state()) == (cpus, state)
    assert nothing_is_left(tmp_path)
    assert [(job["state"], job["attempt"]) for job in listed(tmp_path)] == [("finished", 1)] * 2
    by_name = outputs(tmp_path)
    assert by_name["2-1.txt"] == "contained\n"
    *about, user, directory = by_name["1-1.txt"].splitlines()
    assert (user, directory) == ("nobody", "/tmp")
    assert "NoNewPrivs:\t1" in about
    groups = {line.rpartition(":")[2] for line in about if line[:1].isdigit() and ":/" in line}
    assert groups == {f"/{BE}/tailor-job-1-1.job"}


class Moody(Metrics):
    """A metrics page that can be away, so that nobody sees the latency."""

    away = threading.Event()

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        if self.away.is_set():
            self.send_error(503)
        else:
            super().do_GET()


@pytest.fixture
def moody() -> Iterator[str]:
    Moody.away.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"metrics=http://127.0.0.1:{server.server_address[1]}/metrics#request_seconds"
    finally:
        server.shutdown()
        server.server_close()


def test_a_command_stands_still_while_nobody_sees_the_latency(tmp_path: Path, shop: Shop, moody: str) -> None:
    cgroups = Cgroups(HostKernelFiles())
    jobs = jobs_file(tmp_path, {"name": "busy", "command": BUSY})
    guard = Guard(tmp_path, shop, moody, "200s", "--policy", "pid", "--jobs", jobs)
    eventually("the command runs", lambda: len(pids("tailor-job-1-1")) == 3)
    group = group_of("tailor-job-1-1")
    assert len(cgroups.cpus(group)) == 1, "BE's own CPU"
    Moody.away.set()
    eventually("it stands still", lambda: "frozen" in [job["state"] for job in listed(tmp_path)])
    used = cgroups.cpu_s(group)
    assert cgroups.frozen(cgroups.top(BE))
    assert cgroups.cpu_s(group) == used
    Moody.away.clear()
    eventually("it goes on", lambda: cgroups.cpu_s(group) > used)
    Moody.away.set()
    eventually("it stands still again", lambda: cgroups.frozen(cgroups.top(BE)))
    was = pids("tailor-job-1-1")
    guard.process.send_signal(signal.SIGTERM)
    assert "interrupted" in guard.ended()
    assert run_still(was) == []
    assert nothing_is_left(tmp_path)


def test_a_guard_that_is_killed_leaves_no_command(tmp_path: Path, shop: Shop, metrics: str) -> None:
    state, cpus = shop.state(), shop.cpus()
    jobs = jobs_file(tmp_path, {"name": "busy", "command": BUSY, "count": 2, "cores": 0.5})
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs)
    eventually("both run", lambda: len(pids("tailor-job-1-1")) == len(pids("tailor-job-2-1")) == 3)
    was = pids("tailor-job-1-1") + pids("tailor-job-2-1")
    assert sorted({user_of(pid) for pid in was}) == [0, 65534], "supervisors, and what they run"
    guard.process.kill()
    eventually("the keeper gave everything back", lambda: nothing_is_left(tmp_path))
    assert run_still(was) == []
    assert (shop.cpus(), shop.state()) == (cpus, state)
    assert "every knob was given back" in guard.ended()
    again = Guard(tmp_path, shop, metrics, "6s")
    said = again.ended()
    assert again.process.returncode == 0, said
    assert said.count("waits again: its guard was killed") == 2
    assert said.count("attempt 2 began") == 2
    assert nothing_is_left(tmp_path)


def test_the_next_guard_takes_over_where_the_keeper_was_killed_too(tmp_path: Path, shop: Shop, metrics: str) -> None:
    cpus = shop.cpus()
    jobs = jobs_file(tmp_path, {"name": "busy", "command": BUSY})
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs)
    eventually("it runs", lambda: len(pids("tailor-job-1-1")) == 3 and shop.cpus() != cpus)
    was = pids("tailor-job-1-1")
    kill_keeper(tmp_path)
    guard.process.kill()
    guard.ended()
    assert run_still(was) == was
    again = Guard(tmp_path, shop, metrics, "100s")
    logs = (tmp_path / "guard").glob
    eventually("the next guard has it", lambda: any("goes on" in log.read_text() for log in logs("*/audit.jsonl")))
    assert pids("tailor-job-1-1") == was
    again.process.send_signal(signal.SIGTERM)
    said = again.ended()
    assert "job busy: goes on" in said
    assert "began" not in said, "no second attempt"
    assert run_still(was) == []
    assert shop.cpus() == cpus
    assert nothing_is_left(tmp_path)


def test_a_keeper_needs_no_engine_to_end_commands(tmp_path: Path, shop: Shop, metrics: str) -> None:
    state, cpus = shop.state(), shop.cpus()
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, {"name": "busy", "command": BUSY}))
    eventually("it runs", lambda: len(pids("tailor-job-1-1")) == 3 and shop.cpus() != cpus)
    was = pids("tailor-job-1-1")
    kill_keeper(tmp_path)
    guard.process.kill()
    guard.ended()
    keeper = [sys.executable, "-m", "framework.testbeds.docker.guard_keeper", str(tmp_path), BE]
    environment = {**os.environ, "DOCKER_HOST": "unix:///nonexistent.sock"}
    done = subprocess.run(keeper, input="", env=environment, capture_output=True, text=True, check=True)
    assert "could not give back: the Docker Engine" in done.stderr
    assert run_still(was) == []
    assert nothing_is_left(tmp_path)
    assert (shop.cpus(), shop.state()) == (cpus, state)


@pytest.mark.parametrize("pause_s", [0.0, 0.02, 0.05, 0.1])
def test_a_guard_that_is_killed_while_it_starts_a_command_leaves_none(
    tmp_path: Path, shop: Shop, metrics: str, pause_s: float
) -> None:
    guard = Guard(
        tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, {"name": "busy", "command": BUSY, "cores": 0.5})
    )
    attempt = tmp_path / ATTEMPTS / "tailor-job-1-1"
    eventually("the attempt's directory is there", attempt.exists)
    threading.Event().wait(pause_s)
    guard.process.kill()
    said = guard.ended()
    eventually(f"nothing is left; the guard and its keeper said: {said}", lambda: nothing_is_left(tmp_path))
    assert not [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_of(entry, attempt)]


def _is_of(process: Path, attempt: Path) -> bool:
    """Return whether a process is the supervisor of an attempt."""
    try:
        return str(attempt).encode() in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def test_commands_that_cannot_run_say_why(tmp_path: Path, shop: Shop, metrics: str) -> None:
    jobs = jobs_file(
        tmp_path,
        {"name": "none", "command": ["no-such-command"], "attempts": 2, "cores": 0.3},
        {"name": "toor", "command": ["true"], "user": "no-such-user", "attempts": 1, "cores": 0.3},
    )
    guard = Guard(tmp_path, shop, metrics, "12s", "--jobs", jobs)
    said = guard.ended()
    assert guard.process.returncode == 0, said
    none, toor = listed(tmp_path)
    assert (none["state"], none["failures"]) == ("failed", 2)
    assert none["reason"].startswith("there is no command 'no-such-command' in /usr/local/sbin:")
    assert (toor["state"], toor["reason"]) == ("failed", "user: this machine has no user 'no-such-user'")
    assert nothing_is_left(tmp_path)


def test_root_is_refused_before_anything_is_touched(tmp_path: Path, shop: Shop, metrics: str) -> None:
    jobs = jobs_file(tmp_path, {"name": "a", "command": ["true"], "user": "root"})
    guard = Guard(tmp_path, shop, metrics, "3s", "--jobs", jobs)
    said = " ".join(guard.ended().split())
    assert guard.process.returncode == 2
    assert "jobs[0].user: found 'root'; allowed: an unprivileged user of this machine" in said
    assert listed(tmp_path) == []
