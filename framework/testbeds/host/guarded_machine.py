"""The machine that a guard works on: control groups of LC's containers, and a group of its own for BE's jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from framework.errors import DeploymentFailed, KnobRefused, MissingPrerequisite, TestbedUnavailable
from framework.ports.actuator import Actuator
from framework.ports.job_runner import JobRunner
from framework.ports.kernel_files import KernelFiles
from framework.ports.sensor import Sensor
from framework.testbeds.host.cache_ways import CacheWays
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.cores import Cores, Freezer
from framework.testbeds.host.cpu_sensors import CpuUse, Pressure, RunQueueDelay
from framework.testbeds.host.disk_share import DiskShare
from framework.testbeds.host.disk_use import DiskUse
from framework.testbeds.host.guarded_groups import BE, GuardedGroups
from framework.testbeds.host.journal import Journal, JournalledFiles
from framework.testbeds.host.memory_bandwidth import MemoryBandwidth
from framework.testbeds.host.routing_runner import RoutingRunner
from framework.testbeds.host.thawing_runner import GroupedRunner, ThawingRunner

AGAIN, AGAIN_S = 10, 3.0  # an engine that restarts is back within half a minute


class Protected(Protocol):
    """The application that is protected."""

    def pids(self) -> Mapping[str, int]:
        """Return container -> its first process, of those that run."""

    def spared(self) -> frozenset[str]:
        """Return the containers, of those that run, that may run on BE's CPUs too."""

    def services(self) -> Sequence[str]:
        """Return the services that run.  Raises TestbedUnavailable."""


class HostGuardedMachine:
    """Implements ``framework.ports.guarded_machine.GuardedMachine`` by the kernel's files.

    ``cpus``: to divide, in the order in which BE gets them.  ``be``: name of BE's group.  ``watched_by``:
    entered while a guard runs: its keeper.  ``actuators``, ``sensors``: further ones, which a machine may lack.
    ``kill``: sends SIGKILL to a process; None: the kernel's call.  ``pause``: waits so many seconds.  ``runner``: of
    jobs in containers.  ``commands``: of jobs that are commands of this machine; None: there are none.  ``disk_mbs``:
    of a disk; 0: it is not divided.
    Raises MissingPrerequisite where this machine cannot be guarded.
    """

    def __init__(
        self, files: KernelFiles, journal: Journal, lc: Protected, runner: GroupedRunner, cpus: Sequence[int],
        watched_by: Callable[[], AbstractContextManager[object]], be: str = BE,
        actuators: Sequence[Actuator] = (), sensors: Sequence[Sensor] = (), kill: Callable[[int], None] | None = None,
        disk_mbs: float = 0.0,
        commands: GroupedRunner | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._files, self._journal, self._lc, self._cpus = files, journal, lc, tuple(cpus)
        self._watched_by, self._entered = watched_by, list[AbstractContextManager[object]]()
        journalled = JournalledFiles(files, journal)
        every = runner if commands is None else RoutingRunner(runner, commands)
        self.groups = GuardedGroups(
            Cgroups(files), journalled, lc.pids, every.processes, be, lc.spared, disks=disk_mbs > 0
        )
        self._runner = ThawingRunner(every, self.groups, kill, pause)
        # At the end each for itself: where an engine is away, commands end all the same.
        parts = (part for part in (commands, runner) if part is not None)
        self._ending = [ThawingRunner(part, self.groups, kill, pause) for part in parts]
        cores = Cores(self.groups, self._cpus)
        if cores.missing():
            raise MissingPrerequisite(f"this machine cannot be guarded: {cores.missing()}", "use one that can")
        self._cache = CacheWays(files, journal, self.groups.lc_pids, self.groups.be_pids)
        disk = [DiskShare(self.groups, disk_mbs)] if disk_mbs else []
        self.actuators: Sequence[Actuator] = [Freezer(self.groups), cores, self._cache, *disk, *actuators]
        self.sensors: Sequence[Sensor] = [
            CpuUse(self.groups),
            RunQueueDelay(self.groups),
            Pressure(files),
            MemoryBandwidth(files),
            DiskUse(self.groups, disk_mbs > 0),
            *sensors,
        ]
        self.needed = frozenset({"freezer", "cores"})

    @property
    def cores(self) -> int:
        return len(self._cpus)

    @property
    def ways(self) -> int:
        """Ways of the last-level cache to divide; 0: this machine cannot."""
        return self._cache.ways

    @property
    def runner(self) -> JobRunner:
        return self._runner

    def services(self) -> Sequence[str]:
        return self._lc.services()

    def used(self, pid: int) -> float | None:
        """Return the CPU seconds of a job's group; None where its process has ended, and left BE's group with that."""
        try:
            group = self.groups.cgroups.of(pid)
            inside = group["cpuacct"].startswith(f"{self.groups.be['cpuacct']}/")
            return self.groups.cgroups.cpu_s(group) if inside else None
        except (KnobRefused, KeyError):
            return None

    def recover(self) -> Sequence[str]:
        """Give back what an earlier guard left changed.  Its jobs stay: the queue says what becomes of them.

        Raises InputError where another guard runs on this machine.
        """
        keeper = self._watched_by()
        keeper.__enter__()
        self._entered.append(keeper)  # left by ``restore``
        return self._journal.restore(but=("group",))

    def prepare(self) -> None:
        self.groups.make()

    def end_work(self) -> None:
        self._runner.end_all()

    def restore(self) -> Sequence[str]:
        """End what is left of BE's jobs, and give everything back; returns what could not be, and why.

        An attempt that had ended well stays, for the next guard to note: it must not be run again.
        """
        problems = []
        for runner in self._ending:
            try:
                runner.remove([seen.container for seen in runner.end_all() if seen.status != 0])
            except (TestbedUnavailable, DeploymentFailed) as error:
                problems.append(str(error))
        for actuator in self.actuators:
            try:
                actuator.restore()
            except KnobRefused as error:
                problems.append(str(error))
        problems += self._journal.restore()
        while self._entered:
            self._entered.pop().__exit__(None, None, None)
        return problems


def give_back(machine: HostGuardedMachine, pause: Callable[[float], None] = time.sleep) -> Sequence[str]:
    """Give everything back for a guard that was killed, and wait a while for an engine that is away.

    Returns what could not be given back, and why.
    """
    problems = machine.restore()
    for _ in range(AGAIN):
        if not problems:
            break
        pause(AGAIN_S)
        problems = machine.restore()
    return problems
