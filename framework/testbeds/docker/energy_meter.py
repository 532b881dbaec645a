"""Counters of energy of a Docker Engine's containers and of the machine that they run on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from framework.errors import KnobRefused
from framework.model import Container, Running
from framework.model.energy import CpuTimes, EnergyCounters, IoBytes, Joules, Level, PowerCurve, ServiceCounters
from framework.ports.energy import PowerSource
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.control_work import control_s
from framework.testbeds.host.energy_counters import EnergyFiles

SHOWN = 12  # characters of a container's id in the names of its control groups


class DockerEnergyMeter:
    """Counters of this machine and of containers on it; implements ``framework.ports.energy.EnergyMeter``.

    ``curve``: power of this machine by its utilisation, and ``frequency_hz``: the nominal clock of its CPUs, where they
    are known.
    """

    def __init__(
        self,
        source: PowerSource,
        files: EnergyFiles,
        curve: PowerCurve | None = None,
        frequency_hz: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._files, self._curve, self._now = source, files, curve, now
        self._frequency_hz = frequency_hz
        self._lock = threading.Lock()  # a source's count depends on the order of its readings
        self._losses = 0

    @property
    def source(self) -> PowerSource:
        return self._source

    def missing(self) -> str:
        try:
            self._files.cpu()
        except KnobRefused as error:
            return f"the CPU times of this machine cannot be read: {error}"
        return self._source.missing()

    def curve(self) -> PowerCurve | None:
        return self._curve

    def frequency_hz(self) -> float | None:
        return self._frequency_hz

    def read(self, running: Running | None) -> EnergyCounters:
        """Read all now.  Raises KnobRefused, also for a container whose processes are not on this machine."""
        with self._lock:
            at_s = self._now()
            cpu, cpus = self._files.cpu()
            services = {} if running is None else {name: self._of(c) for name, c in running.containers.items()}
            io, network = self._io(), self._files.network()
            joules = self._joules(at_s, cpu)  # last: a source may take seconds, and the rest is of one moment
            return EnergyCounters(at_s, cpu, cpus, services, io, network, joules, self._losses)

    def tick(self) -> None:
        with self._lock, suppress(KnobRefused):
            cpu, _ = self._files.cpu()
            self._joules(self._now(), cpu)

    def throttle(self, running: Running, disk_mbs: float) -> None:
        for container in running.containers.values():
            for replica in container.replicas:
                self._files.throttle(self._group(replica), round(1e6 * disk_mbs))

    def control_s(self) -> float:
        return control_s()

    def close(self) -> None:
        self._source.close()

    def _joules(self, at_s: float, cpu: CpuTimes) -> Mapping[str, Joules]:
        joules = self._source.read(at_s, cpu)
        self._losses += not joules
        return joules

    def _io(self) -> dict[Level, IoBytes]:
        device = self._files.device_io()
        return {} if device is None else {"device": device}

    def _of(self, container: Container) -> ServiceCounters:
        """Return the counters of all replicas of a service."""
        replicas = [self._of_replica(replica) for replica in container.replicas]
        levels = set.intersection(*(set(replica.io) for replica in replicas))
        return ServiceCounters(
            sum(replica.user_s for replica in replicas),
            sum(replica.system_s for replica in replicas),
            {
                level: IoBytes(
                    sum(replica.io[level].read for replica in replicas),
                    sum(replica.io[level].written for replica in replicas),
                )
                for level in sorted(levels)
            },
        )

    def _of_replica(self, container: Container) -> ServiceCounters:
        return self._files.group_counters(self._group(container))

    def _group(self, container: Container) -> Group:
        group = self._files.cgroups.of(container.pid)
        if container.id[:SHOWN] not in group["cpuacct"]:
            raise KnobRefused(f"/proc/{container.pid}/cgroup", f"it is not that of {container.name} on this machine")
        return group
