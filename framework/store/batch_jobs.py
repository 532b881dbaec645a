"""The queue of best-effort jobs that a guard runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from framework.errors import IllegalTransition, NotFound
from framework.model.batch_job import ENDED, LIVE, BatchJob, JobSpec, JobState, check_transition
from framework.ports.clock import Clock
from framework.store.database import Database
from framework.store.schema import batch_jobs


class SqlBatchQueue:
    """BatchQueue on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, specs: Iterable[JobSpec]) -> Sequence[BatchJob]:
        """Queue jobs, in their order.  One whose name has an unfinished job is not queued again."""
        added = []
        with self._database.transaction() as connection:
            known = {job.spec.name: job for job in _read(connection) if job.state not in ENDED}
            for spec in specs:
                if spec.name not in known:
                    values = {
                        "name": spec.name,
                        "spec": asdict(spec),
                        "state": JobState.PENDING.value,
                        "attempt": 0,
                        "failures": 0,
                        "used_s": 0.0,
                        "useful_s": 0.0,
                        "wasted_s": 0.0,
                        "reason": "",
                        "queued_ns": self._clock.now_ns(),
                    }
                    key = connection.execute(batch_jobs.insert().values(values)).inserted_primary_key
                    assert key is not None  # the database numbers every row
                    known[spec.name] = BatchJob(int(key[0]), spec)
                added.append(known[spec.name])
        return added

    def all(self) -> Sequence[BatchJob]:
        with self._database.reading() as connection:
            return _read(connection)

    def move(self, number: int, state: JobState, **values: Any) -> BatchJob:
        with self._database.transaction() as connection:
            job = _one(connection, number)
            check_transition(job.spec.name, job.state, state)
            condition = batch_jobs.c.number == number
            connection.execute(batch_jobs.update().where(condition).values(state=state.value, **values))
            return _one(connection, number)

    def use(self, number: int, used_s: float) -> None:
        with self._database.transaction() as connection:
            connection.execute(batch_jobs.update().where(batch_jobs.c.number == number).values(used_s=used_s))

    def forget(self, number: int) -> None:
        with self._database.transaction() as connection:
            job = _one(connection, number)
            if job.state in LIVE:
                raise IllegalTransition(f"job {job.spec.name} is {job.state.value}; stop its guard first")
            connection.execute(batch_jobs.delete().where(batch_jobs.c.number == number))


def _read(connection: sa.Connection) -> list[BatchJob]:
    return [_job(row) for row in connection.execute(batch_jobs.select().order_by(batch_jobs.c.number))]


def _one(connection: sa.Connection, number: int) -> BatchJob:
    row = connection.execute(batch_jobs.select().where(batch_jobs.c.number == number).with_for_update()).first()
    if row is None:
        raise NotFound(f"no job {number}")
    return _job(row)


def _job(row: sa.Row[Any]) -> BatchJob:
    spec = JobSpec(**{**row.spec, "command": tuple(row.spec["command"])})
    return BatchJob(
        row.number, spec, JobState(row.state), row.attempt, row.failures, row.used_s, row.useful_s, row.wasted_s,
        row.reason,
    )  # fmt: skip
