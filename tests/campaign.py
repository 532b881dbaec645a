"""A campaign of kills: a service whose processes and database are ended at random moments, again and again.

Nothing finished may be lost or be there twice, and every study has to end with the trials of a run that nobody
disturbed.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.config.twin_file import twin_path, twin_text
from framework.model import StudyState, Trial, TrialState, TuneRequest
from tests.unit.test_twin_testbed import SLICE, TWIN

ROOT = Path(__file__).resolve().parents[1]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]
PATIENCE_S = 300.0  # without any progress
JOB: dict[str, Any] = {
    "application": "url-shortener", "testbed": "twin", "optimizer": "dds", "iterations": 6, "repetitions": 2,
    "pairs": 6, "window_s": 4, "warmup_s": 1, "rate_rps": 200, "drift_every": 3, "minimal": 0,
}  # fmt: skip


@dataclass
class Campaign:
    """``database``: its URL; ``kill_database``: ends its server hard and starts it again so many seconds later; None
    where it is a file.
    """

    directory: Path
    database: str
    kill_database: Callable[[float], None] | None = None
    workers: int = 2
    own_homes: bool = False  # each process has a TAILOR_HOME of its own, as on machines of their own
    gone: set[str] = field(default_factory=set)  # processes that are not started again
    kills: dict[str, int] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _port: int = 0

    def __post_init__(self) -> None:
        apps = self.directory / "apps"
        shutil.copytree(SLICE.directory, apps / "url-shortener")
        twin_path(apps / "url-shortener").write_text(twin_text(TWIN))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    @property
    def names(self) -> list[str]:
        return ["api", *(f"worker {number}" for number in range(self.workers))]

    def settings(self, home: str = "home", database: str = "") -> Settings:
        given = {"TAILOR_HOME": str(self.directory / home), "TAILOR_APPLICATIONS": str(self.directory / "apps")}
        return Settings.from_environment(given | ({"TAILOR_DATABASE": database} if database else {}))

    # ------------------------------------------------------------------ processes

    def start(self) -> None:
        """Start every process that does not run."""
        environment = os.environ | {
            "TAILOR_HOME": str(self.directory / "home"), "TAILOR_DATABASE": self.database,
            "TAILOR_APPLICATIONS": str(self.directory / "apps"), "TAILOR_REQUESTS_PER_S": "0",
            "DOCKER_HOST": "unix:///nonexistent.sock", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        for name in (name for name in self.names if name not in self.gone):
            if self.own_homes:
                environment["TAILOR_HOME"] = str(self.directory / f"home of {name}")
            if name not in self._processes or self._processes[name].poll() is not None:
                command = ["serve", "--no-worker", "--port", str(self._port)] if name == "api" else ["worker"]
                with (self.directory / f"{name}.log").open("ab") as log:
                    self._processes[name] = subprocess.Popen(
                        [*TAILOR, *command], env=environment, cwd=ROOT, stdout=log, stderr=log
                    )

    def kill(self, name: str, away_s: float = 0.0) -> None:
        """Send SIGKILL at any moment; ``away_s``: how long a database stays away."""
        self.kills[name] = self.kills.get(name, 0) + 1
        if name == "database":
            assert self.kill_database is not None
            self.kill_database(away_s)
            return
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait()

    def halt(self, name: str) -> None:
        """Send SIGSTOP and wait until the process stands still."""
        self._processes[name].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid(name), os.WSTOPPED)

    def go_on(self, name: str) -> None:
        """Let a halted process go on."""
        self._processes[name].send_signal(signal.SIGCONT)

    def pid(self, name: str) -> int:
        """Return the number of a process."""
        return self._processes[name].pid

    def stop(self) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    # ------------------------------------------------------------------ studies

    def launch(self, seed: int) -> str:
        """Launch by HTTP, again with the same key until somebody answers."""

        def ask() -> str:
            address = f"http://127.0.0.1:{self._port}/v1/studies"
            answer = httpx.post(
                address, json={**JOB, "seed": seed}, headers={"Idempotency-Key": f"seed {seed}"}, timeout=30
            )
            answer.raise_for_status()
            return str(answer.json()["study"])

        study: str = self._patiently(ask)
        return study

    def states(self, studies: Sequence[str]) -> list[str]:
        def ask() -> list[str]:
            address = f"http://127.0.0.1:{self._port}/v1/studies"
            answers = [httpx.get(f"{address}/{study}", timeout=30) for study in studies]
            for answer in answers:
                answer.raise_for_status()
            return [str(answer.json()["state"]) for answer in answers]

        states: list[str] = self._patiently(ask)
        return states

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.start()
            try:
                return ask()
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def run(
        self,
        seeds: Sequence[int],
        kills: int,
        *,
        seed: int,
        between_s: tuple[float, float] = (1.0, 6.0),
        outage_s: float = 0.0,
        told: Callable[[str], None] = lambda text: None,
    ) -> list[str]:
        """Launch a study for each seed and kill something again and again; then let all of them end.

        ``outage_s``: how long the database is away in the middle of it.  Returns the studies' ids.  Raises TimeoutError
        where a study does not go on.
        """
        rng = random.Random(seed)
        targets = [*self.names, *(["database"] if self.kill_database else [])]
        waiting = list(seeds)
        studies: list[str] = []
        for number in range(kills):
            self.start()
            while waiting and len(studies) <= number * len(seeds) // kills:
                studies.append(self.launch(waiting.pop(0)))
            time.sleep(rng.uniform(*between_s))
            target = rng.choice(targets)
            self.kill(target)
            if number == kills // 2 and outage_s:
                self.kill("database", outage_s)
                told(f"the database was away for {outage_s:g} s")
            told(f"kill {number + 1} of {kills}: {target}")
        studies += [self.launch(seed) for seed in waiting]
        self.wait(studies)
        return studies

    def wait(self, studies: Sequence[str]) -> None:
        """Wait until all are completed.  Raises TimeoutError where nothing goes on."""
        deadline, before = time.monotonic() + PATIENCE_S, -1
        for _ in itertools.count():
            states = self.states(studies)
            if all(state == "completed" for state in states):
                return
            if "failed" in states:
                raise AssertionError(f"a study failed: {dict(zip(studies, states, strict=True))}")
            finished = len(list(self._finished(studies)))
            if finished != before:
                deadline, before = time.monotonic() + PATIENCE_S, finished
            if time.monotonic() > deadline:
                raise TimeoutError(f"no progress for {PATIENCE_S} s: {dict(zip(studies, states, strict=True))}")
            time.sleep(0.5)

    def _finished(self, studies: Sequence[str]) -> list[str]:
        def ask() -> list[str]:
            trials = []
            for study in studies:
                address = f"http://127.0.0.1:{self._port}/v1/studies/{study}/trials"
                answer = httpx.get(address, params={"limit": 200}, timeout=30)
                answer.raise_for_status()
                trials += [
                    f"{study} {trial['number']}" for trial in answer.json()["items"] if trial["state"] != "running"
                ]
            return trials

        trials: list[str] = self._patiently(ask)
        return trials

    # ------------------------------------------------------------------ what has to be so

    def undisturbed(self, seeds: Sequence[int]) -> list[list[Mapping[str, Any]]]:
        """Return the trials of the same studies, run one after the other in a store of their own."""
        kept = opened(self.settings("undisturbed"))
        keys = {"application": self.directory / "apps" / "url-shortener"}
        documents = []
        for seed in seeds:
            request = TuneRequest(**{**JOB, **keys, "seed": seed})
            study = kept.studies.run(kept.studies.create(request).id, lambda event: None)
            documents.append(said(kept, study.id))
        kept.close()
        return documents

    def recorded(self, studies: Sequence[str]) -> list[list[Mapping[str, Any]]]:
        """Return the trials that the disturbed studies ended with."""
        kept = opened(self.settings(database=self.database))
        try:
            for study in studies:
                assert kept.store.get(study).state is StudyState.COMPLETED
                _consistent(kept, study)
            return [said(kept, study) for study in studies]
        finally:
            kept.close()

    def broken_off(self, studies: Sequence[str]) -> int:
        """Return the number of trials of the disturbed studies that had to be measured again."""
        kept = opened(self.settings(database=self.database))
        try:
            trials = itertools.chain.from_iterable(kept.store.trials(study) for study in studies)
            return sum(trial.state is TrialState.ABORTED for trial in trials)
        finally:
            kept.close()


def said(kept: Opened, study: str) -> list[Mapping[str, Any]]:
    """Return a study's finished trials in order; numbers may have gaps where a trial was broken off."""
    return [
        {
            "purpose": trial.purpose, "configuration": dict(trial.configuration), "value": trial.value,
            "pair": trial.pair, "label": trial.label, "state": str(trial.state), "told": trial.told_value,
            "windows": [m.value for m in trial.measurements if not m.invalid],
        }
        for trial in kept.store.trials(study)
        if trial.state is not TrialState.ABORTED
    ]  # fmt: skip


def _consistent(kept: Opened, study: str) -> None:
    """Check that events and trials agree: each trial that was reported finished is stored once."""
    trials: Sequence[Trial] = kept.store.trials(study)
    numbers = [trial.number for trial in trials]
    assert not any(trial.state is TrialState.RUNNING for trial in trials)
    ended = [event["number"] for event in kept.store.events(study) if event["kind"] == "trial ends"]
    assert sorted(ended) == numbers, f"{study}: events say {sorted(ended)}, trials are {numbers}"
