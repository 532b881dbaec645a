"""Best-effort jobs in a pretended kernel, as an engine runs them: it notices late what ended, and may be restarted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from framework.errors import DeploymentFailed
from framework.model.batch_job import BatchJob, JobSeen
from framework.testbeds.host.guarded_groups import BE
from framework.testing.pretend_cgroups import PretendKernel

SIGKILL = 137  # status of what was killed


@dataclass(slots=True)
class PretendJobs:
    """Runner of jobs in the pretended kernel; outlives the guards that use it, as an engine does.

    ``needs_s``: CPU seconds after which a job ends, 0: at once; ``status``: name of a job -> its exit status, else 0.
    ``late``: looks for which an attempt that has ended still seems to run.  ``began``: every attempt that was ever
    started; ``well``: those that ended with 0; ``used_s``: CPU seconds of all of them.  ``refuse``: called with an
    operation's name before it; may raise.
    """

    kernel: PretendKernel
    needs_s: float = 20.0
    status: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    began: list[str] = field(default_factory=list)
    well: list[str] = field(default_factory=list)
    used_s: float = 0.0
    refuse: Callable[[str], None] = lambda operation: None
    _here: dict[str, tuple[BatchJob, int]] = field(default_factory=dict)
    _ended: dict[str, JobSeen] = field(default_factory=dict)
    _unnoticed: dict[str, tuple[JobSeen, int]] = field(default_factory=dict)
    _begins: dict[str, tuple[BatchJob, int]] = field(default_factory=dict)
    _killed: dict[int, bool] = field(default_factory=dict)
    _next: int = 1000

    # ------------------------------------------------------------------ the port

    def start(self, job: BatchJob) -> None:
        self.refuse("start")
        known = self._ended.get(job.container)
        if job.container in self._here or (known is not None and known.status is not None):
            return
        if job.spec.image == "missing":
            raise DeploymentFailed("image missing is not on this machine")
        if any(job.number == other.number for other, _ in self._here.values()):
            raise AssertionError(f"{job.spec.name} runs twice at the same time")
        self._ended.pop(job.container, None)
        self._begins.pop(job.container, None)
        self._next += 1
        self.kernel.add(f"/{BE}/{job.container}", self._next)
        self._here[job.container] = job, self._next
        self.began.append(job.container)
        if not self.needs_s:
            self.finish(job.container)

    def look(self) -> Sequence[JobSeen]:
        self.refuse("look")
        self._reap()
        for name, (job, looks) in list(self._begins.items()):
            self._begins[name] = job, looks - 1
            if not looks:
                self.start(job)
        seen = [JobSeen(name, job.spec.kind, pid, None) for name, (job, pid) in self._here.items()]
        for name, (before, looks) in list(self._unnoticed.items()):
            seen.append(before)
            self._unnoticed[name] = before, looks - 1
            if looks <= 1:
                del self._unnoticed[name]
        return seen + [
            ended for name, ended in self._ended.items() if name not in {attempt.container for attempt in seen}
        ]

    def processes(self) -> Mapping[str, tuple[str, int]]:
        return {name: (job.spec.kind, pid) for name, (job, pid) in self._here.items()}

    def numbers(self) -> Mapping[str, str]:
        return {name: name for name in self._here}

    def save_output(self, container: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"output of {container}\n")

    def remove(self, containers: Collection[str]) -> None:
        self.refuse("remove")
        self._reap()
        for name in containers:
            if name in self._begins:  # what held it up is lifted for the removal, and it is faster
                self.start(self._begins[name][0])
            if name in self._here:
                pid = self._here[name][1]
                assert self._mortal(pid), "one that stands still, or waits for a disk, cannot be ended"
            self.vanish(name)

    # ------------------------------------------------------------------ the world

    def make_only(self, job: BatchJob, begins_after: int = 0) -> None:
        """Make an attempt's container without starting it, as an engine does whose caller is killed in between.

        ``begins_after``: looks after which it begins all the same, because it was asked to; 0: never.
        """
        self._ended[job.container] = JobSeen(job.container, job.spec.kind, 0, None)
        if begins_after:
            self._begins[job.container] = job, begins_after

    def kill(self, pid: int, with_engine: bool = False) -> None:
        """Send SIGKILL to a process, also to one that has just ended."""
        self._killed[pid] = with_engine
        self._reap()

    def finish(self, name: str) -> None:
        """End an attempt by itself, where it does not stand still."""
        job, pid = self._here[name]
        if not self.kernel.stands_still(self.kernel.pids[pid]):
            self._end(name, self.status.get(job.spec.name, 0))

    def restart(self) -> None:
        """Restart the engine, which ends what it runs."""
        for _, pid in list(self._here.values()):
            self.kill(pid, with_engine=True)
        self._ended = {name: replace(ended, engine_restarted=True) for name, ended in self._ended.items()}

    def vanish(self, name: str) -> None:
        """End and remove an attempt, as somebody does by hand."""
        if name in self._here:
            self.kernel.end(self._here.pop(name)[1])
        self._ended.pop(name, None)
        self._begins.pop(name, None)
        self._unnoticed.pop(name, None)

    def containers(self) -> list[str]:
        """Return the names of all containers, also of those that have ended."""
        self._reap()
        return [*self._here, *self._ended]

    def running(self) -> list[tuple[BatchJob, str]]:
        """Return (job, path of its group) of those whose processes are not frozen."""
        self._reap()
        here = [(job, self.kernel.pids[pid]) for job, pid in self._here.values()]
        return [(job, path) for job, path in here if not self.kernel.stands_still(path)]

    def has(self, path: str) -> bool:
        """Return whether a group is that of a job here."""
        return path.rpartition("/")[2] in self._here

    def work(self, path: str, seconds: float) -> None:
        """Let a job use CPU time; one that has had enough ends."""
        self.kernel.run(path, seconds)
        self.used_s += seconds
        if self.kernel.groups[path].used_s >= self.needs_s:
            self.finish(path.rpartition("/")[2])

    def _mortal(self, pid: int) -> bool:
        """Return whether a signal reaches a process: not in a frozen group of v1, nor while it waits for a disk."""
        path = self.kernel.pids[pid]
        thawed = self.kernel.version == 2 or not self.kernel.stands_still(path)
        return thawed and not self.kernel.disks.waits(path)

    def _reap(self) -> None:
        """End what was killed and can die."""
        for name, (_, pid) in list(self._here.items()):
            if pid in self._killed and self._mortal(pid):
                self._end(name, SIGKILL, self._killed[pid])

    def _end(self, name: str, status: int, with_engine: bool = False) -> None:
        job, pid = self._here.pop(name)
        self.kernel.end(pid)
        ended = JobSeen(name, job.spec.kind, 0, status, engine_restarted=with_engine)
        if self.late:
            self._unnoticed[name] = replace(ended, pid=pid, status=None), self.late
        self._ended[name] = ended
        if status == 0:
            self.well.append(name)
