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
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.bootstrap.adapters import opened
from framework.config.settings import Settings
from framework.guard.jobs import OUTPUT_IN_DOUBT
from framework.model.batch_job import ENDED, LIVE, BatchJob, JobSpec, JobState
from tests.docker.engines import end_engine, start_engine
from tests.docker.guard_scene import (
    CPUS,
    PATIENCE_S,
    Failed,
    GuardProcess,
    Stack,
    Witness,
    eventually,
    left_groups,
    nobody_guards,
)
from tests.docker.test_guard import BE, IMAGE, docker

KINDS = {"guard": 30, "guard and keeper": 20, "in the end": 18, "engine": 5, "LC": 15, "job": 12}
"""Event -> how many times in a hundred."""
LATEST_S = 6.0  # after the guard has begun; it has begun once all modules are there and its audit log is
TURN_S = 900.0  # for the guards of others on this machine
EARLY = 0.15  # share of the moments that count from the start of its process
WAITING = 6  # jobs that are to be had


STATUSES = (0, 130, -signal.SIGTERM, -signal.SIGKILL)
"""Of a guard that was stopped at any moment: it ended well, before it began to guard, or was killed."""


# ------------------------------------------------------------------ the campaign


@dataclass
class Campaign:
    """``seed``: of what happens when.  ``engine``: whether the engine may be restarted."""

    home: Path
    stack: Stack
    where: str
    seed: int = 1
    engine: bool = True
    witness: Witness = field(init=False)
    _named: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        self.kept = opened(Settings.from_environment({"TAILOR_HOME": str(self.home)}))
        self.queue = self.kept.guards.queue
        self._kind = f"{self.stack.name}-jobs"  # by which they are told from those of other campaigns and tests
        self.witness = Witness(f"tailor.guard.kind={self._kind}")

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *exception: object) -> None:
        self.witness.stop()
        self.kept.close()

    def happen(self, number: int, kind: str = "") -> dict[str, Any]:
        """Let one thing happen to a guard at a random moment, recover, and check; returns what was found.

        ``kind``: one of KINDS; empty: by chance.
        """
        rng = random.Random(f"{self.seed} {number}")
        [by_chance] = rng.choices(list(KINDS), list(KINDS.values()))
        kind = kind or by_chance
        eventually("no other guard runs here", nobody_guards, TURN_S)
        if kind == "engine" and (not self.engine or self.others()):
            kind = "guard"
        self.provide(rng)
        began = time.monotonic()
        policy = rng.choice(["static:1"] * 3 + ["tailor"])
        early, moment_s = rng.random() < EARLY, rng.uniform(0.0, LATEST_S)
        with GuardProcess(self.home, self.stack, self.where, 600, policy) as guard:
            if not early:
                eventually("the guard begins", lambda: guard.has_begun() or guard.process.poll() is not None)
            time.sleep(moment_s)
            stage = self.stage(guard)
            if guard.refused():
                return self.happen(number, kind)
            keepers = guard.keepers()
            self._let_happen(kind, guard, rng)
            status = guard.ended()
        recovered = "itself" if status == 0 else "keeper" if guard.keepers() else "nobody had to"
        eventually("the keeper has ended", lambda: not guard.keepers())
        stalled_s = self.stalled_s()
        problems = [] if status in STATUSES else [f"the guard ended with {status}: {guard.said()}"]
        if stage in ("guards", "jobs run") and len(keepers) != 1:
            problems += [f"{len(keepers)} keepers waited"]
        left = self.given_back() + self.jobs_known(settled=status == 0)
        if left:
            # An engine that is away for longer than a keeper waits is the next guard's.
            problems += [f"its keeper left: {text}" for text in left if recovered == "keeper" and kind != "engine"]
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
                if here := self.containers("-q"):
                    with suppress(subprocess.CalledProcessError):  # it has just ended
                        self._take_away(rng.choice(here))
                time.sleep(later_s)
        guard.send(signal.SIGKILL if killed else signal.SIGTERM)

    def _take_away(self, container: str) -> None:
        """Remove a container that has not ended: of one that has ended well nobody could know afterwards."""
        pid = int(docker("inspect", "--format", "{{.State.Pid}}", container))
        docker("kill", "--signal", "STOP", container)
        with suppress(OSError):  # it has ended
            for _ in range(100):  # until it stands still; one that the guard froze never stops
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                if state in "TZ":
                    break
                time.sleep(0.01)
            if state != "Z":
                docker("rm", "-f", container)

    def provide(self, rng: random.Random) -> None:
        """Queue jobs until enough of them wait; each counts for a while, and then says that it is done."""
        waiting = sum(job.state not in ENDED for job in self.queue.all())
        specs = []
        for _ in range(WAITING - waiting):
            self._named += 1
            count = rng.choice([1_000, 100_000, 300_000, 1_000_000])
            script = f"i=0; while [ $i -lt {count} ]; do i=$((i+1)); done; echo done"
            specs.append(JobSpec(f"job-{self._named}", IMAGE, ("sh", "-c", script), self._kind, attempts=100))
        self.queue.add(specs)

    def containers(self, option: str) -> list[str]:
        """Return the containers of the campaign's jobs."""
        return docker("ps", option, "--filter", f"label=tailor.guard.kind={self._kind}").split()

    def stage(self, guard: GuardProcess) -> str:
        """Say how far a guard has come."""
        if guard.process.poll() is not None:
            return "ended"
        if not (self.home / "guard" / "journal.jsonl").exists():
            return "starts"
        return "jobs run" if any(job.state in LIVE for job in self.queue.all()) else "guards"

    def short(self) -> list[str]:
        """Run a guard for a moment, which has to take over what is left; returns what went wrong."""
        with GuardProcess(self.home, self.stack, self.where, 2) as guard:
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
        containers = [json.loads(docker("inspect", container))[0] for container in self.containers("-aq")]
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
            with GuardProcess(self.home, self.stack, self.where, 20) as guard:
                status = guard.ended()
            problems += [] if status == 0 else [f"a last guard ended with {status}: {guard.said()}"]
        problems += self.given_back() + self.jobs_known(settled=True)
        time.sleep(1.0)  # for the witness to hear of the last ones
        jobs = self.queue.all()
        problems += [f"job {job.number} {text}" for job in jobs if (text := self._odd(job))]
        return {
            "jobs": len(jobs), "finished": sum(job.state is JobState.FINISHED for job in jobs),
            "attempts": sum(job.attempt for job in jobs), "failures": sum(job.failures for job in jobs),
            "useful_s": round(sum(job.useful_s for job in jobs), 1),
            "wasted_s": round(sum(job.wasted_s for job in jobs), 1), "problems": problems,
        }  # fmt: skip

    def _odd(self, job: BatchJob) -> str:
        """Say what is wrong with a job that has ended: it was not done once.

        Of what happens while the engine is away neither it nor the witness tells everything: at least not twice.
        """
        outputs = [path.read_text() for path in (self.home / "guard").glob(f"*/output/{job.number}-*.txt")]
        done, well = sum(text == "done\n" for text in outputs), self.witness.well[str(job.number)]
        least = 0 if job.reason == OUTPUT_IN_DOUBT else 1
        if not least <= done <= 1 or not least <= well <= 1 or job.used_s:
            events = "; ".join(self.witness.told[str(job.number)])
            return (
                f"ended well {well} times, has {done} outputs, and {job.used_s:g} s that are neither useful nor wasted "
                f"({job.attempt} attempts; {job.reason or 'no reason'}; {events})"
            )
        return ""


def _entries(path: Path) -> Sequence[Mapping[str, Any]]:
    entries = []
    for line in path.read_text().splitlines():
        with suppress(ValueError):  # cut off by the kill
            entries.append(json.loads(line))
    return entries
