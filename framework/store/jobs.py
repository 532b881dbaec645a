"""The queue of studies: who is next, and who has what.

A worker takes a study and its lease in one transaction, so that no two have the same.  Owners take turns: the next job
is the one of the highest priority, among these of the owner with the fewest running, among these the oldest.

Of a stop and a resumption at the same time the one that is committed last holds: to put a study takes a stop back, and
a worker that ends looks, in the transaction in which it gives its job away, whether somebody asked for it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from framework.errors import IllegalTransition, NotFound
from framework.model import StudyState
from framework.model.job import Job, Stop
from framework.ports.clock import Clock
from framework.store.database import Database
from framework.store.leased import alive
from framework.store.schema import jobs, leases, studies


class SqlJobQueue:
    """JobQueue on SQLAlchemy Core."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, study: str, *, priority: int = 0, owner: str = "", resource: str = "") -> None:
        """Let a study wait for a worker; one that waits or runs already keeps its turn, and nobody wants it to stop.

        Raises NotFound, and IllegalTransition for one that is completed.
        """
        wanted = sa.select(studies.c.state).where(studies.c.id == study)
        with self._database.transaction() as connection:
            # Locked, so that two do not put the same; a lease may refer to it meanwhile.
            state = connection.execute(wanted.with_for_update(key_share=True)).scalar()
            if state is None:
                raise NotFound(f"no study {study!r}")
            if state == StudyState.COMPLETED.value:
                raise IllegalTransition(f"study {study} is completed")
            row = connection.execute(jobs.select().where(jobs.c.study == study).with_for_update()).first()
            if row is None:
                connection.execute(
                    jobs.insert().values(job_row(study, priority, owner, resource, self._clock.now_ns()))
                )
                return
            # Its worker may be about to give away a study that is paused or failed: then it is nobody's, and waits.
            ends = state in (StudyState.PAUSED.value, StudyState.FAILED.value)
            values = {"stop": "", "worker": "" if ends else row.worker}
            connection.execute(jobs.update().where(jobs.c.study == study).values(values))

    def take(self, worker: str, engine: str, seconds: float) -> Job | None:
        """The next job that this worker can do, leased to it; None where there is none.

        ``engine``: the one that the worker has, empty for none.  A job whose worker's lease ran out waits again, and
        may go to another engine.
        """
        now = self._clock.now_ns()
        with self._database.transaction() as connection:
            waiting = [_job(row) for row in connection.execute(jobs.select().order_by(jobs.c.study).with_for_update())]
            # After the jobs are locked: who waited for the lock sees the leases that were taken meanwhile.
            held = {row.study for row in connection.execute(leases.select().where(alive(now)))}
            busy = [job for job in waiting if job.study in held]
            taken = {job.resource for job in busy if job.resource}
            running = {owner: sum(job.owner == owner for job in busy) for owner in {job.owner for job in waiting}}
            free = [
                job
                for job in waiting
                if job.study not in held and (not job.resource or (engine and engine not in taken))
            ]
            if not free:
                return None
            job = min(free, key=lambda one: (-one.priority, running[one.owner], one.queued_ns, one.study))
            connection.execute(leases.delete().where(leases.c.study == job.study))
            row = {"study": job.study, "holder": worker, "expires_ns": now + int(seconds * 1e9)}
            connection.execute(leases.insert().values(row))
            job = replace(job, worker=worker, resource=engine if job.resource else "")
            values = {"worker": job.worker, "resource": job.resource}
            connection.execute(jobs.update().where(jobs.c.study == job.study).values(values))
        return job

    def done(self, study: str, worker: str | None = None) -> None:
        """The study no longer waits nor runs: it ended or failed.  ``worker``: only where this one still has it."""
        here = jobs.c.study == study
        with self._database.transaction() as connection:
            connection.execute(jobs.delete().where(here if worker is None else here & (jobs.c.worker == worker)))

    def stopped(self, study: str, worker: str) -> bool:
        """This worker paused the study: it leaves the queue where that is still wanted, else it waits again.

        Returns whether it left.  What another worker took over is that one's.
        """
        with self._database.transaction() as connection:
            row = connection.execute(jobs.select().where(jobs.c.study == study).with_for_update()).first()
            if row is None or row.worker not in ("", worker):
                return row is None
            here = jobs.c.study == study
            if row.stop:
                connection.execute(jobs.delete().where(here))
            else:
                connection.execute(jobs.update().where(here).values(worker=""))
            return bool(row.stop)

    def stop(self, study: str, how: Stop) -> Job:
        """Ask whoever has it to stop; one that only waits leaves the queue.  Raises NotFound for none of both."""
        with self._database.transaction() as connection:
            row = connection.execute(jobs.select().where(jobs.c.study == study).with_for_update()).first()
            if row is None:
                raise NotFound(f"study {study} neither waits nor runs")
            # One that was asked for again while its worker was ending may run still, or again, though nobody has it.
            runs = sa.select(leases.c.study).where(leases.c.study == study, alive(self._clock.now_ns()))
            if row.worker or connection.execute(runs).first() is not None:
                connection.execute(jobs.update().where(jobs.c.study == study).values(stop=how))
            else:
                connection.execute(jobs.delete().where(jobs.c.study == study))
            return _job(row)

    def stop_wanted(self, study: str) -> Stop:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(jobs.c.stop).where(jobs.c.study == study)).first()
        found: Stop = row.stop if row is not None else ""
        return found

    def set_progress(self, study: str, progress: Mapping[str, Any]) -> None:
        """What a worker is at, for whoever looks."""
        with self._database.transaction() as connection:
            connection.execute(jobs.update().where(jobs.c.study == study).values(progress=dict(progress)))

    def progress(self, study: str) -> Mapping[str, Any] | None:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(jobs.c.progress).where(jobs.c.study == study)).first()
        return row.progress if row is not None else None

    def jobs(self) -> Sequence[Job]:
        """All that wait or run, in the order in which they were put."""
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(jobs.select().order_by(jobs.c.queued_ns, jobs.c.study))]


def job_row(study: str, priority: int, owner: str, resource: str, queued_ns: int) -> dict[str, Any]:
    """A job that waits."""
    row = {"study": study, "priority": priority, "owner": owner, "resource": resource, "worker": "", "stop": ""}
    return row | {"queued_ns": queued_ns}


def _job(row: sa.Row[Any]) -> Job:
    return Job(row.study, row.priority, row.owner, row.resource, row.queued_ns, row.worker, row.stop)
