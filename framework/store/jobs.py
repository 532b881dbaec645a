"""The job queue: studies that wait for workers, and those that workers have.

A worker takes a study and its lease in one transaction, so that no two workers have the same study.  Owners take turns:
the next job has the highest priority, among these an owner with the fewest running jobs, among these the longest wait.

Where a stop and a resumption come at the same time, the last commit wins: ``put`` cancels a stop, and a worker that
ends checks, in the transaction in which it gives its job away, whether the study was queued again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
        """Queue a study; one that waits or runs already keeps its turn, and its stop is cancelled.

        Raises NotFound, and IllegalTransition for a completed study.
        """
        wanted = sa.select(studies.c.state).where(studies.c.id == study)
        with self._database.transaction() as connection:
            # Locked, so that two transactions do not queue one study; key_share: a lease may refer to it meanwhile.
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
            # The worker of a paused or failed study may be about to give it away: then it has no worker, and waits.
            ends = state in (StudyState.PAUSED.value, StudyState.FAILED.value)
            values = {"stop": "", "worker": "" if ends else row.worker}
            connection.execute(jobs.update().where(jobs.c.study == study).values(values))

    def take(self, worker: str, engine: str, seconds: float, able: Collection[str] | None = None) -> Job | None:
        """Lease the next job that this worker can do to it, for ``seconds``, and return it; None where there is none.

        ``engine``: the worker's engine, empty for none.  ``able``: the only studies that the worker can run.  A job
        whose worker's lease expired waits again, and may go to another engine.
        """
        now = self._clock.now_ns()
        with self._database.transaction() as connection:
            waiting = [_job(row) for row in connection.execute(jobs.select().order_by(jobs.c.study).with_for_update())]
            # Read after the jobs are locked: a worker that waited for the lock sees the leases taken meanwhile.
            leased = {row.study for row in connection.execute(leases.select().where(alive(now)))}
            busy = [job for job in waiting if job.study in leased]
            taken = {job.resource for job in busy if job.resource}
            running = {owner: sum(job.owner == owner for job in busy) for owner in {job.owner for job in waiting}}
            free = [
                job
                for job in waiting
                if job.study not in leased
                and (able is None or job.study in able)
                and (not job.resource or (engine and engine not in taken))
            ]
            if not free:
                return None
            job = min(free, key=lambda job: (-job.priority, running[job.owner], job.queued_ns, job.study))
            connection.execute(leases.delete().where(leases.c.study == job.study))
            row = {"study": job.study, "holder": worker, "expires_ns": now + int(seconds * 1e9)}
            connection.execute(leases.insert().values(row))
            job = replace(job, worker=worker, resource=engine if job.resource else "")
            values = {"worker": job.worker, "resource": job.resource}
            connection.execute(jobs.update().where(jobs.c.study == job.study).values(values))
        return job

    def done(self, study: str, worker: str | None = None) -> None:
        """Remove a study that ended or failed from the queue.  ``worker``: only if this worker still has it."""
        condition = jobs.c.study == study
        with self._database.transaction() as connection:
            connection.execute(
                jobs.delete().where(condition if worker is None else condition & (jobs.c.worker == worker))
            )

    def stopped(self, study: str, worker: str) -> bool:
        """Remove a study that this worker paused; queue it again if the stop was cancelled meanwhile.

        Return whether the study is out of the queue.  A study that another worker took over is left alone.
        """
        with self._database.transaction() as connection:
            row = connection.execute(jobs.select().where(jobs.c.study == study).with_for_update()).first()
            if row is None or row.worker not in ("", worker):
                return row is None
            condition = jobs.c.study == study
            if row.stop:
                connection.execute(jobs.delete().where(condition))
            else:
                connection.execute(jobs.update().where(condition).values(worker=""))
            return bool(row.stop)

    def stop(self, study: str, how: Stop) -> Job:
        """Ask a study's worker to stop; remove a study that only waits.  Raises NotFound for a study without a job."""
        with self._database.transaction() as connection:
            row = connection.execute(jobs.select().where(jobs.c.study == study).with_for_update()).first()
            if row is None:
                raise NotFound(f"study {study} neither waits nor runs")
            # A study that was queued again while its worker was ending may run although it has no worker here.
            runs = sa.select(leases.c.study).where(leases.c.study == study, alive(self._clock.now_ns()))
            if row.worker or connection.execute(runs).first() is not None:
                connection.execute(jobs.update().where(jobs.c.study == study).values(stop=how))
            else:
                connection.execute(jobs.delete().where(jobs.c.study == study))
            return _job(row)

    def stop_wanted(self, study: str) -> Stop:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(jobs.c.stop).where(jobs.c.study == study)).first()
        stop: Stop = row.stop if row is not None else ""
        return stop

    def set_progress(self, study: str, progress: Mapping[str, Any]) -> None:
        """Record a worker's progress, for readers."""
        with self._database.transaction() as connection:
            connection.execute(jobs.update().where(jobs.c.study == study).values(progress=dict(progress)))

    def progress(self, study: str) -> Mapping[str, Any] | None:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(jobs.c.progress).where(jobs.c.study == study)).first()
        return row.progress if row is not None else None

    def jobs(self) -> Sequence[Job]:
        """Return all jobs that wait or run, in the order in which they were queued."""
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(jobs.select().order_by(jobs.c.queued_ns, jobs.c.study))]


def job_row(study: str, priority: int, owner: str, resource: str, queued_ns: int) -> dict[str, Any]:
    """Return the row of a waiting job."""
    row = {"study": study, "priority": priority, "owner": owner, "resource": resource, "worker": "", "stop": ""}
    return row | {"queued_ns": queued_ns}


def _job(row: sa.Row[Any]) -> Job:
    return Job(row.study, row.priority, row.owner, row.resource, row.queued_ns, row.worker, row.stop)
