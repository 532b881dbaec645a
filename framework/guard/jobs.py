"""Best-effort jobs of a guard: started, watched, retried and recorded, on any runner and any queue.

The queue knows first: an attempt is written as running before its container is made, and a container's name has the
attempt's number, so that no crash leads to two containers of one job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from framework.errors import DeploymentFailed, Transient
from framework.model.batch_job import LIVE, BatchJob, JobSeen, JobState
from framework.ports.job_queue import BatchQueue
from framework.ports.job_runner import JobRunner

OUTPUT_IN_DOUBT = "its engine was restarted meanwhile, and may have lost output"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A job began, ended, or waits again."""

    job: BatchJob
    text: str


@dataclass(slots=True)
class Jobs:
    """``used``: CPU seconds of the group of a process; None where it has ended.  ``cores``: that BE may have at most,
    which bounds the jobs that run at once.  ``outputs``: directory of the jobs' output.  ``look_every``: how many
    calls of ``tend`` may go by without asking the runner, which costs more than all else, while no process has ended.
    ``end_work``: ends every process of BE's.
    """

    queue: BatchQueue
    runner: JobRunner
    outputs: Path
    cores: float
    used: Callable[[int], float | None]
    end_work: Callable[[], None]
    look_every: int = 5
    seen: Sequence[JobSeen] = field(default=(), init=False)
    _looked: int = field(default=0, init=False)
    _recovered: bool = field(default=False, init=False)
    _unanswered: set[str] = field(default_factory=set, init=False)
    """Attempts that an engine was asked to start, and went away before it said that it had."""
    _taken_over: set[str] = field(default_factory=set, init=False)
    """Attempts that a killed guard began: who ended them, it, its keeper or they themselves, cannot be known."""

    def recover(self) -> list[JobEvent]:
        """Take over what an earlier guard left: attempts that still run or ended well go on, others wait again.

        Where an engine may still be starting one, all that run are ended first, and wait again.  One whose guard was
        killed after its container was made and before it was started would never begin: it goes.  One that ends badly
        all the same may have been broken off, which is no failure of its own.
        """
        self.seen = self.runner.look()
        if any(not seen.pid and seen.status is None for seen in self.seen):
            # An engine may still be starting it, in a group that stands still: removed now, it would begin and could
            # end well first, and be done twice.
            self.end_work()
            self.seen = self.runner.look()
        jobs = {job.container: job for job in self.queue.all() if job.state in LIVE}
        good = [seen for seen in self.seen if seen.pid or seen.status == 0]
        here = {seen.container for seen in good if seen.container in jobs}
        self._taken_over = here
        strangers = [seen.container for seen in self.seen if seen.container not in here]
        if strangers:
            self.runner.remove(strangers)
        events = [JobEvent(job, "goes on") for container, job in jobs.items() if container in here]
        events += [
            JobEvent(self._waits(job, "its guard was killed"), "waits again: its guard was killed")
            for container, job in jobs.items()
            if container not in here
        ]
        self._recovered = True
        return events

    def tend(self, running: bool, paused: frozenset[str]) -> list[JobEvent]:
        """Look after all jobs once: note what ended, and start what has room.  ``running``: BE may run now.

        What an earlier guard left is taken over first, where the engine was away when this one began.
        """
        events = [] if self._recovered else self.recover()
        self._look()
        seen = {attempt.container: attempt for attempt in self.seen}
        live = [job for job in self.queue.all() if job.state in LIVE]
        events += [event for job in live for event in self._watched(job, seen.get(job.container), running, paused)]
        if running:
            events += self._started(paused)
        return events

    def stop(self) -> list[JobEvent]:
        """End all attempts; their jobs wait for the next guard, and what they did is wasted.

        One that had ended well before it could be ended is finished: it must not be run again.
        """
        self.seen = self.runner.look()
        self._note_use()
        self.end_work()
        self.seen = self.runner.look()
        well = {seen.container: seen for seen in self.seen if seen.status == 0}
        live = [job for job in self.queue.all() if job.state in LIVE]
        events = [self._finished(job, well[job.container]) for job in live if job.container in well]
        self.runner.remove([seen.container for seen in self.seen])
        self.seen = ()
        left = [job for job in live if job.container not in well]
        return events + [JobEvent(self._waits(job, "the guard ended"), "waits again: the guard ended") for job in left]

    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({seen.kind for seen in self.seen if seen.pid}))

    def _look(self) -> None:
        """Ask the runner, but not more often than ``look_every`` while all processes are there."""
        self._looked += 1
        calm = all(seen.pid and self.used(seen.pid) is not None for seen in self.seen)
        if not self.seen or not calm or self._looked >= self.look_every:
            self.seen, self._looked = self.runner.look(), 0

    def _note_use(self) -> None:
        live = {job.container: job for job in self.queue.all() if job.state in LIVE}
        for seen in self.seen:
            if seen.container in live and seen.pid and (used := self.used(seen.pid)) is not None:
                self.queue.use(live[seen.container].number, used)

    def _watched(self, job: BatchJob, seen: JobSeen | None, running: bool, paused: frozenset[str]) -> list[JobEvent]:
        if seen is None or not (seen.pid or seen.status is not None):
            if seen is None and job.container not in self._unanswered:
                return [self._failed(job, "its container is gone")]
            return [self._again(job, "the engine went away before it began")]
        self._unanswered.discard(job.container)
        if seen.status is None:
            used = self.used(seen.pid)
            if used is not None:
                self.queue.use(job.number, used)
                if job.spec.limit_s and used > job.spec.limit_s:
                    return [self._failed(job, f"it used more than {job.spec.limit_s:g} s of CPU time")]
            state = JobState.RUNNING if running and seen.kind not in paused else JobState.FROZEN
            if state is not job.state:
                self.queue.move(job.number, state)
            return []
        if seen.status == 0:
            return [self._finished(job, seen)]
        self.runner.save_output(seen.container, self.output(job))
        if seen.engine_restarted or seen.container in self._taken_over:
            return [self._again(job, "its engine was restarted" if seen.engine_restarted else "its guard was killed")]
        return [self._failed(job, seen.reason or f"it ended with status {seen.status}")]

    def _finished(self, job: BatchJob, seen: JobSeen) -> JobEvent:
        self.runner.save_output(seen.container, self.output(job))
        reason = OUTPUT_IN_DOUBT if seen.engine_restarted else ""
        ended = self.queue.move(job.number, JobState.FINISHED, useful_s=job.used_s, used_s=0.0, reason=reason)
        self.runner.remove([seen.container])
        return JobEvent(ended, f"finished; {reason}" if reason else "finished")

    def output(self, job: BatchJob) -> Path:
        return self.outputs / f"{job.number}-{job.attempt}.txt"

    def _failed(self, job: BatchJob, reason: str) -> JobEvent:
        """Note an attempt that ended badly; the job waits for its next one, or has failed."""
        self.runner.remove([job.container])  # first: the next attempt must not begin beside this one
        failures = job.failures + 1
        state = JobState.PENDING if failures < job.spec.attempts else JobState.FAILED
        values = {"failures": failures, "wasted_s": job.wasted_s + job.used_s, "used_s": 0.0, "reason": reason}
        after = self.queue.move(job.number, state, **values)
        return JobEvent(after, f"{'failed' if state is JobState.FAILED else 'waits again'}: {reason}")

    def _again(self, job: BatchJob, reason: str) -> JobEvent:
        """Note an attempt that was broken off, which is no failure of its own."""
        self.runner.remove([job.container])
        self._unanswered.discard(job.container)
        return JobEvent(self._waits(job, reason), f"waits again: {reason}")

    def _waits(self, job: BatchJob, reason: str) -> BatchJob:
        wasted = job.wasted_s + job.used_s
        return self.queue.move(job.number, JobState.PENDING, wasted_s=wasted, used_s=0.0, reason=reason)

    def _started(self, paused: frozenset[str]) -> list[JobEvent]:
        """Start jobs by priority, then in their order; one that is too large for the room left lets others pass."""
        jobs = self.queue.all()
        room = self.cores - sum(job.spec.cores for job in jobs if job.state in LIVE)
        runs, events = any(job.state in LIVE for job in jobs), list[JobEvent]()
        waiting = [job for job in jobs if job.state is JobState.PENDING]
        for job in sorted(waiting, key=lambda job: (-job.spec.priority, job.number)):
            fits = job.spec.cores <= room or not runs  # one that is larger than all that BE may have runs alone
            if not fits or (job.spec.kind or job.spec.name) in paused:
                continue
            events.append(self._start(job))
            room, runs = room - job.spec.cores, True
        return events

    def _start(self, job: BatchJob) -> JobEvent:
        job = self.queue.move(job.number, JobState.RUNNING, attempt=job.attempt + 1, used_s=0.0, reason="")
        try:
            self.runner.start(job)
        except DeploymentFailed as error:
            return self._failed(job, error.reason)
        except Transient:
            self._unanswered.add(job.container)
            raise
        self._looked = self.look_every  # the next call shall see it
        return JobEvent(job, f"attempt {job.attempt} began")


def totals(jobs: Sequence[BatchJob]) -> tuple[float, float]:
    """Return the CPU seconds that were useful (of finished jobs and of attempts that run), and those wasted."""
    return sum(job.useful_s + job.used_s for job in jobs), sum(job.wasted_s for job in jobs)
