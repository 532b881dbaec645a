"""Counters of a Docker Engine's containers, from this machine's kernel and processor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from framework.model import Running
from framework.model.stressors import Threads
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.host.perf import Perf
from framework.testbeds.host.toplev import Toplev
from framework.testbeds.host.usage import PROC, counter_file

Number = TypeVar("Number")


class DockerHostCounters:
    """Counters of services; implements ``framework.ports.host_counters.HostCounters``."""

    def __init__(self, engine: Engine | None = None, proc: Path = PROC) -> None:
        self._engine = engine or Engine()
        self._proc = proc
        self._perf = Perf(proc=proc)
        self._toplev = Toplev()

    def threads(self, running: Running) -> Mapping[str, Threads]:
        """Return service -> its threads; none where the engine's processes are not on this machine."""
        return {name: self._threads(container.pid, container.id) for name, container in running.containers.items()}

    def _threads(self, pid: int, container: str) -> Threads:
        file = counter_file(self._proc, pid, container)
        if file is None:
            return {}
        tasks = next((path for name in ("tasks", "cgroup.threads") if (path := file.parent / name).exists()), None)
        threads = {}
        for thread in tasks.read_text().split() if tasks else ():
            try:
                delay = int((self._proc / thread / "schedstat").read_text().split()[1])
                status = (self._proc / thread / "status").read_text()
            except (OSError, IndexError, ValueError):
                continue  # it has ended
            threads[int(thread)] = (delay, _switches(status))
        return threads

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        """Return service -> memory [MiB] as `docker stats` shows it: without the inactive file cache."""
        read = self._of_replicas(running, _memory_mib)
        return {name: math.fsum(parts) for name, parts in read.items()}

    def network_bytes(self, running: Running) -> Mapping[str, tuple[float, float]]:
        """Return service -> bytes (received, sent) on all its networks, as the engine counts them."""
        read = self._of_replicas(running, _network_bytes)
        return {name: (math.fsum(p[0] for p in parts), math.fsum(p[1] for p in parts)) for name, parts in read.items()}

    def _of_replicas(
        self, running: Running, number: Callable[[Mapping[str, Any]], Number | None]
    ) -> Mapping[str, list[Number]]:
        """Return service -> a number in the engine's statistics of each replica; without services that lack one."""

        def read(name: str) -> list[Number | None]:
            return [number(self._engine.stats(replica.id) or {}) for replica in running.containers[name].replicas]

        counted = in_parallel(read, running.containers)
        known = {
            name: [entry for entry in numbers if entry is not None]
            for name, numbers in zip(running.containers, counted, strict=True)
        }
        return {name: known[name] for name in known if len(known[name]) == len(running.containers[name].replicas)}

    def without_hardware(self) -> str:
        """Say why there are no hardware counters; empty where there are."""
        return self._perf.missing()

    def counted(self, running: Running, service: str) -> AbstractContextManager[Callable[[], Mapping[str, float]]]:
        """Count the service's hardware events inside the block; the yielded callable returns the metrics after it.

        No metrics where there are no counters.
        """
        return self._perf.counted(running.containers[service].pid)

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        """Count the service's pipeline slots inside the block; the yielded callable returns their shares after it.

        None without hardware counters or toplev.
        """
        container = running.containers[service]
        file = counter_file(self._proc, container.pid, container.id)
        if file is None or self._perf.missing() or not self._toplev.installed():
            return None
        return self._toplev.counted([int(process) for process in (file.parent / "cgroup.procs").read_text().split()])


def _memory_mib(stats: Mapping[str, Any]) -> float | None:
    about = stats.get("memory_stats") or {}
    if "usage" not in about:
        return None
    details = about.get("stats") or {}
    files = details.get("total_inactive_file", details.get("inactive_file", 0))  # cgroup v1, v2
    return float(max(0, about["usage"] - files)) / 2**20


def _network_bytes(stats: Mapping[str, Any]) -> tuple[float, float] | None:
    networks = (stats.get("networks") or {}).values()
    if not networks:
        return None
    return sum(about["rx_bytes"] for about in networks), sum(about["tx_bytes"] for about in networks)


def _switches(status: str) -> int:
    """Sum voluntary and involuntary context switches in the text of /proc/<tid>/status."""
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)
