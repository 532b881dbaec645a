"""Launches: a study, its job and the idempotency key of its request, written in one transaction.

A request that is sent again, after a lost answer or by a second click, returns the study of the first request.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from framework.errors import InputError
from framework.model import Study
from framework.model.job import IdempotencyKey, Job
from framework.ports.clock import Clock
from framework.store.database import Database
from framework.store.jobs import job_row
from framework.store.schema import jobs, keys
from framework.store.studies import insert_study

KEPT_NS = 24 * 3600 * 10**9  # a request that is repeated later counts as a new one


class SqlLaunches:
    """LaunchStore on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def made_by(self, key: IdempotencyKey) -> str | None:
        """Return the study of a known key, None for a new one.  Raises InputError where the requests differ."""
        with self._database.reading() as connection:
            return _study_of(connection, key, self._clock.now_ns())

    def launch(self, study: Study, job: Job | None, key: IdempotencyKey | None) -> str:
        """Record a study and queue its ``job``; return its id.

        Where the key is known, write nothing and return the id of the study that it stands for.  Raises InputError
        where the key came with another request before.
        """
        now = self._clock.now_ns()
        with self._database.transaction() as connection:
            if key is not None:
                connection.execute(keys.delete().where(keys.c.created_ns < now - KEPT_NS))
                insert = sqlite.insert(keys) if self._database.is_sqlite else postgresql.insert(keys)
                row = {"owner": key.owner, "key": key.key, "request": key.request, "study": study.id, "created_ns": now}
                # This waits for another transaction with the same key; the next statement sees what it wrote.
                connection.execute(insert.values(row).on_conflict_do_nothing())
                first = _study_of(connection, key, now)
                if first is not None and first != study.id:
                    return first
            insert_study(connection, study, now)
            if job is not None:
                connection.execute(jobs.insert().values(job_row(study.id, job.priority, job.owner, job.resource, now)))
        return study.id


def _study_of(connection: sa.Connection, key: IdempotencyKey, now_ns: int) -> str | None:
    condition = (keys.c.owner == key.owner) & (keys.c.key == key.key) & (keys.c.created_ns >= now_ns - KEPT_NS)
    row = connection.execute(keys.select().where(condition)).first()
    if row is None:
        return None
    if row.request != key.request:
        raise InputError("this idempotency key came with another request before; allowed: a new key for a new request")
    return str(row.study)
