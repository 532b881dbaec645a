"""CPU counters of services, of the host and of Tailor itself, and the services' memory.

Where the engine runs on this machine, they are read from the kernel's files; elsewhere the engine is asked, which is
slower.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from framework.errors import DeploymentFailed
from framework.model import Container, Usage
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.engine import Engine
from framework.testbeds.host.usage import MEMORY, PROC, counter_file, host_cpu, memory_bytes, parse_counter, pressure


class CpuCounters:
    """Reader of counters; remembers where each container's file is."""

    def __init__(self, engine: Engine, proc: Path = PROC) -> None:
        self._engine = engine
        self._proc = proc
        self._files: dict[str, Path] = {}
        self._memory_files: dict[str, Path] = {}

    def read(self, containers: Mapping[str, Container]) -> Usage:
        """Read all counters now: CPU time in seconds.  Raises DeploymentFailed when a container is gone.

        Memory is known only of containers on this machine.
        """
        cpu_s: dict[str, float] = {}
        remote: list[str] = []
        for service, container in containers.items():
            seconds = [self._from_file(replica) for replica in container.replicas]
            if None in seconds:
                remote.append(service)
            else:
                cpu_s[service] = sum(filter(None, seconds))
        seconds_of_remote = in_parallel(lambda name: self._from_engine(name, containers[name]), remote)
        cpu_s.update(zip(remote, seconds_of_remote, strict=True))
        memory = {service: self._memory_bytes(container) for service, container in containers.items()}
        busy, stolen = host_cpu(self._proc)
        times = os.times()
        return Usage(
            at_ns=time.time_ns(),
            cpu_s=cpu_s,
            host_cpu_s=busy,
            stolen_s=stolen,
            pressure_cpu_s=pressure(self._proc),
            cores=os.cpu_count() or 1,
            tailor_cpu_s=times.user + times.system + times.children_user + times.children_system,
            memory_bytes={service: size for service, size in memory.items() if size is not None},
        )

    def _memory_bytes(self, container: Container) -> float | None:
        """Return the memory of all replicas; None where one of them is not on this machine, or gone."""
        sizes = [self._memory_of_file(replica) for replica in container.replicas]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _memory_of_file(self, container: Container) -> float | None:
        try:
            if container.id not in self._memory_files:
                file = counter_file(self._proc, container.pid, container.id, MEMORY)
                if file is None:
                    return None
                self._memory_files[container.id] = file
            return memory_bytes(self._memory_files[container.id])
        except (OSError, ValueError):
            self._memory_files.pop(container.id, None)
            return None

    def _from_file(self, container: Container) -> float | None:
        try:
            if container.id not in self._files:
                file = counter_file(self._proc, container.pid, container.id)
                if file is None:
                    return None
                self._files[container.id] = file
            return parse_counter(self._files[container.id].read_text())
        except OSError:
            self._files.pop(container.id, None)
            return None

    def _from_engine(self, service: str, container: Container) -> float:
        return sum(self._replica_from_engine(service, replica) for replica in container.replicas)

    def _replica_from_engine(self, service: str, container: Container) -> float:
        stats = self._engine.stats(container.id) or {}
        total = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
        if not total:
            raise DeploymentFailed("its container is not running any more; it has no CPU counter", service)
        return float(total) / 1e9
