"""Whatever a file or a child process shows, no sensor of a guard raises: its reading is missing then.

What is read by chance out of spoilt text is a number that a sensor can have; where nothing can be read, nothing is.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import framework.load
import framework.telemetry.latency
import framework.testbeds
from framework.errors import DeploymentFailed, KnobRefused, TestbedUnavailable
from framework.guard.jobs import Jobs
from framework.guard.loop import Guard
from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.guard.plant.plant import Plant
from framework.guard.policies.koordinator import Koordinator
from framework.load.live import LoadLatency
from framework.model.batch_job import JobSpec
from framework.model.guard_record import Decided, Entry
from framework.ports.sensor import Sensor
from framework.telemetry.latency.source import BackgroundSensor
from framework.testbeds.docker.guarded_project import GuardedProject
from framework.testbeds.host.canary import Canary
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.cpu_sensors import CpuUse, Pressure, RunQueueDelay
from framework.testbeds.host.disk_use import DiskUse
from framework.testbeds.host.guarded_groups import BE, GuardedGroups
from framework.testbeds.host.journal import Journal, JournalledFiles
from framework.testbeds.host.memory_bandwidth import EVENT, MemoryBandwidth
from framework.testbeds.host.network_use import NetworkUse
from framework.testing.plant_machine import PlantLatency, PlantMachine, PretendQueue
from framework.testing.pretend_cgroups import PretendKernel
from framework.testing.pretend_resctrl import INTEL, PretendResctrl
from tests.spoilt_files import NUMBERS, PEOPLE, READ_S, Refuses, Shows, Spoil, SpoiltFiles, spoilt
from tests.unit.test_network_namespaces import HOST, FakeProc, route

CPU_FILES = ("/cgroup", "/cpuacct.usage", "/cpu.stat", "/cgroup.procs", "/schedstat", "/proc/pressure/cpu")
MEMORY_FILES = (EVENT, "mon_features", "/tasks")
NETWORK_FILES = ("net/dev", "net/route", "cgroup", "mounts")


def read_all(sensor: Sensor, step: Callable[[int], None] = lambda second: None) -> list[Mapping[str, float]]:
    """Read a sensor for some seconds; each reading has to be one that it can have."""
    readings = []
    for second in range(READ_S):
        step(second)
        reading = sensor.read(float(second))
        assert set(reading) <= set(sensor.gives)
        assert all(isinstance(value, float) and math.isfinite(value) and value >= 0 for value in reading.values())
        readings.append(reading)
    assert isinstance(sensor.missing(), str)
    sensor.close()
    return readings


# ------------------------------------------------------------------ CPU


class Cpu:
    """Sensors of the CPU, for two containers of LC and a job, on spoilt files."""

    def __init__(self, version: int, spoils: Mapping[str, Sequence[Spoil]]) -> None:
        self.kernel = PretendKernel(version)
        for name, pid in (("/docker/web", 100), ("/docker/store", 101), (f"/{BE}/job", 200)):
            self.kernel.add(name, pid)
        spoilt_files = SpoiltFiles(self.kernel)
        with tempfile.TemporaryDirectory() as directory:
            journal = Journal(Path(directory) / "journal", "boot", {})
        cgroups, journalled = Cgroups(spoilt_files), JournalledFiles(spoilt_files, journal)
        groups = GuardedGroups(
            cgroups, journalled, lambda: {"web": 100, "store": 101}, lambda: {"job": ("sort", 200)}
        )  # fmt: skip
        spoilt_files.spoils = spoils  # a machine whose mounts cannot be read has no guard
        self.sensors: list[Sensor] = [CpuUse(groups), RunQueueDelay(groups), Pressure(spoilt_files)]

    def step(self, second: int) -> None:
        for path in ("/docker/web", f"/{BE}/job"):
            self.kernel.run(path, 0.5)


@settings(PEOPLE, max_examples=150)
@given(version=st.sampled_from([1, 2]), spoils=spoilt(CPU_FILES))
def test_cpu(version: int, spoils: Mapping[str, Sequence[Spoil]]) -> None:
    cpu = Cpu(version, spoils)
    for sensor in cpu.sensors:
        read_all(sensor, cpu.step)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("spoil", [Refuses("Input/output error"), Shows(""), Shows("some\n"), Shows("\0")], ids=repr)
def test_cpu_that_cannot_be_read_is_missing(version: int, spoil: Spoil) -> None:
    """Not zero: a policy would give the jobs cores that LC seems to leave."""
    files = [
        name for name in CPU_FILES if name != "/cgroup.procs"
    ]  # an empty one of these is a group without processes
    cpu = Cpu(version, {name: [spoil] for name in files})
    for sensor in cpu.sensors:
        assert read_all(sensor, cpu.step) == [{}] * READ_S, sensor.name
    whole = Cpu(version, {})
    assert [set(read_all(sensor, whole.step)[-1]) for sensor in whole.sensors] == [
        set(sensor.gives) for sensor in whole.sensors
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_the_use_of_lc_is_missing_where_one_of_its_containers_cannot_be_read(version: int) -> None:
    cpu = Cpu(version, {f"docker/store/{name}": [Shows("?")] for name in ("cpuacct.usage", "cpu.stat")})
    use = read_all(cpu.sensors[0], cpu.step)
    assert [set(reading) for reading in use[1:]] == [{"be_cores"}] * (READ_S - 1)


# ------------------------------------------------------------------ disks

DISK_FILES = (
    "io_service_bytes_recursive",
    "io_service_bytes",
    "io.stat",
    "/size",
    "/dev",
    "subtree_control",
    "/cgroup",
)


class Disk:
    """The sensor of disks, for a container of LC and a job, on spoilt files."""

    def __init__(self, version: int, spoils: Mapping[str, Sequence[Spoil]]) -> None:
        self.kernel = PretendKernel(version)
        for name, pid in (("/docker/web", 100), (f"/{BE}/job", 200)):
            self.kernel.add(name, pid)
        self.kernel.disks.counting.add("254:0")
        spoilt_files = SpoiltFiles(self.kernel)
        with tempfile.TemporaryDirectory() as directory:
            journal = Journal(Path(directory) / "journal", "boot", {})
        cgroups, journalled = Cgroups(spoilt_files), JournalledFiles(spoilt_files, journal)
        groups = GuardedGroups(cgroups, journalled, lambda: {"web": 100}, lambda: {"job": ("sort", 200)})
        spoilt_files.spoils = spoils
        self.sensor = DiskUse(groups)

    def step(self, second: int) -> None:
        self.kernel.disks.work({"/docker/web": (1e6, 2e6), f"/{BE}/job": (3e6, 0.0)}, 1.0)


@settings(PEOPLE, max_examples=150)
@given(version=st.sampled_from([1, 2]), spoils=spoilt(DISK_FILES))
def test_disks(version: int, spoils: Mapping[str, Sequence[Spoil]]) -> None:
    disk = Disk(version, spoils)
    read_all(disk.sensor, disk.step)


@pytest.mark.parametrize("version", [1, 2])
def test_disks_that_cannot_be_read_are_missing(version: int) -> None:
    disk = Disk(version, {name: [Shows("254:0 Read x\n254:0 rbytes=x\n")] for name in DISK_FILES[:3]})
    assert read_all(disk.sensor, disk.step) == [{}] * READ_S
    whole = Disk(version, {})
    assert read_all(whole.sensor, whole.step)[-1] == {"lc_disk_mbs": 3.0, "be_disk_mbs": 3.0}


# ------------------------------------------------------------------ memory


@settings(PEOPLE, max_examples=40)
@given(spoils=spoilt(MEMORY_FILES))
def test_memory(spoils: Mapping[str, Sequence[Spoil]]) -> None:
    kernel = PretendResctrl(INTEL)
    for group in ("tailor-lc", "tailor-be"):
        kernel.make(f"/sys/fs/resctrl/{group}")
    kernel.traffic = lambda shares: dict.fromkeys(shares, 1e9)
    read_all(MemoryBandwidth(SpoiltFiles(kernel, spoils)), lambda second: kernel.advance(1.0))


# ------------------------------------------------------------------ network


@contextmanager
def network(spoils: Mapping[str, Sequence[Spoil]]) -> Iterator[tuple[FakeProc, Callable[[int], None]]]:
    """Yield a /proc with LC (1, 2), a job (3) and one in the host's network (4), and what spoils its files."""
    with tempfile.TemporaryDirectory() as directory:
        proc = FakeProc(Path(directory) / "proc", Path(directory) / "unified")
        proc.routes("thread-self", route("eth0", "0.0.0.0", "192.0.2.1", "0.0.0.0"))
        for pid, namespace, group in (
            (1, "net:[2]", "/a"),
            (2, "net:[3]", "/b"),
            (3, "net:[4]", "/c"),
            (4, HOST, "/d"),
        ):
            proc.add(pid, namespace, group, sent=1000)
            proc.routes(pid, route("eth0", "172.17.0.0", "0.0.0.0", "255.255.0.0"))
            (Path(directory) / "unified" / group[1:]).mkdir(parents=True)
        good = {path: path.read_text() for path in sorted(proc.path.rglob("*")) if path.is_file()}

        def step(second: int) -> None:
            for path, text in good.items():
                ends = next((end for end in spoils if str(path).endswith(end)), None)
                if ends is None:
                    continue
                path.unlink(missing_ok=True)
                try:
                    path.write_text(spoils[ends][second % len(spoils[ends])](text))
                except KnobRefused:
                    if second % 2:
                        path.write_bytes(b"\xff\xfe\x80")  # no text at all

        yield proc, step


@settings(PEOPLE, max_examples=50)
@given(spoils=spoilt(NETWORK_FILES), by_group=st.booleans(), jobs=st.sampled_from([(3,), (3, 4)]))
def test_network(spoils: Mapping[str, Sequence[Spoil]], by_group: bool, jobs: tuple[int, ...]) -> None:
    with network(spoils) as (proc, step):
        use = NetworkUse(
            lambda: {"web": 1, "store": 2}, lambda: {str(pid): ("sort", pid) for pid in jobs}, by_group=False,
            proc=proc.path,
        )  # fmt: skip
        use.by_group = by_group  # also where this process may load no programs
        read_all(use, step)


def test_a_network_that_cannot_be_read_is_missing() -> None:
    for spoil in (Shows(""), Shows("Inter-|\n face |\n  eth0: 1 2\n"), Shows("\0\0\0")):
        with network({"net/dev": [spoil]}) as (proc, step):
            use = NetworkUse(
                lambda: {"web": 1, "store": 2}, lambda: {"job": ("sort", 3)}, by_group=False, proc=proc.path
            )
            assert read_all(use, step) == [{}] * READ_S, spoil


# ------------------------------------------------------------------ the canary


class Child:
    """A child process of the canary that has written something."""

    returncode = 0

    def __init__(self, told: bytes) -> None:
        read, write = os.pipe()
        os.write(write, told)
        os.close(write)
        self.stdin, self.stdout = open(os.devnull, "wb"), open(read, "rb")  # noqa: SIM115, PTH123

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        return 0


@settings(PEOPLE, max_examples=150)
@given(
    told=st.lists(
        st.one_of(st.binary(max_size=60), st.builds(lambda word: f"{word} 0.1\n".encode(), st.sampled_from(NUMBERS)),
                  st.builds(lambda step: f"{step!r} 0.1\n".encode(), st.floats())),
        max_size=20,
    )
)  # fmt: skip
def test_the_canary(told: list[bytes]) -> None:
    canary = Canary()

    def step(second: int) -> None:
        before: Any = canary._child
        if before is not None:
            before.stdin.close()
            before.stdout.close()
        canary._child = Child(told[second % len(told)] if told else b"")  # type: ignore[assignment]

    read_all(canary, step)


# ------------------------------------------------------------------ the loop, and completeness


@settings(PEOPLE, max_examples=25)
@given(version=st.sampled_from([1, 2]), spoils=spoilt(CPU_FILES[1:]))
def test_a_guard_goes_on_whatever_its_sensors_read(version: int, spoils: Mapping[str, Sequence[Spoil]]) -> None:
    """With the policy that rests most on them."""
    here = PlantMachine(Plant(Machine(), LC_KINDS["search"], np.full(100, 0.4), (), seed=1), version)
    before, queue = here.kernel.shown(), PretendQueue()
    queue.add([JobSpec("long", "i", kind="compute")])
    here.jobs.needs_s = 1e9
    with tempfile.TemporaryDirectory() as home:
        machine = here.machine(Path(home), files=(files := SpoiltFiles(here.kernel)))
        entries: list[Entry] = []
        jobs = Jobs(queue, machine.runner, Path(home), float(here.host.cores), machine.used, machine.end_work)
        guard = Guard(
            here.host, Koordinator(), [PlantLatency(here), *machine.sensors[:3]], machine.actuators, machine.needed,
            jobs, here, entries.append,
        )  # fmt: skip
        machine.recover()
        machine.prepare()
        files.spoils = spoils
        assert guard.run(10.0) == "10 s were over"
        jobs.stop()
        assert machine.restore() == []
    assert here.kernel.shown() == before
    assert sum(isinstance(entry, Decided) for entry in entries) >= 10


@pytest.mark.parametrize("error", [TestbedUnavailable("no answer"), DeploymentFailed("it is going down")])
def test_an_engine_that_is_away_leaves_the_containers_that_are_known(error: Exception) -> None:
    class Away:
        def containers(self, label: str) -> list[Any]:
            raise error

    assert GuardedProject(Away(), "shop", lambda pid: True).pids() == {}  # type: ignore[arg-type]


COVERED = {
    CpuUse, RunQueueDelay, Pressure, MemoryBandwidth, NetworkUse, DiskUse, Canary, LoadLatency, BackgroundSensor,
}  # fmt: skip


def test_every_sensor_is_covered() -> None:
    sensors = set()
    for room in (framework.testbeds, framework.load, framework.telemetry.latency):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if kind is not Sensor and {"gives", "read"} <= {*dir(kind), *getattr(kind, "__slots__", ())}:
                    sensors.add(kind)
    assert sensors == COVERED
