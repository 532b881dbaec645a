"""A user's application, a guard in a process of its own, and a witness of what its jobs' containers do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

from framework.model.cpus import read_cpus
from framework.testbeds.docker.guarded_machine import SLICE, alone
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.kernel_files import HostKernelFiles
from tests.docker.test_guard import BE, IMAGE, Metrics, docker

PATIENCE_S = 120.0  # for anything; a busy machine takes its time
CPUS = {"web": None, "store": "0"}  # as compose gives them; None: all


class Failed(Exception):
    """The campaign cannot go on: something did not come to its end."""


def eventually(what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds.  Raises Failed."""
    until = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"not within {patience_s:g} s: {what}")
        time.sleep(0.05)


# ------------------------------------------------------------------ what is there


class Stack:
    """A user's application of two containers, one of which has a CPU set of its own."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name, self.file = name, directory / "stack.json"
        common = {"image": IMAGE, "command": ["sleep", "infinity"], "init": True, "restart": "always"}
        services = {service: {**common, **({"cpuset": cpus} if cpus else {})} for service, cpus in CPUS.items()}
        self.file.write_text(json.dumps({"services": services}))
        self.up()
        self.made = self.cpus()

    def up(self) -> None:
        docker("compose", "-p", self.name, "-f", str(self.file), "up", "-d")

    def down(self) -> None:
        docker("compose", "-p", self.name, "-f", str(self.file), "down", "-t", "0")

    def make_anew(self, service: str) -> None:
        docker("compose", "-p", self.name, "-f", str(self.file), "rm", "-sf", service)
        self.up()

    def cpus(self) -> Mapping[str, frozenset[int]]:
        """Return service -> CPUs on which its container may run, once all of them run."""
        cgroups, found = Cgroups(HostKernelFiles()), dict[str, frozenset[int]]()

        def all_run() -> bool:
            found.clear()
            for service in CPUS:
                label = f"label=com.docker.compose.service={service}"
                project = f"label=com.docker.compose.project={self.name}"
                for container in docker("ps", "-q", "--filter", project, "--filter", label).split():
                    pid = int(docker("inspect", "-f", "{{.State.Pid}}", container))
                    with suppress(Exception):  # it has just ended, and starts again
                        found[service] = frozenset(read_cpus(_read(cgroups.cpus_file(cgroups.of(pid)))))
            return found.keys() == CPUS.keys()

        eventually("both containers of the application run", all_run)
        return dict(found)


def _read(path: str) -> str:
    return Path(path).read_text()


def left_groups() -> list[str]:
    """Return the groups of BE that exist in any tree of control groups that is mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    trees = {mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")}
    return sorted(str(path) for tree in trees for path in (Path(tree, BE), Path(tree, SLICE)) if path.exists())


def nobody_guards() -> bool:
    """Return whether no guard and no keeper runs on this machine."""
    lock = alone()
    if lock is not None:
        lock.close()
    return lock is not None


@contextmanager
def latencies() -> Iterator[str]:
    """Serve an application's page of metrics; yields the text that says where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"metrics[window=1]=http://127.0.0.1:{server.server_address[1]}/metrics#request_seconds"
    finally:
        server.shutdown()
        server.server_close()


class Witness:
    """Notes how containers of jobs begin and end, as the engine tells it; survives the engine's restarts.

    ``label``: that all of them bear, and no others.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self.well, self.twice = Counter[str](), list[str]()
        self.told = defaultdict[str, list[str]](list)
        self._live, self._stop = dict[str, str](), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(PATIENCE_S)

    def _watch(self) -> None:
        command = ["docker", "events", "--filter", f"label={self._label}", "--filter", "type=container", "--format",
                   "{{json .}}"]  # fmt: skip
        since = time.time()
        while not self._stop.is_set():
            self._process = subprocess.Popen(
                [*command, "--since", f"{since:.3f}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            assert self._process.stdout is not None  # it was asked for
            for line in self._process.stdout:
                event = json.loads(line)
                since = event["timeNano"] / 1e9 + 1e-3
                self._take(event["Action"], event["Actor"]["Attributes"])
            self._process.stdout.close()
            self._process.wait()
            self._live.clear()  # an engine that ends takes its containers with it
            time.sleep(0.2)

    def _take(self, action: str, attributes: Mapping[str, str]) -> None:
        job, container = attributes["tailor.guard.job"], attributes["name"]
        if action in ("start", "die", "destroy"):
            status = attributes.get("exitCode", "")
            self.told[job].append(f"{time.time():.2f} {container} {action} {status}".rstrip())
        if action == "start":
            if job in self._live and self._live[job] != container:
                self.twice.append(f"{self._live[job]} and {container}")
            self._live[job] = container
        elif action == "die":
            self._live.pop(job, None)
            self.well[job] += attributes["exitCode"] == "0"


# ------------------------------------------------------------------ a guard in a process of its own


class GuardProcess:
    """`tailor guard` beside a stack; what it says goes to a file."""

    def __init__(self, home: Path, stack: Stack, where: str, seconds: float, policy: str = "static:1") -> None:
        self.home, self.log = home, home / "guard.log"
        words = ["guard", "--project", stack.name, "--latency", where, "--peak", "1000", "--target", "p95 <= 50ms",
                 "--policy", policy, "--for", f"{seconds:g}s"]  # fmt: skip
        words += ["--option", "period_s=0.5"] if policy.startswith("static") else []
        self._audits = self._written()
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from framework.cli.main import main; main()", *words],
                env={**os.environ, "TAILOR_HOME": str(home)}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> GuardProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:  # something has failed: its keeper gives everything back
            self.process.kill()
            self.process.wait()

    def has_begun(self) -> bool:
        return self._written() != self._audits

    def _written(self) -> set[Path]:
        return set((self.home / "guard").glob("*/audit.jsonl"))

    def keepers(self) -> list[int]:
        """Return the processes of this home's keepers."""
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        keeper = ["framework.testbeds.docker.guard_keeper", str(self.home)]  # what follows is the group's name
        return [pid for pid in pids if _words(pid)[-3:-1] == keeper]

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for its end; returns its status."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise Failed(f"a guard does not end: {self.said()}") from error

    def refused(self) -> bool:
        """Return whether it was not begun, because another guard runs here."""
        return self.process.poll() == 2 and "another guard runs" in self.said()

    def said(self) -> str:
        return self.log.read_text()[-2000:]


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    except (OSError, UnicodeDecodeError):
        return []
