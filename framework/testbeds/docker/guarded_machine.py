"""The machine of a Docker Engine, for a guard."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from framework.errors import InputError, MissingPrerequisite
from framework.ports.actuator import Actuator
from framework.ports.sensor import Sensor
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.guarded_project import GuardedProject
from framework.testbeds.docker.job_runner import DockerJobs
from framework.testbeds.host.canary import Canary, walk_bytes
from framework.testbeds.host.command_runner import CommandRunner
from framework.testbeds.host.guarded_groups import BE
from framework.testbeds.host.guarded_machine import HostGuardedMachine
from framework.testbeds.host.journal import Journal, boot_id, undo_of_files
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.network import NetworkShare, undo_of_network
from framework.testbeds.host.network_use import NetworkUse
from framework.testbeds.host.routing_runner import RoutingRunner
from framework.testbeds.host.topology import read_topology

JOURNAL = "guard/journal.jsonl"
SLICE = f"{BE.replace('-', '')}.slice"  # a dash would make it a part of another slice: tailor.slice/tailor-guard.slice
DONE = b"done\n"
LOCK = Path("/run/tailor-guard.lock")
ENDS_IN_S = 60.0


def guarded_machine(
    project: str, home: Path, cpus: Collection[int] = (), link_mbps: float = 0.0, disk_mbs: float = 0.0,
    canary: bool = False, protected: Collection[str] = (), be: str = "",
) -> HostGuardedMachine:  # fmt: skip
    """Return this machine, with a compose project of its engine as LC.  ``home``: TAILOR_HOME.  ``cpus``: to divide;
    empty: all.  ``link_mbps``: of the outgoing link, ``disk_mbs``: of a disk; 0: it is not divided.  ``canary``:
    whether a walk through memory senses pressure on it.  ``protected``: services of the project that get CPUs of their
    own; empty: all.  ``be``: name of BE's group where it is known, so that no engine needs to answer.

    Raises MissingPrerequisite, TestbedUnavailable.
    """
    may_guard(acts=False)
    engine, files = Engine(), HostKernelFiles()
    be = be or (SLICE if engine.info().get("CgroupDriver") == "systemd" else BE)
    topology = read_topology(allowed=cpus or None)
    journal = Journal(home / JOURNAL, boot_id(files), {**undo_of_files(files), **undo_of_network()})
    lc = GuardedProject(engine, project, lambda pid: files.exists(f"/proc/{pid}/cgroup"), protected)
    jobs = DockerJobs(BE, be if be.endswith(".slice") else f"/{be}", engine)
    commands = CommandRunner(files, home, be)
    every = RoutingRunner(jobs, commands)
    # Commands have the host's network: to limit them would take the host's own interface, which is its user's.
    actuators: list[Actuator] = [NetworkShare(lc.pids, jobs.processes, journal, link_mbps)] if link_mbps else []
    sensors: list[Sensor] = [NetworkUse(lc.pids, every.processes)]
    if canary:
        sensors.append(Canary(walk_bytes(topology)))
    return HostGuardedMachine(
        files,
        journal,
        lc,
        jobs,
        [cpu.number for cpu in sorted(topology.cpus, key=lambda cpu: (cpu.package, cpu.core, cpu.number))],
        lambda: kept(home, be),
        be,
        actuators,
        sensors,
        disk_mbs=disk_mbs,
        commands=commands,
    )


def may_guard(acts: bool) -> None:
    """Check that a guard may run on this machine.  ``acts``: it is no dry run, of which any number may run.

    Raises MissingPrerequisite without root's rights, InputError where another guard runs.
    """
    if os.geteuid() != 0:
        raise MissingPrerequisite("a guard sets CPU sets of containers, which only root may", "run it as root")
    if acts:
        _only_one().close()


def alone() -> IO[str] | None:
    """Return the lock of this machine's only guard, dropped when its process ends; None where another one has it."""
    file = LOCK.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _only_one() -> IO[str]:
    lock = alone()
    if lock is None:
        raise InputError("another guard runs on this machine; allowed: one")
    return lock


@contextmanager
def kept(home: Path, be: str) -> Iterator[None]:
    """Keep other guards off this machine, and a keeper beside this one.  ``be``: name of BE's group.

    Raises InputError where another one runs.
    """
    with _only_one():
        keeper = subprocess.Popen(
            [sys.executable, "-m", "framework.testbeds.docker.guard_keeper", str(home), be],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the guard alone
        )
        yield
        assert keeper.stdin is not None  # it was asked for
        with suppress(BrokenPipeError):  # somebody killed it
            keeper.stdin.write(DONE)
            keeper.stdin.close()
        keeper.wait(timeout=ENDS_IN_S)
