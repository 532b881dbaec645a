"""The queue of best-effort jobs keeps its contract, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest

from framework.errors import IllegalTransition, NotFound
from framework.model.batch_job import JobSpec, JobState
from framework.store.batch_jobs import SqlBatchQueue
from framework.store.database import Database
from framework.store.schema import batch_jobs
from framework.testing.clock import VirtualClock


@pytest.fixture
def queue(url: str) -> Iterator[SqlBatchQueue]:
    database = Database(url)
    yield SqlBatchQueue(database, VirtualClock())
    database.close()


SORT = JobSpec("sort", "debian:12", ("sort", "-n"), "disk", 2.0, 512, "bridge", {"LC_ALL": "C"}, 3, 5, 60.0)
COUNT = JobSpec("count", "debian:12")
HOST = JobSpec("host", "", ("sort", "; reboot"), "disk", network="host", user="nobody", directory="/tmp")


def test_jobs_come_back_as_they_went_in_and_in_their_order(queue: SqlBatchQueue) -> None:
    added = queue.add([SORT, COUNT, HOST])
    assert [job.spec for job in queue.all()] == [SORT, COUNT, HOST]
    assert list(queue.all()) == list(added)
    assert all((job.state, job.attempt, job.failures) == (JobState.PENDING, 0, 0) for job in added)


def test_a_job_that_was_queued_before_there_were_commands_comes_back(url: str) -> None:
    database = Database(url)
    queue = SqlBatchQueue(database, VirtualClock())
    [job] = queue.add([SORT])
    old = {name: value for name, value in asdict(SORT).items() if name not in ("user", "directory")}
    with database.transaction() as connection:
        connection.execute(batch_jobs.update().where(batch_jobs.c.number == job.number).values(spec=old))
    assert [job.spec for job in queue.all()] == [SORT]
    assert not queue.all()[0].spec.is_command
    database.close()


def test_an_unfinished_job_is_not_queued_twice_and_a_finished_one_is_queued_anew(queue: SqlBatchQueue) -> None:
    [first] = queue.add([SORT])
    assert queue.add([SORT]) == [first]
    queue.move(first.number, JobState.RUNNING, attempt=1)
    queue.move(first.number, JobState.FINISHED, useful_s=4.5)
    [second] = queue.add([SORT])
    assert second.number != first.number
    assert [job.state for job in queue.all()] == [JobState.FINISHED, JobState.PENDING]
    assert queue.all()[0].useful_s == 4.5


def test_only_legal_transitions(queue: SqlBatchQueue) -> None:
    [job] = queue.add([COUNT])
    with pytest.raises(IllegalTransition, match="job count is pending; it cannot become finished"):
        queue.move(job.number, JobState.FINISHED)
    for state in (JobState.RUNNING, JobState.FROZEN, JobState.RUNNING, JobState.PENDING, JobState.FAILED):
        queue.move(job.number, state)
    with pytest.raises(IllegalTransition, match="failed"):
        queue.move(job.number, JobState.RUNNING)
    with pytest.raises(NotFound):
        queue.move(job.number + 1, JobState.RUNNING)


def test_a_job_that_runs_is_not_forgotten(queue: SqlBatchQueue) -> None:
    [job] = queue.add([COUNT])
    queue.move(job.number, JobState.RUNNING, attempt=1)
    queue.use(job.number, 2.5)
    assert queue.all()[0].used_s == 2.5
    with pytest.raises(IllegalTransition, match="stop its guard first"):
        queue.forget(job.number)
    queue.move(job.number, JobState.PENDING)
    queue.forget(job.number)
    assert list(queue.all()) == []
    with pytest.raises(NotFound):
        queue.forget(job.number)
