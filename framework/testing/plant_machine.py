"""A machine in virtual time for tests of a guard: the plant below pretended control groups.

A guard's own adapters read and write the pretended kernel's files; what they set decides how the plant's service and
jobs fare, and what these use stands in the files again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from framework.guard.plant.plant import STEP_S, Moment, Plant
from framework.model.batch_job import BatchJob, JobSpec, JobState, check_transition
from framework.model.guard import GuardedHost, Setting
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.guarded_groups import BE
from framework.testbeds.host.guarded_machine import HostGuardedMachine
from framework.testbeds.host.journal import Journal, boot_id, undo_of_files
from framework.testbeds.host.thawing_runner import GroupedRunner
from framework.testing.pretend_cgroups import PretendKernel
from framework.testing.pretend_commands import PretendCommands
from framework.testing.pretend_disks import Use
from framework.testing.pretend_jobs import PretendJobs

LC = "/docker/lc"
LC_PID = 100
LC_BYTES = 20_000.0  # that a request writes
GREEDY_BPS = 1e9  # that a job would like to read, and to write


@dataclass(slots=True)
class PretendQueue:
    """Queue in memory; implements ``framework.ports.job_queue.BatchQueue``."""

    jobs: dict[int, BatchJob] = field(default_factory=dict)

    def add(self, specs: Iterable[JobSpec]) -> Sequence[BatchJob]:
        for spec in specs:
            number = len(self.jobs) + 1
            self.jobs[number] = BatchJob(number, spec)
        return list(self.jobs.values())

    def all(self) -> Sequence[BatchJob]:
        return list(self.jobs.values())

    def move(self, number: int, state: JobState, **values: object) -> BatchJob:
        job = self.jobs[number]
        check_transition(job.spec.name, job.state, state)
        kept = {name: getattr(job, name) for name in BatchJob.__dataclass_fields__}
        self.jobs[number] = BatchJob(**{**kept, "state": state, **values})
        return self.jobs[number]

    def use(self, number: int, used_s: float) -> None:
        self.move(number, self.jobs[number].state, used_s=used_s)

    def forget(self, number: int) -> None:
        del self.jobs[number]


class PretendLc:
    """The application.  ``containers``: path of a container's group -> its process; ``others``: of those that need no
    protection.
    """

    def __init__(self, kernel: PretendKernel, containers: Mapping[str, int], others: Mapping[str, int]) -> None:
        self._kernel, self._containers, self._others = kernel, containers, others

    def pids(self) -> Mapping[str, int]:
        every = {**self._containers, **self._others}
        return {path: pid for path, pid in every.items() if pid in self._kernel.pids}

    def spared(self) -> frozenset[str]:
        return frozenset(self._others)

    def services(self) -> Sequence[str]:
        return sorted(path.rpartition("/")[2] for path in self.pids())


class PlantMachine:
    """The plant with a kernel; also the clock of the guard, whose sleep lets the plant go on.

    ``lc``: the containers of the application, one at first: path of its group -> its process.
    """

    def __init__(self, plant: Plant, version: int = 1, disk_mbs: float = 0.0) -> None:
        self.plant, self.disk_mbs = plant, disk_mbs
        self.kernel = PretendKernel(version, frozenset(range(plant.machine.cores)))
        self.lc = {LC: LC_PID}
        self.kernel.add(LC, LC_PID)
        self.jobs, self.commands = PretendJobs(self.kernel), PretendCommands(self.kernel)
        self.moments: list[Moment] = []
        self.others: dict[str, int] = {}  # containers of LC that need no protection -> their processes
        self.disk: list[dict[str, Use]] = []  # in each step, what each group was let read and write
        self._time_s = 0.0

    @property
    def host(self) -> GuardedHost:
        """The host without what the pretended kernel has no knobs for."""
        host = self.plant.host
        return GuardedHost(host.cores, host.target_ms, host.peak_rps, disk_mbs=self.disk_mbs)

    def machine(
        self, home: Path, watched_by: Callable[[], AbstractContextManager[object]] = nullcontext,
        files: KernelFiles | None = None, runner: GroupedRunner | None = None,
    ) -> HostGuardedMachine:  # fmt: skip
        """Return the machine with the guard's own adapters; each call is another guard's.

        ``files``, ``runner``: by which it sees the kernel and the engine; None: as they are.
        """
        files = files or self.kernel
        journal = Journal(home / "journal.jsonl", boot_id(self.kernel), undo_of_files(files))
        cpus = sorted(self.kernel.cpus)
        lc = PretendLc(self.kernel, self.lc, self.others)
        return HostGuardedMachine(
            files, journal, lc, runner or self.jobs, cpus, watched_by, kill=self.kill, pause=self.sleep,
            disk_mbs=self.disk_mbs, commands=self.commands.runner(home),
        )  # fmt: skip

    def kill(self, pid: int) -> None:
        """Send SIGKILL to a process of a job, in a container or a command."""
        self.jobs.kill(pid)
        self.commands.signal(pid)

    # ------------------------------------------------------------------ clock

    def now_ns(self) -> int:
        return int(self._time_s * 1e9)

    def monotonic(self) -> float:
        return self._time_s

    def sleep(self, seconds: float) -> None:
        """Let time pass; the plant goes on in its own steps."""
        self._time_s += max(seconds, 1e-3)
        while self.plant.time_s + STEP_S <= self._time_s and not self.plant.ended:
            self._step()

    def _step(self) -> None:
        working = [(job.spec.kind, path) for job, path in self.jobs.running()] + self.commands.running()
        setting = self._setting(len(working))
        self.plant.mix = tuple(kind for kind, _ in working)
        self.plant.set(setting)
        self.moments.append(self.plant.step())
        sample = self.plant.sample()
        for path in (here := self._lc_groups()):
            self.kernel.run(path, (sample.lc_cores or 0.0) * STEP_S / len(here))
        self._use_disk([path for _, path in working])
        for _, path in working:
            whose = self.jobs if self.jobs.has(path) else self.commands
            whose.work(path, setting.cores / len(working) * STEP_S)

    def _use_disk(self, working: Collection[str]) -> None:
        """Let LC write as much as it has requests, and jobs read and write as much as they may."""
        lc = {LC: (0.0, LC_BYTES * self.plant.load * self.plant.host.peak_rps)} if LC in self.kernel.groups else {}
        let = self.kernel.disks.work({**lc, **dict.fromkeys(working, (GREEDY_BPS, GREEDY_BPS))}, STEP_S)
        self.disk.append(let)

    def _setting(self, working: int) -> Setting:
        """Return what the kernel's files say that BE has."""
        group = self.kernel.groups.get(f"/{BE}")
        if group is None or not working:
            return Setting()
        be = self.kernel.effective(f"/{BE}")
        lc = frozenset[int]().union(*(self.kernel.effective(path) for path in self._lc_groups()))
        if be & lc or not lc:  # shared: BE has what its quota allows, where LC leaves time
            return Setting(True, group.quota or float(len(be)), exclusive=False)
        return Setting(True, float(len(be)))

    def _lc_groups(self) -> list[str]:
        return [path for path, pid in self.lc.items() if self.kernel.pids.get(pid) == path]


class PlantLatency:
    """Sensor of the plant's tail latency; implements ``framework.ports.sensor.Sensor``."""

    name, gives = "plant", ("latency_ms", "rate_rps")

    def __init__(self, machine: PlantMachine) -> None:
        self._machine = machine

    def missing(self) -> str:
        return ""

    def read(self, now_s: float) -> Mapping[str, float]:
        sample = self._machine.plant.sample()
        if sample.latency_ms is None or sample.rate_rps is None:
            return {}
        return {"latency_ms": sample.latency_ms, "rate_rps": sample.rate_rps}

    def close(self) -> None:
        """Nothing to let go of."""
