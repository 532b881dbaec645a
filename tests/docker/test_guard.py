"""A guard beside a compose project that runs: what it sets, and that everything comes back however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.disks import Disks
from framework.testbeds.host.kernel_files import HostKernelFiles

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.usefixtures("compose_2")]  # a machine has one guard

IMAGE = "debian:bookworm-slim"
BE = "tailor-guard"
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def eventually(what: str, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            pytest.fail(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


class Metrics(BaseHTTPRequestHandler):
    """A histogram of an application whose requests all take under 10 ms; each reading is a hundred requests more."""

    count = 0

    def do_GET(self) -> None:
        Metrics.count += 100
        text = "\n".join(
            [
                "# TYPE request_seconds histogram",
                f'request_seconds_bucket{{le="0.01"}} {self.count}',
                f'request_seconds_bucket{{le="1"}} {self.count}',
                f'request_seconds_bucket{{le="+Inf"}} {self.count}',
                f"request_seconds_sum {self.count * 0.005}",
                f"request_seconds_count {self.count}",
            ]
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write((text + "\n").encode())

    def log_message(self, *arguments: Any) -> None:
        """Keep the test's output free of requests."""


class Shop:
    """The user's stack, two containers of it, with CPU sets as compose gives them."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.file = name, directory / "shop.json"
        service = {"image": IMAGE, "command": ["sleep", "infinity"], "init": True}
        self.file.write_text(json.dumps({"services": {"web": service, "store": service}}))
        docker("compose", "-p", name, "-f", str(self.file), "up", "-d")
        self.containers = docker(
            "ps", "-q", "--no-trunc", "--filter", f"label=com.docker.compose.project={name}"
        ).split()
        assert len(self.containers) == 2

    def state(self) -> list[Any]:
        return [json.loads(docker("inspect", container))[0]["State"] for container in self.containers]

    def cpus(self) -> list[frozenset[int]]:
        cgroups = Cgroups(HostKernelFiles())
        return [cgroups.cpus(cgroups.of(state["Pid"])) for state in self.state()]

    def down(self) -> None:
        docker("compose", "-p", self.name, "-f", str(self.file), "down", "-t", "0")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path, f"shop-{tmp_path.name[-20:].strip('_').lower().replace('_', '')}")
    try:
        yield made
    finally:
        made.down()


@pytest.fixture
def metrics() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"metrics=http://127.0.0.1:{server.server_address[1]}/metrics#request_seconds"
    finally:
        server.shutdown()
        server.server_close()


class Guard:
    """A guard in a process of its own."""

    def __init__(self, home: Path, shop: Shop, metrics: str, seconds: str, *more: str) -> None:
        self.home = home
        words = ["guard", "--project", shop.name, "--latency", metrics, "--peak", "1000", "--target", "p95 <= 50ms",
                 "--policy", "static:1", "--option", "period_s=0.5", "--for", seconds, *more]  # fmt: skip
        program = [sys.executable, "-c", "from framework.cli.main import main; main()", *words]
        self.process = subprocess.Popen(
            program, env={**os.environ, "TAILOR_HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip

    def ended(self) -> str:
        said, _ = self.process.communicate(timeout=PATIENCE_S * 2)
        return said


def jobs_file(directory: Path, command: str, count: int = 1, **more: Any) -> str:
    path = directory / "jobs.yaml"
    job = {"name": "work", "image": IMAGE, "command": ["sh", "-c", command], "count": count, **more}
    path.write_text(json.dumps({"kind": "jobs", "version": 1, "jobs": [job]}))
    return str(path)


def tailor(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from framework.cli.main import main; main()", *words]
    environment = {**os.environ, "TAILOR_HOME": str(home)}
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)


def listed(home: Path) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(tailor(home, "jobs", "list", "--json").stdout)
    return jobs


def attempts() -> list[str]:
    return docker("ps", "-aq", "--filter", "label=tailor.guard").split()


def groups() -> list[str]:
    cgroups = Cgroups(HostKernelFiles())
    return [tree for tree in cgroups.trees() if Path(tree, BE).exists()]


def nothing_is_left(home: Path) -> bool:
    return not attempts() and not groups() and not (home / "guard" / "journal.jsonl").exists()


def kill_keeper(home: Path) -> None:
    keepers = subprocess.run(["pgrep", "-f", f"guard_keeper {home}"], capture_output=True, text=True, check=True)
    for pid in keepers.stdout.split():
        os.kill(int(pid), signal.SIGKILL)


def test_jobs_run_beside_a_running_stack_which_gets_everything_back(tmp_path: Path, shop: Shop, metrics: str) -> None:
    state, cpus = shop.state(), shop.cpus()
    if len(cpus[0]) < 2:
        pytest.fail("this test needs two CPUs")
    jobs = jobs_file(tmp_path, "echo done; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", memory_mib=64)
    guard = Guard(tmp_path, shop, metrics, "20s", "--jobs", jobs)
    eventually("LC has other CPUs", lambda: shop.cpus() != cpus)
    assert all(now < before for now, before in zip(shop.cpus(), cpus, strict=True))
    said = guard.ended()
    assert guard.process.returncode == 0, said
    assert "not given back" not in said
    assert shop.cpus() == cpus
    assert shop.state() == state, "the stack never noticed"
    assert nothing_is_left(tmp_path)
    [job] = listed(tmp_path)
    assert (job["state"], job["attempt"]) == ("finished", 1)
    [directory] = [path for path in (tmp_path / "guard").iterdir() if path.is_dir()]
    assert (directory / "output" / "1-1.txt").read_text() == "done\n"
    page = (directory / "report.html").read_text()
    assert "missed 50 ms in" in page
    assert "<svg" in page


def test_a_guard_that_is_killed_leaves_nothing_changed(tmp_path: Path, shop: Shop, metrics: str) -> None:
    state, cpus = shop.state(), shop.cpus()
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, "while true; do :; done", 2))
    eventually("jobs run", lambda: len(attempts()) == 2 and shop.cpus() != cpus)
    guard.process.kill()
    eventually("the keeper gave everything back", lambda: nothing_is_left(tmp_path))
    assert shop.cpus() == cpus
    assert shop.state() == state
    assert "every knob was given back" in guard.ended()
    again = Guard(tmp_path, shop, metrics, "3s")
    said = again.ended()
    assert again.process.returncode == 0, said
    assert "its guard was killed" in said
    assert [job["state"] for job in listed(tmp_path)] == ["pending", "pending"]
    assert nothing_is_left(tmp_path)


def test_the_next_guard_gives_back_where_the_keeper_was_killed_too(tmp_path: Path, shop: Shop, metrics: str) -> None:
    cpus = shop.cpus()
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, "while true; do :; done"))
    eventually("a job runs", lambda: len(attempts()) == 1 and shop.cpus() != cpus)
    kill_keeper(tmp_path)
    guard.process.kill()
    guard.ended()
    assert shop.cpus() != cpus
    [attempt] = attempts()
    again = Guard(tmp_path, shop, metrics, "8s")
    said = again.ended()
    assert again.process.returncode == 0, said
    assert "job work: goes on" in said, attempt
    assert shop.cpus() == cpus
    assert nothing_is_left(tmp_path)


def test_ctrl_c_ends_a_guard_and_gives_back(tmp_path: Path, shop: Shop, metrics: str) -> None:
    cpus = shop.cpus()
    guard = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, "while true; do :; done"))
    eventually("a job runs", lambda: len(attempts()) == 1 and shop.cpus() != cpus)
    guard.process.send_signal(signal.SIGTERM)
    said = guard.ended()
    assert "interrupted" in said
    assert shop.cpus() == cpus
    assert nothing_is_left(tmp_path)


def test_a_dry_run_touches_nothing(tmp_path: Path, shop: Shop, metrics: str) -> None:
    state, cpus = shop.state(), shop.cpus()
    jobs = jobs_file(tmp_path, "true")
    guard = Guard(tmp_path, shop, metrics, "3s", "--dry-run", "--jobs", jobs)
    said = guard.ended()
    assert guard.process.returncode == 0, said
    assert "would set" in said
    assert (shop.state(), shop.cpus()) == (state, cpus)
    assert listed(tmp_path) == []
    assert not groups()


def test_a_project_that_does_not_run_is_named(tmp_path: Path, metrics: str, shop: Shop) -> None:
    shop.down()
    guard = Guard(tmp_path, shop, metrics, "3s")
    said = guard.ended()
    assert guard.process.returncode == 2
    assert f"no container of the compose project {shop.name} runs here" in said


def test_a_second_guard_is_refused_and_the_first_goes_on(tmp_path: Path, shop: Shop, metrics: str) -> None:
    cpus = shop.cpus()
    first = Guard(tmp_path, shop, metrics, "100s", "--jobs", jobs_file(tmp_path, "while true; do :; done"))
    eventually("a job runs", lambda: len(attempts()) == 1 and shop.cpus() != cpus)
    [attempt], given = attempts(), shop.cpus()
    second = Guard(tmp_path, shop, metrics, "5s")
    said = second.ended()
    assert second.process.returncode == 2, said
    assert "another guard runs on this machine" in said
    third = tailor(tmp_path, "guard", str(ROOT / "apps" / "search"), "--for", "5s")
    assert third.returncode == 2
    assert "another guard runs on this machine" in third.stderr
    assert "removing the application" not in third.stderr, "it is refused before it deploys"
    assert attempts() == [attempt]
    assert shop.cpus() == given
    assert [job["state"] for job in listed(tmp_path)] == ["running"]
    first.process.send_signal(signal.SIGTERM)
    first.ended()
    assert shop.cpus() == cpus
    assert nothing_is_left(tmp_path)


def test_a_guard_whose_keeper_was_killed_ends_well(tmp_path: Path, shop: Shop, metrics: str) -> None:
    cpus = shop.cpus()
    guard = Guard(tmp_path, shop, metrics, "8s", "--jobs", jobs_file(tmp_path, "while true; do :; done"))
    eventually("a job runs", lambda: len(attempts()) == 1 and shop.cpus() != cpus)
    kill_keeper(tmp_path)
    said = guard.ended()
    assert guard.process.returncode == 0, said
    assert shop.cpus() == cpus
    assert nothing_is_left(tmp_path)


def limited_disks() -> Disks:
    disks = Disks(Cgroups(HostKernelFiles()))
    if disks.missing():
        pytest.skip(disks.missing())
    return disks


def job_groups() -> list[Group]:
    pids = [json.loads(docker("inspect", attempt))[0]["State"]["Pid"] for attempt in attempts()]
    return [Cgroups(HostKernelFiles()).of(pid) for pid in pids if pid]


def test_jobs_write_past_the_page_cache_no_faster_than_they_may(tmp_path: Path, shop: Shop, metrics: str) -> None:
    """Two jobs, of which each could write more; ``static:1`` gives them 90 % of a half of 20 MB/s."""
    disks = limited_disks()
    request, bps = 256 * 1024, 9e6
    burst = 2 * request + 0.2 * bps  # a request of each job is counted before it waits; the kernel's slices are 0.1 s
    write = f"while true; do dd if=/dev/zero of=/file bs={request} count=40 oflag=direct; done"
    jobs = ("--jobs", jobs_file(tmp_path, write, 2))
    guard = Guard(tmp_path, shop, metrics, "100s", "--cpus", "0-1", "--disk", "20", *jobs)
    eventually("both jobs run", lambda: len(job_groups()) == 2)
    groups = job_groups()

    def written() -> float:
        return sum(sum(disks.used(group).values()) for group in groups)

    eventually("both jobs wrote", lambda: all(sum(disks.used(group).values()) > request for group in groups))
    began_s, before = time.monotonic(), written()
    time.sleep(5.0)
    grown, seconds = written() - before, time.monotonic() - began_s
    assert 0 < grown <= bps * seconds + burst
    guard.process.send_signal(signal.SIGTERM)
    said = guard.ended()
    assert "of the jobs: no limit -> 4.5 MB/s" in said or "BE: no limit -> 9 MB/s" in said
    assert "not here: disk" not in said
    assert "not given back" not in said
    [audit] = (tmp_path / "guard").glob("*/audit.jsonl")
    samples = [entry["sample"] for entry in map(json.loads, audit.read_text().splitlines()) if "sample" in entry]
    assert max(sample.get("be_disk_mbs", 0.0) for sample in samples) > 0
    assert samples[-1]["lc_disk_mbs"] == 0.0, "the stack sleeps"
    assert nothing_is_left(tmp_path)


def test_a_job_that_waits_for_the_disk_ends_with_its_guard(tmp_path: Path, shop: Shop, metrics: str) -> None:
    """One request is a minute's worth of what the job may write, and nothing ends a process before its request."""
    disks = limited_disks()
    write = "while true; do dd if=/dev/zero of=/file bs=64M count=4 oflag=direct; done"
    guard = Guard(tmp_path, shop, metrics, "100s", "--disk", "1", "--jobs", jobs_file(tmp_path, write))
    eventually("the job writes", lambda: any(sum(disks.used(group).values()) > 0 for group in job_groups()))
    guard.process.kill()
    eventually("the keeper gave everything back", lambda: nothing_is_left(tmp_path))
    assert "every knob was given back" in guard.ended()
