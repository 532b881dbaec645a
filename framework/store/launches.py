"""A launch: the study, its job and the idempotency key of the request that made it, written together or not at all.

Whoever sends a request again, because no answer came or because of a second click, gets the study of the first one.
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

KEPT_NS = 24 * 3600 * 10**9  # a request that is repeated later is another request


class SqlLaunches:
    """LaunchStore on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def made_by(self, key: IdempotencyKey) -> str | None:
        """The study that this key stands for, None where it is new.  Raises InputError after another request."""
        with self._database.reading() as connection:
            return _study_of(connection, key, self._clock.now_ns())

    def launch(self, study: Study, job: Job | None, key: IdempotencyKey | None) -> str:
        """Record a study, and let it wait with ``job``; returns its id, or the id of the study that the key stands for
        already, and then nothing is written.  Raises InputError where the key came with another request.
        """
        now = self._clock.now_ns()
        with self._database.transaction() as connection:
            if key is not None:
                connection.execute(keys.delete().where(keys.c.created_ns < now - KEPT_NS))
                insert = sqlite.insert(keys) if self._database.is_sqlite else postgresql.insert(keys)
                row = {"owner": key.owner, "key": key.key, "request": key.request, "study": study.id, "created_ns": now}
                # Another transaction with this key is waited for; what it wrote is seen by the next statement.
                connection.execute(insert.values(row).on_conflict_do_nothing())
                first = _study_of(connection, key, now)
                if first is not None and first != study.id:
                    return first
            insert_study(connection, study, now)
            if job is not None:
                connection.execute(jobs.insert().values(job_row(study.id, job.priority, job.owner, job.resource, now)))
        return study.id


def _study_of(connection: sa.Connection, key: IdempotencyKey, now_ns: int) -> str | None:
    here = (keys.c.owner == key.owner) & (keys.c.key == key.key) & (keys.c.created_ns >= now_ns - KEPT_NS)
    row = connection.execute(keys.select().where(here)).first()
    if row is None:
        return None
    if row.request != key.request:
        raise InputError("this idempotency key came with another request before; allowed: a new key for a new request")
    return str(row.study)
