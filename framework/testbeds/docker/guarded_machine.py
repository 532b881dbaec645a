"""The machine of a Docker Engine, for a guard: control groups of LC's containers and a group for BE's jobs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from framework.errors import DeploymentFailed, InputError, KnobRefused, MissingPrerequisite, TestbedUnavailable
from framework.ports.actuator import Actuator
from framework.ports.job_runner import JobRunner
from framework.ports.kernel_files import KernelFiles
from framework.ports.sensor import Sensor
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.guarded_project import GuardedProject
from framework.testbeds.docker.job_runner import LABEL, DockerJobs
from framework.testbeds.docker.owner import Owner
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.cores import Cores, Freezer
from framework.testbeds.host.cpu_sensors import CpuUse, Pressure, RunQueueDelay
from framework.testbeds.host.guarded_groups import BE, GuardedGroups
from framework.testbeds.host.journal import Journal, JournalledFiles, boot_id, undo_of_files
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.topology import read_topology

JOURNAL = "guard/journal.jsonl"
SYSTEMD = "systemd"
DONE = b"done\n"
LOCK = Path("/run/tailor-guard.lock")


class DockerGuardedMachine:
    """Implements ``framework.ports.guarded_machine.GuardedMachine`` for the engine of this machine.

    ``lc``: LC's compose project.  ``home``: TAILOR_HOME, which has the journal.  ``cpus``: to divide; None: all.
    Raises MissingPrerequisite where the engine is another machine's, or this one cannot be guarded.
    """

    def __init__(
        self, lc: str, home: Path, cpus: Sequence[int] | None = None,
        engine: Engine | None = None, files: KernelFiles | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._host, self._home = engine or Engine(), files or HostKernelFiles(), home
        self._journal = journal_of(home, self._host)
        journalled = JournalledFiles(self._host, self._journal)
        self._systemd = self._engine.info().get("CgroupDriver") == SYSTEMD
        self._project = GuardedProject(self._engine, lc, self._alive)
        self._runner = DockerJobs(BE, f"{BE}.slice" if self._systemd else f"/{BE}", self._engine)
        be = f"{BE}.slice" if self._systemd else BE
        self._groups = GuardedGroups(Cgroups(self._host), journalled, self._project.pids, self._runner.kinds, be)
        if os.geteuid() != 0:
            raise MissingPrerequisite("a guard sets CPU sets of containers, which only root may", "run it as root")
        topology = read_topology(allowed=cpus)
        self._cpus = [cpu.number for cpu in sorted(topology.cpus, key=lambda cpu: (cpu.package, cpu.core, cpu.number))]
        cores = Cores(self._groups, self._cpus)
        if cores.missing():
            raise MissingPrerequisite(f"this machine cannot be guarded: {cores.missing()}", "use one that can")
        self._actuators: list[Actuator] = [Freezer(self._groups), cores]
        self._sensors: list[Sensor] = [CpuUse(self._groups), RunQueueDelay(self._groups), Pressure(self._host)]
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None

    @property
    def cores(self) -> int:
        return len(self._cpus)

    @property
    def actuators(self) -> Sequence[Actuator]:
        return self._actuators

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({"freezer", "cores"})

    @property
    def sensors(self) -> Sequence[Sensor]:
        return self._sensors

    @property
    def runner(self) -> JobRunner:
        return self._runner

    def services(self) -> Sequence[str]:
        return self._project.services()

    def used(self, pid: int) -> float | None:
        try:
            return self._groups.cgroups.cpu_s(self._groups.cgroups.of(pid))
        except (KnobRefused, KeyError):
            return None

    def recover(self) -> Sequence[str]:
        """Give back what an earlier guard left changed.  Its jobs stay: the queue says what becomes of them.

        Raises InputError where another guard runs on this machine.
        """
        self._lock = alone()
        if self._lock is None:
            raise InputError("another guard runs on this machine; allowed: one")
        return self._journal.restore(but=("group",))

    def prepare(self) -> None:
        """Make BE's group, and start the keeper, which gives everything back where this process is killed."""
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "framework.testbeds.docker.guard_keeper", str(self._home)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the guard alone
        )
        self._groups.make()

    def restore(self) -> Sequence[str]:
        problems = given_back(self._engine, self._journal)
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.write(DONE)
            self._keeper.stdin.close()
            self._keeper.wait(timeout=60)
            self._keeper = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        return problems

    def _alive(self, pid: int) -> bool:
        return self._host.exists(f"/proc/{pid}/cgroup")


def alone() -> IO[str] | None:
    """Return the lock of this machine's only guard, dropped when its process ends; None where another one has it."""
    file = LOCK.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def journal_of(home: Path, files: KernelFiles) -> Journal:
    """Return the journal of a TAILOR_HOME."""
    return Journal(home / JOURNAL, boot_id(files), undo_of_files(files))


def given_back(engine: Engine, journal: Journal) -> list[str]:
    """End what is left of BE's jobs, and give everything back; returns what could not be, and why."""
    owner = Owner(LABEL, BE)
    problems = []
    try:
        engine.remove([container.id for container in engine.containers(str(owner))], owner)
    except (TestbedUnavailable, DeploymentFailed) as error:
        problems.append(str(error))
    return problems + journal.restore()
