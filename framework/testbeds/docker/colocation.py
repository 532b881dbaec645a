"""Services moved to other CPUs while they run, and stressors beside them, on this machine's Docker Engine."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from framework.errors import DeploymentFailed, MissingPrerequisite
from framework.model import Running
from framework.model.neighbours import Stressed, Stressor, Threads
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner
from framework.testbeds.host.perf import Perf
from framework.testbeds.host.toplev import Toplev
from framework.testbeds.host.usage import PROC, counter_file

IMAGE = "tailor/stressor:1"
STARTS_IN_S = 10.0  # it fills its memory first
PAUSE_S = 0.25  # it reports once a second


class DockerNeighbours:
    """Implements ``framework.ports.colocation.Neighbours``."""

    def __init__(self, engine: Engine | None = None, proc: Path = PROC) -> None:
        self._engine = engine or Engine()
        self._proc = proc
        self._perf = Perf(proc=proc)
        self._toplev = Toplev()

    def check(self) -> None:
        """Raises MissingPrerequisite without the stressor's image."""
        if self._engine.image(IMAGE) is None:
            raise MissingPrerequisite(f"image {IMAGE} is not on this machine", "run `make images`")

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        """Move services to lists of CPUs; they go on running.  Raises DeploymentFailed."""
        owner = Owner.project(running.deployment.project)
        in_parallel(lambda name: self._engine.set_cpus(running.containers[name].id, cpus[name], owner), cpus)

    @contextmanager
    def beside(self, running: Running, stressor: Stressor) -> Iterator[Callable[[], Stressed]]:
        """A stressor runs inside the block; what is yielded tells afterwards, and only then, what it did.

        Raises DeploymentFailed where it does not start, or did not run to the end of the block.
        """
        command = ["--kind", stressor.kind, "--threads", str(stressor.threads), "--duty", str(stressor.duty),
                   "--directory", "/"]  # fmt: skip
        labels = {**running.deployment.labels, "tailor.role": "stressor"}
        name = f"{running.deployment.project}-stressor-{uuid.uuid4().hex[:8]}"  # there may be several
        owner = Owner.project(running.deployment.project)
        container = self._engine.start(IMAGE, command, name, owner, labels, stressor.cpus)
        found: list[Stressed] = []
        try:
            before = self._until_it_works(container, stressor)
            yield lambda: found[0]
            found.append(self._done(container, stressor, before))
        finally:
            self._engine.remove([container], owner)

    def _until_it_works(self, container: str, stressor: Stressor) -> int:
        """Returns how often it has reported: the first says how it filled its memory."""
        deadline = time.monotonic() + STARTS_IN_S
        while time.monotonic() < deadline:
            reports = self._reports(container)
            if len(reports) > 1:
                return len(reports)
            if not self._runs(container):
                raise DeploymentFailed(f"the stressor {stressor.kind} ended", log=self._engine.logs(container))
            time.sleep(PAUSE_S)
        raise DeploymentFailed(f"the stressor {stressor.kind} did not start within {STARTS_IN_S:g} s")

    def _done(self, container: str, stressor: Stressor, before: int) -> Stressed:
        if not self._runs(container):
            raise DeploymentFailed(f"the stressor {stressor.kind} ended early", log=self._engine.logs(container))
        whole = self._reports(container)[before:]
        seconds = sum(float(one["seconds"]) for one in whole)
        if not seconds:
            raise DeploymentFailed(f"the stressor {stressor.kind} told nothing")
        return Stressed(sum(float(one["done"]) for one in whole) / seconds, str(whole[0]["unit"]), len(whole))

    def _runs(self, container: str) -> bool:
        return bool(((self._engine.inspect(container) or {}).get("State") or {}).get("Running"))

    def _reports(self, container: str) -> list[Mapping[str, Any]]:
        lines = self._engine.logs(container, lines=100_000).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def threads(self, running: Running) -> Mapping[str, Threads]:
        """Service -> its threads; empty where the engine's processes are not this machine's."""
        return {name: self._threads(one.pid, one.id) for name, one in running.containers.items()}

    def _threads(self, pid: int, container: str) -> Threads:
        file = counter_file(self._proc, pid, container)
        if file is None:
            return {}
        listed = next((path for name in ("tasks", "cgroup.threads") if (path := file.parent / name).exists()), None)
        found = {}
        for thread in listed.read_text().split() if listed else ():
            try:
                delay = int((self._proc / thread / "schedstat").read_text().split()[1])
                status = (self._proc / thread / "status").read_text()
            except (OSError, IndexError, ValueError):
                continue  # it has ended
            found[int(thread)] = (delay, _switches(status))
        return found

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        """As `docker stats` shows it: a container's memory without the files that it has not read lately."""
        read = in_parallel(lambda name: _held_mib(self._engine.stats(running.containers[name].id)), running.containers)
        return {name: held for name, held in zip(running.containers, read, strict=True) if held is not None}

    def without_counters(self) -> str:
        """Why there are no hardware counters; empty where there are."""
        return self._perf.missing()

    def counted(self, running: Running, service: str) -> AbstractContextManager[Callable[[], Mapping[str, float]]]:
        """The service's hardware counters inside the block, told afterwards; nothing where there are none."""
        return self._perf.counted(running.containers[service].pid)

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        """The shares of the service's pipeline slots inside the block, told afterwards; None without toplev."""
        container = running.containers[service]
        file = counter_file(self._proc, container.pid, container.id)
        if file is None or self._perf.missing() or not self._toplev.installed():
            return None
        return self._toplev.counted([int(one) for one in (file.parent / "cgroup.procs").read_text().split()])


def _held_mib(stats: Mapping[str, Any] | None) -> float | None:
    about = (stats or {}).get("memory_stats") or {}
    if "usage" not in about:
        return None
    details = about.get("stats") or {}
    files = details.get("total_inactive_file", details.get("inactive_file", 0))  # cgroup v1, v2
    return float(max(0, about["usage"] - files)) / 2**20


def _switches(status: str) -> int:
    """Voluntary and involuntary context switches in the text of /proc/<tid>/status."""
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)
