"""What this machine's kernel and processor count of the containers of a Docker Engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from framework.model import Running
from framework.model.stressors import Threads
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.host.perf import Perf
from framework.testbeds.host.toplev import Toplev
from framework.testbeds.host.usage import PROC, counter_file


class DockerHostCounters:
    """Implements ``framework.ports.host_counters.HostCounters``."""

    def __init__(self, engine: Engine | None = None, proc: Path = PROC) -> None:
        self._engine = engine or Engine()
        self._proc = proc
        self._perf = Perf(proc=proc)
        self._toplev = Toplev()

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
        """As `docker stats` shows it: a container's memory without the files that it has not read for a while."""
        read = in_parallel(lambda name: _held_mib(self._engine.stats(running.containers[name].id)), running.containers)
        return {name: held for name, held in zip(running.containers, read, strict=True) if held is not None}

    def without_hardware(self) -> str:
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
