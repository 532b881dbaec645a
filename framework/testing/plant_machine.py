"""A machine in virtual time for tests of a guard: the plant below pretended control groups.

A guard's own adapters read and write the pretended kernel's files; what they set decides how the plant's service and
jobs fare, and what these use stands in the files again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from framework.errors import DeploymentFailed
from framework.guard.plant.plant import STEP_S, Moment, Plant
from framework.model.batch_job import BatchJob, JobSeen, JobSpec, JobState, check_transition
from framework.model.guard import GuardedHost, Setting
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.guarded_groups import BE
from framework.testbeds.host.guarded_machine import HostGuardedMachine
from framework.testbeds.host.journal import Journal, boot_id, undo_of_files
from framework.testing.pretend_cgroups import PretendKernel

LC = "/docker/lc"
LC_PID = 100


@dataclass(slots=True)
class PretendJobs:
    """Runner of jobs in the pretended kernel; outlives the guards that use it, as an engine does.

    ``needs_s``: CPU seconds after which a job ends; ``status``: name of a job -> its exit status, else 0.  ``began``:
    every attempt that was ever started.  ``refuse``: called with an operation's name before it; may raise.
    """

    kernel: PretendKernel
    needs_s: float = 20.0
    status: Mapping[str, int] = field(default_factory=dict)
    began: list[str] = field(default_factory=list)
    refuse: Callable[[str], None] = lambda operation: None
    _here: dict[str, tuple[BatchJob, int]] = field(default_factory=dict)
    _ended: dict[str, JobSeen] = field(default_factory=dict)
    _next: int = 1000

    def start(self, job: BatchJob) -> None:
        self.refuse("start")
        if job.container in self._here:
            return
        if job.spec.image == "missing":
            raise DeploymentFailed("image missing is not on this machine")
        if any(job.number == other.number for other, _ in self._here.values()):
            raise AssertionError(f"{job.spec.name} runs twice at the same time")
        self._next += 1
        self.kernel.add(f"/{BE}/{job.container}", self._next)
        self._here[job.container] = job, self._next
        self.began.append(job.container)

    def make_only(self, job: BatchJob) -> None:
        """Make an attempt's container without starting it, as an engine does whose caller is killed in between."""
        self._ended[job.container] = JobSeen(job.container, job.spec.kind, 0, None)

    def look(self) -> Sequence[JobSeen]:
        self.refuse("look")
        seen = [JobSeen(name, job.spec.kind, pid, None) for name, (job, pid) in self._here.items()]
        return seen + list(self._ended.values())

    def processes(self) -> Mapping[str, tuple[str, int]]:
        return {name: (job.spec.kind, pid) for name, (job, pid) in self._here.items()}

    def save_output(self, container: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"output of {container}\n")

    def numbers(self) -> Mapping[str, str]:
        return {name: name for name in self._here}

    def remove(self, containers: Collection[str]) -> None:
        self.refuse("remove")
        for name in containers:
            if name in self._here:
                _, pid = self._here.pop(name)
                assert not self.kernel.stands_still(self.kernel.pids[pid]), "a frozen process cannot be ended"
                self.kernel.end(pid)
            self._ended.pop(name, None)

    def running(self) -> list[tuple[BatchJob, str]]:
        """Return (job, path of its group) of those whose processes are not frozen."""
        here = [(job, self.kernel.pids[pid]) for job, pid in self._here.values()]
        return [(job, path) for job, path in here if not self.kernel.stands_still(path)]

    def work(self, path: str, seconds: float) -> None:
        """Let a job use CPU time; one that has had enough ends."""
        self.kernel.run(path, seconds)
        if self.kernel.groups[path].used_s >= self.needs_s:
            name = path.rpartition("/")[2]
            job, pid = self._here.pop(name)
            self.kernel.end(pid)
            self._ended[name] = JobSeen(name, job.spec.kind, 0, self.status.get(job.spec.name, 0))


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
    """The protected application: one container."""

    def __init__(self, kernel: PretendKernel) -> None:
        self._kernel = kernel

    def pids(self) -> Mapping[str, int]:
        return {"lc": LC_PID} if LC_PID in self._kernel.pids else {}

    def services(self) -> Sequence[str]:
        return ["lc"] if LC_PID in self._kernel.pids else []


class PlantMachine:
    """The plant with a kernel; also the clock of the guard, whose sleep lets the plant go on."""

    def __init__(self, plant: Plant, version: int = 1) -> None:
        self.plant = plant
        self.kernel = PretendKernel(version, frozenset(range(plant.machine.cores)))
        self.kernel.add(LC, LC_PID)
        self.jobs = PretendJobs(self.kernel)
        self.moments: list[Moment] = []
        self._time_s = 0.0

    @property
    def host(self) -> GuardedHost:
        """The host without what the pretended kernel has no knobs for."""
        host = self.plant.host
        return GuardedHost(host.cores, host.target_ms, host.peak_rps)

    def machine(
        self, home: Path, watched_by: Callable[[], AbstractContextManager[object]] = nullcontext,
        files: KernelFiles | None = None,
    ) -> HostGuardedMachine:  # fmt: skip
        """Return the machine with the guard's own adapters; each call is another guard's.

        ``files``: by which it sees the kernel; None: as they are.
        """
        files = files or self.kernel
        journal = Journal(home / "journal.jsonl", boot_id(self.kernel), undo_of_files(files))
        cpus = sorted(self.kernel.cpus)
        return HostGuardedMachine(
            files, journal, PretendLc(self.kernel), self.jobs, cpus, watched_by, kill=lambda pid: None
        )

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
        working = self.jobs.running()
        setting = self._setting(len(working))
        self.plant.mix = tuple(job.spec.kind for job, _ in working)
        self.plant.set(setting)
        self.moments.append(self.plant.step())
        sample = self.plant.sample()
        if LC in self.kernel.groups:
            self.kernel.run(LC, (sample.lc_cores or 0.0) * STEP_S)
        for _, path in working:
            self.jobs.work(path, setting.cores / len(working) * STEP_S)

    def _setting(self, working: int) -> Setting:
        """Return what the kernel's files say that BE has."""
        group = self.kernel.groups.get(f"/{BE}")
        if group is None or not working:
            return Setting()
        be, lc = self.kernel.effective(f"/{BE}"), self.kernel.effective(LC)
        if be & lc:  # shared: BE has what its quota allows, where LC leaves time
            return Setting(True, group.quota or float(len(be)), exclusive=False)
        return Setting(True, float(len(be)))


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
