"""A campaign against the nodes of a swarm while a study runs on them: killed, cut off, filled up, managers lost.

Afterwards every trial that was finished has to be as it was, no configuration may be blamed, and `tailor clean` has to
leave nothing on any node.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework.bootstrap.adapters import opened
from framework.config.settings import Settings
from framework.model import StudyState, Trial, TrialState
from tests.docker.studies import ROOT, TAILOR, environment, slice_in, tailor
from tests.swarm_nodes import Node, Nodes

HOSTS = ("frontend", "logic", "backend", "monitoring")
MANAGERS = 3  # so that one of them can be lost
DISK_MIB = 2500
LATEST_S = 30.0  # after the study works again
PATIENCE_S = 400.0
LEADER = "leader killed"
AWAY_S = {
    "engine killed": (0.0, 15.0), "node killed": (0.0, 15.0), "link down": (2.0, 30.0), "disk full": (3.0, 15.0),
    LEADER: (0.0, 15.0),
}  # fmt: skip
"""Fault of a node -> for how long, at least and at most."""

STUDY = (
    "--testbed", "swarm", "--iterations", "40", "--repetitions", "1", "--duration", "2s", "--warm-up", "1s", "--rate",
    "50", "--pairs", "0", "--drift-every", "0", "--optimizer", "random",
)  # fmt: skip
LEFT = (("ps", "-aq"), ("network", "ls", "-q"), ("volume", "ls", "-q"))
LEFT_ON_MANAGERS = (("service", "ls", "-q"), ("config", "ls", "-q"), ("secret", "ls", "-q"))


class Campaign:
    """``seed``: of what happens when.  ``directory``: for TAILOR_HOME and the application."""

    def __init__(self, nodes: Nodes, directory: Path, seed: int = 1) -> None:
        self.nodes, self._seed = nodes, seed
        self._home, self._application = directory / "home", slice_in(directory)
        self._log = (directory / "studies.log").open("ab")
        self._swarm = {"TAILOR_SWARM": ",".join(node.socket for node in nodes.nodes)}
        self.kept = opened(Settings.from_environment({"TAILOR_HOME": str(self._home), **self._swarm}))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.kept.close()
        self._log.close()

    def happen(self, number: int, kind: str = "") -> dict[str, Any]:
        """Let something happen at a random moment, and wait until the study goes on; say what was wrong."""
        chance = random.Random(f"{self._seed} {number}")
        kind = kind or chance.choice(list(AWAY_S))
        node, away_s = chance.choice(self.nodes.nodes), chance.uniform(*AWAY_S[kind])
        node = self._leader() if kind == LEADER else node
        study = self._running()
        time.sleep(chance.uniform(0.0, LATEST_S))
        before = self._finished(study)
        step = self._step(study)
        began = time.monotonic()
        _BREAK[kind](node)
        time.sleep(away_s)
        _MEND[kind](node)
        healed = time.monotonic()
        problems = []
        try:
            self._goes_on(study, len(before))
        except AssertionError as error:
            problems.append(str(error))
        after = self._finished(study)
        problems += [f"trial {key} is lost or changed" for key, trial in before.items() if after.get(key) != trial]
        if self.kept.store.get(study).state is StudyState.FAILED:
            problems.append(f"study {study} failed")
        blamed = [t.number for t in self.kept.store.trials(study) if t.state is TrialState.FAILED]
        problems += [f"trial {trial} is blamed: {self._reason(study, trial)}" for trial in blamed]
        return {
            "number": number, "kind": kind, "node": node.number, "away_s": round(away_s, 1), "step": step,
            "finished": len(before), "back_s": round(time.monotonic() - healed, 1), "study": study,
            "took_s": round(time.monotonic() - began, 1), "problems": problems,
        }  # fmt: skip

    def end(self) -> dict[str, Any]:
        """Kill the study in its middle, clean, and say what is left on which node."""
        study = self._running()
        time.sleep(5.0)
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        printed = tailor(self._home, "clean", "--seeds", code=0, **self._swarm).stdout
        problems = []
        for node in self.nodes.nodes:
            commands = [*LEFT, *(LEFT_ON_MANAGERS if node.number <= MANAGERS else ())]
            for command in commands:
                if left := node.docker(*command, "--filter", "label=tailor.project").split():
                    problems.append(f"{command[0]} on node {node.number}: {len(left)}")
        finished = sum(
            trial.state is TrialState.COMPLETED
            for study in self.kept.store.studies()
            for trial in self.kept.store.trials(study.id)
        )
        return {"cleaned": len(printed.splitlines()), "finished_trials": finished, "last": study, "problems": problems}

    # ------------------------------------------------------------------ inside

    def _leader(self) -> Node:
        """Return the manager that leads the others."""
        ask = ("node", "inspect", "self", "--format", "{{.ManagerStatus.Leader}}")
        return next(node for node in self.nodes.nodes[:MANAGERS] if node.docker(*ask, check=False) == "true")

    def _running(self) -> str:
        """Return a study that runs and has a finished trial since; begins one, or goes on with one that is paused."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            study = self._latest()
            if self._process is None or self._process.poll() is not None:
                if study and self.kept.store.get(study).state is not StudyState.COMPLETED:
                    self._start("resume", study)
                else:
                    self._start("tune", str(self._application), *STUDY)
                    time.sleep(2.0)
                continue
            if study and self._finished(study):
                return study
            time.sleep(0.2)
        raise AssertionError(f"no study came to a finished trial within {PATIENCE_S:g} s")

    def _goes_on(self, study: str, finished: int) -> None:
        """Wait until a study has one more finished trial, going on with it where it was paused."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self._finished(study)) <= finished:
            state = self.kept.store.get(study).state
            if state is StudyState.COMPLETED:
                return
            assert state is not StudyState.FAILED, f"study {study} failed"
            assert time.monotonic() < deadline, f"study {study} ({state}) did not go on within {PATIENCE_S:g} s"
            assert self._process is not None
            if self._process.poll() is not None:
                self._start("resume", study)
            time.sleep(0.3)

    def _start(self, *words: str) -> None:
        self._log.write(f"== {' '.join(words)}\n".encode())
        self._log.flush()
        self._process = subprocess.Popen(
            [*TAILOR, *words], env=environment(self._home, **self._swarm), cwd=ROOT, stdout=self._log, stderr=self._log
        )

    def _latest(self) -> str:
        return max((study.id for study in self.kept.store.studies()), default="")

    def _finished(self, study: str) -> Mapping[int, Trial]:
        return {t.number: t for t in self.kept.store.trials(study) if t.state is TrialState.COMPLETED}

    def _reason(self, study: str, trial: int) -> str:
        return next(t.reason for t in self.kept.store.trials(study) if t.number == trial).splitlines()[0]

    def _step(self, study: str) -> str:
        """Return what the study does now: its last event."""
        events = self.kept.store.events(study)
        return str(events[-1]["kind"]) if events else ""


# ------------------------------------------------------------------ what happens to a node


def _killed(node: Node) -> None:
    node.end(signal.SIGKILL)


def _killed_with_all(node: Node) -> None:
    node.end(signal.SIGKILL)
    node.end_containers()


def _started(node: Node) -> None:
    node.start()
    node.wait()


def _filled(node: Node) -> None:
    """Fill the node's own small disk to its last byte."""
    assert os.path.ismount(node.data)
    with suppress(OSError), (node.data / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * (1 << 20))


def _emptied(node: Node) -> None:
    (node.data / "filler").unlink()


_BREAK = {
    "engine killed": _killed, "node killed": _killed_with_all, "link down": lambda node: node.link("down"),
    "disk full": _filled, LEADER: _killed_with_all,
}  # fmt: skip
_MEND = {
    "engine killed": _started, "node killed": _started, "link down": lambda node: node.link("up"),
    "disk full": _emptied, LEADER: _started,
}  # fmt: skip
