"""Contract kit of runners of best-effort jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.errors import DeploymentFailed
from framework.model.batch_job import BatchJob, JobSeen, JobSpec, JobState
from framework.ports.job_runner import JobRunner

PATIENCE_S = 60.0


@dataclass
class GivenRunner:
    """A runner under test, of jobs that have the programs sh and sleep.

    ``runner``: makes it anew, as each guard does.  ``spec``: of jobs; the kit fills in name and command.
    """

    runner: Callable[[], JobRunner]
    spec: JobSpec

    def job(self, number: int, *command: str, attempt: int = 1) -> BatchJob:
        """Return a job's attempt."""
        values = {name: getattr(self.spec, name) for name in JobSpec.__dataclass_fields__}
        spec = JobSpec(**{**values, "name": f"job-{number}", "command": command})
        return BatchJob(number, spec, JobState.RUNNING, attempt)


class JobRunnerContract:
    """Tests of a runner.  Fixture: ``given``, a GivenRunner without attempts, which cleans up."""

    def test_an_attempt_runs_until_it_is_removed(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "sleep", "1000")
        runner.start(job)
        seen = until(runner, job, lambda seen: bool(seen.pid))
        assert (seen.status, seen.kind) == (None, "job-1")
        assert Path(f"/proc/{seen.pid}").exists()
        runner.remove([job.container])
        assert list(runner.look()) == []
        assert not _runs(seen.pid)
        runner.remove([job.container])  # nothing is left to remove

    def test_an_attempt_begins_once_whoever_starts_it(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "sleep", "1000")
        runner.start(job)
        first = until(runner, job, lambda seen: bool(seen.pid))
        runner.start(job)
        again = given.runner()
        again.start(job)
        assert list(again.look()) == [first]

    def test_an_attempt_that_ended_keeps_its_status_and_its_output(self, given: GivenRunner, tmp_path: Path) -> None:
        runner, job = given.runner(), given.job(1, "sh", "-c", "echo 'a; $HOME'; echo b >&2; exit 3")
        runner.start(job)
        until(runner, job, lambda seen: seen.status == 3)
        runner.start(job)  # it has begun already
        again = given.runner()
        assert [(seen.pid, seen.status) for seen in again.look()] == [(0, 3)]
        again.save_output(job.container, tmp_path / "below" / "output.txt")
        assert sorted((tmp_path / "below" / "output.txt").read_text().splitlines()) == ["a; $HOME", "b"]

    def test_a_status_of_0_is_a_good_end(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "sh", "-c", "exit 0")
        runner.start(job)
        until(runner, job, lambda seen: seen.status == 0)

    def test_a_command_that_there_is_not_is_said(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "no-such-command")
        try:
            runner.start(job)
            reason = until(runner, job, lambda seen: bool(seen.status)).reason
        except DeploymentFailed as error:
            reason = error.reason
        assert "no-such-command" in reason
        runner.remove([job.container])
        assert list(runner.look()) == []

    def test_attempts_have_nothing_to_do_with_each_other(self, given: GivenRunner) -> None:
        runner = given.runner()
        jobs = [given.job(number, "sleep", "1000", attempt=attempt) for number, attempt in ((1, 1), (1, 11), (11, 1))]
        for job in jobs:
            runner.start(job)
        for job in jobs:
            until(runner, job, lambda seen: bool(seen.pid))
        runner.remove([jobs[0].container])
        assert {seen.container for seen in runner.look() if seen.pid} == {jobs[1].container, jobs[2].container}

    def test_what_a_command_leaves_ends_with_its_attempt(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "sh", "-c", "sleep 1000 & sleep 1000 & wait")
        runner.start(job)
        seen = until(runner, job, lambda seen: bool(seen.pid))
        runner.remove([job.container])
        assert not _runs(seen.pid)
        assert list(runner.look()) == []


def until(runner: JobRunner, job: BatchJob, holds: Callable[[JobSeen], bool]) -> JobSeen:
    """Look at an attempt until something holds of it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        seen = next(seen for seen in runner.look() if seen.container == job.container)
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {seen}"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Return whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
