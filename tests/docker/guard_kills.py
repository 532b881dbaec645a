"""A campaign against a guard on Docker: killed, its keeper too, its engine restarted, containers taken away.

Afterwards nothing may be changed, and every job has to be done once.  A witness of its own sees how attempts end: the
engine's events.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from framework.bootstrap.adapters import opened
from framework.config.settings import Settings
from framework.model.batch_job import ENDED, LIVE, BatchJob, JobSpec, JobState
from framework.model.cpus import read_cpus
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.kernel_files import HostKernelFiles
from tests.docker.engines import end_engine, start_engine
from tests.docker.test_guard import BE, IMAGE, Metrics, attempts, docker

KINDS = {"guard": 30, "guard and keeper": 20, "in the end": 18, "engine": 5, "LC": 15, "job": 12}
"""What happens -> how many times in a hundred."""
LATEST_S = 6.0  # after the guard has begun; it has begun once all modules are there and its audit log is
EARLY = 0.15  # share of the moments that count from the start of its process
PATIENCE_S = 120.0  # for anything; a busy machine takes its time
WAITING = 6  # jobs that are to be had
CPUS = {"web": None, "store": "0"}  # as compose gives them; None: all


STATUSES = (0, 130, -signal.SIGTERM, -signal.SIGKILL)
"""Of a guard that was stopped at any moment: it ended well, before it began to guard, or was killed."""


class Failed(Exception):
    """The campaign cannot go on: something did not come to its end."""


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds.  Raises Failed."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"not within {PATIENCE_S:g} s: {what}")
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
    return sorted(str(path) for tree in trees for path in (Path(tree, BE), Path(tree, f"{BE}.slice")) if path.exists())


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
    """Notes how containers of jobs begin and end, as the engine tells it; survives the engine's restarts."""

    def __init__(self) -> None:
        self.well, self.twice = Counter[str](), list[str]()
        self._live, self._stop = dict[str, str](), threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        time.sleep(1.0)  # for the last events
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(PATIENCE_S)

    def _watch(self) -> None:
        command = ["docker", "events", "--filter", "label=tailor.guard", "--filter", "type=container", "--format",
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
            self._process.wait()
            self._live.clear()  # an engine that ends takes its containers with it
            time.sleep(0.2)

    def _take(self, action: str, attributes: Mapping[str, str]) -> None:
        job, container = attributes["tailor.guard.job"], attributes["name"]
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

    def has_begun(self) -> bool:
        return self._written() != self._audits

    def _written(self) -> set[Path]:
        return set((self.home / "guard").glob("*/audit.jsonl"))

    def keepers(self) -> list[int]:
        """Return the processes of this home's keepers."""
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in pids if _words(pid)[-2:] == ["framework.testbeds.docker.guard_keeper", str(self.home)]]

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

    def said(self) -> str:
        return self.log.read_text()[-2000:]


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    except (OSError, UnicodeDecodeError):
        return []


# ------------------------------------------------------------------ the campaign


@dataclass
class Campaign:
    """``seed``: of what happens when.  ``engine``: whether the engine may be restarted."""

    home: Path
    stack: Stack
    where: str
    seed: int = 1
    engine: bool = True
    witness: Witness = field(default_factory=Witness)
    _named: int = 0

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        self.kept = opened(Settings.from_environment({"TAILOR_HOME": str(self.home)}))
        self.queue = self.kept.guards.queue

    def happen(self, number: int) -> dict[str, Any]:
        """Let one thing happen to a guard at a random moment, recover, and check; returns what was found."""
        rng = random.Random(f"{self.seed} {number}")
        [kind] = rng.choices(list(KINDS), list(KINDS.values()))
        if kind == "engine" and (not self.engine or self.others()):
            kind = "guard"
        self.provide(rng)
        began = time.monotonic()
        guard = GuardProcess(self.home, self.stack, self.where, 600, rng.choice(["static:1"] * 3 + ["tailor"]))
        early, moment_s = rng.random() < EARLY, rng.uniform(0.0, LATEST_S)
        if not early:
            eventually("the guard begins", lambda: guard.has_begun() or guard.process.poll() is not None)
        time.sleep(moment_s)
        stage = self.stage(guard)
        self._let_happen(kind, guard, rng)
        status = guard.ended()
        recovered = "itself" if status == 0 else "keeper" if guard.keepers() else "nobody had to"
        eventually("the keeper has ended", lambda: not guard.keepers())
        stalled_s = self.stalled_s()
        problems = [] if status in STATUSES else [f"the guard ended with {status}: {guard.said()}"]
        left = self.given_back() + self.jobs_known(settled=status == 0)
        if left:
            recovered = "next guard"
            problems += self.short()
            problems += self.given_back() + self.jobs_known(settled=True)
        return {
            "number": number, "kind": kind, "early": early, "moment_s": round(moment_s, 2), "stage": stage,
            "status": status,
            "recovered_by": recovered, "left_for_it": left if recovered == "next guard" else [],
            "took_s": round(time.monotonic() - began, 1), "stalled_s": round(stalled_s, 2), "problems": problems,
        }  # fmt: skip

    def others(self) -> list[str]:
        """Return containers that run here and are none of the campaign's: an engine's restart would end them."""
        rows = docker("ps", "--format", '{{.Names}} {{.Label "com.docker.compose.project"}} {{.Label "tailor.guard"}}')
        return [row for row in rows.splitlines() if row.split()[1:] not in ([self.stack.name], [BE])]

    def _let_happen(self, kind: str, guard: GuardProcess, rng: random.Random) -> None:
        """Do it, then kill the guard or tell it to end."""
        killed = kind in ("guard", "guard and keeper", "in the end") or rng.random() < 0.5
        later_s = rng.uniform(0.0, 2.0)
        match kind:
            case "guard and keeper":
                for pid in guard.keepers():
                    os.kill(pid, signal.SIGKILL)
            case "in the end":
                guard.send(signal.SIGTERM)
                time.sleep(rng.uniform(0.0, 1.5))
            case "engine":
                end_engine()
                time.sleep(later_s)
                if killed:
                    guard.send(signal.SIGKILL)
                start_engine()
            case "LC":
                self.stack.make_anew(rng.choice(list(CPUS)))
                time.sleep(later_s)
            case "job":
                if here := attempts():
                    with suppress(subprocess.CalledProcessError):  # it has just ended
                        docker("rm", "-f", rng.choice(here))
                time.sleep(later_s)
        guard.send(signal.SIGKILL if killed else signal.SIGTERM)

    def provide(self, rng: random.Random) -> None:
        """Queue jobs until enough of them wait; each counts for a while, and then says that it is done."""
        waiting = sum(job.state not in ENDED for job in self.queue.all())
        specs = []
        for _ in range(WAITING - waiting):
            self._named += 1
            count = rng.choice([1_000, 100_000, 300_000, 1_000_000])
            script = f"i=0; while [ $i -lt {count} ]; do i=$((i+1)); done; echo done"
            specs.append(JobSpec(f"job-{self._named}", IMAGE, ("sh", "-c", script), rng.choice("ab"), attempts=100))
        self.queue.add(specs)

    def stage(self, guard: GuardProcess) -> str:
        """Say how far a guard has come."""
        if guard.process.poll() is not None:
            return "ended"
        if not (self.home / "guard" / "journal.jsonl").exists():
            return "starts"
        return "jobs run" if any(job.state in LIVE for job in self.queue.all()) else "guards"

    def short(self) -> list[str]:
        """Run a guard for a moment, which has to take over what is left; returns what went wrong."""
        guard = GuardProcess(self.home, self.stack, self.where, 2)
        status = guard.ended()
        return [] if status == 0 else [f"the next guard ended with {status}: {guard.said()}"]

    # ------------------------------------------------------------------ what has to hold

    def given_back(self) -> list[str]:
        """Return what is not as it was."""
        problems = [f"{service} has the CPUs {sorted(cpus)}, not {sorted(self.stack.made[service])}"
                    for service, cpus in self.stack.cpus().items() if cpus != self.stack.made[service]]  # fmt: skip
        problems += [f"there is {group}" for group in left_groups()]
        problems += [f"there is {path.name}" for path in (self.home / "guard").glob("journal*")]
        return problems

    def jobs_known(self, settled: bool) -> list[str]:
        """Return what is wrong with the jobs.

        ``settled``: a guard has ended by itself since: no job counts as running, and no container is left.  Else one
        that ended well waits to be noted.
        """
        containers = [json.loads(docker("inspect", container))[0] for container in attempts()]
        shown = [f"{about['Name']} ({about['State']['Status']}, {about['State']['ExitCode']})" for about in containers
                 if settled or about["State"]["Status"] != "exited" or about["State"]["ExitCode"] != 0]  # fmt: skip
        problems = [f"there is the container {text}" for text in shown]
        jobs = self.queue.all()
        problems += [f"job {job.number} is {job.state.value}" for job in jobs if settled and job.state in LIVE]
        problems += [f"job {job.number} has failed: {job.reason}" for job in jobs if job.state is JobState.FAILED]
        return problems + [f"two attempts at once: {text}" for text in self.witness.twice]

    def stalled_s(self) -> float:
        """Return the longest time between two decisions of the last guard."""
        written = sorted((self.home / "guard").glob("*/audit.jsonl"))
        entries = _entries(written[-1]) if written else []
        times = [entry["time_s"] for entry in entries if entry["kind"] == "decided"]
        return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)

    def end(self) -> dict[str, Any]:
        """Let guards end all jobs; returns what is known of them, and what is wrong."""
        until = time.monotonic() + 5 * PATIENCE_S
        problems = list[str]()
        while any(job.state not in ENDED for job in self.queue.all()) and not problems:
            if time.monotonic() > until:
                raise Failed("the jobs do not come to their end")
            guard = GuardProcess(self.home, self.stack, self.where, 20)
            status = guard.ended()
            problems += [] if status == 0 else [f"a last guard ended with {status}: {guard.said()}"]
        problems += self.given_back() + self.jobs_known(settled=True)
        self.witness.stop()
        jobs = self.queue.all()
        self.kept.close()
        problems += [f"job {job.number} {text}" for job in jobs if (text := self._odd(job))]
        return {
            "jobs": len(jobs), "finished": sum(job.state is JobState.FINISHED for job in jobs),
            "attempts": sum(job.attempt for job in jobs), "failures": sum(job.failures for job in jobs),
            "useful_s": round(sum(job.useful_s for job in jobs), 1),
            "wasted_s": round(sum(job.wasted_s for job in jobs), 1), "problems": problems,
        }  # fmt: skip

    def _odd(self, job: BatchJob) -> str:
        """Say what is wrong with a job that has ended: it was not done once."""
        outputs = [path.read_text() for path in (self.home / "guard").glob(f"*/output/{job.number}-*.txt")]
        done, well = sum(text == "done\n" for text in outputs), self.witness.well[str(job.number)]
        if done != 1 or well != 1 or job.used_s:
            return (
                f"ended well {well} times, has {done} outputs, and {job.used_s:g} s that are neither useful nor wasted"
            )
        return ""


def _entries(path: Path) -> Sequence[Mapping[str, Any]]:
    entries = []
    for line in path.read_text().splitlines():
        with suppress(ValueError):  # cut off by the kill
            entries.append(json.loads(line))
    return entries
