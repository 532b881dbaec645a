"""Import and retention of whole studies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from framework.errors import InputError
from framework.model import Study, StudyState, Trial
from framework.ports.store import ArtefactStore
from framework.store.database import Database
from framework.store.rows import keep_latencies, measurement_row, study_row, trial_row
from framework.store.schema import events, jobs, leases, measurements, studies, trials


class SqlArchive:
    """StudyArchive on SQLAlchemy Core."""

    def __init__(self, database: Database, artefacts: ArtefactStore) -> None:
        self._database = database
        self._artefacts = artefacts

    def restore(self, study: Study, trials_: Sequence[Trial], events_: Sequence[Mapping[str, Any]]) -> None:
        """Record an imported study, in one transaction.  Raises InputError where there is a study of its id."""
        measurement_rows = [
            measurement_row(study.id, trial.number, measurement, keep_latencies(self._artefacts, measurement))
            for trial in trials_
            for measurement in trial.measurements
        ]
        event_rows = [
            {
                "study": study.id,
                "at": event["at"],
                "kind": event["kind"],
                "data": {name: value for name, value in event.items() if name not in ("id", "at", "kind")},
            }
            for event in events_
        ]
        with self._database.transaction() as connection:
            if connection.execute(sa.select(studies.c.id).where(studies.c.id == study.id)).first() is not None:
                raise InputError(f"study {study.id} is here already; delete it first to import it again")
            connection.execute(studies.insert().values(study_row(study)))
            trial_rows = [trial_row(trial) for trial in trials_]
            for table, rows in ((trials, trial_rows), (measurements, measurement_rows), (events, event_rows)):
                if rows:
                    connection.execute(table.insert(), rows)

    def idle_since(self, at: str) -> Sequence[str]:
        """Return idle studies: without an event since a time (ISO 8601, UTC), neither running nor queued."""
        last = (
            sa.select(sa.func.max(events.c.at))
            .where(events.c.study == studies.c.id)
            .correlate(studies)
            .scalar_subquery()
        )
        busy = sa.union(sa.select(leases.c.study), sa.select(jobs.c.study))
        wanted = sa.select(studies.c.id).where(
            studies.c.state != StudyState.RUNNING.value,
            studies.c.created_at < at,
            sa.func.coalesce(last, "") < at,
            studies.c.id.not_in(busy),
        )
        with self._database.reading() as connection:
            return list(connection.execute(wanted.order_by(studies.c.id)).scalars())

    def forget_samples(self, study: str) -> int:
        """Drop latency samples and traces, and keep all computed results; return the number of dropped artefacts."""
        dropped = 0
        with self._database.transaction() as connection:
            for row in connection.execute(measurements.select().where(measurements.c.study == study)).all():
                spans = row.document.get("spans", "")
                dropped += bool(row.latencies) + bool(spans)
                if row.latencies or spans:
                    values = {"latencies": "", "document": {**row.document, "spans": ""}}
                    connection.execute(measurements.update().where(measurements.c.id == row.id).values(values))
        return dropped

    def referred(self) -> Collection[str]:
        """Return the digests of all artefacts that any study refers to."""
        spans = measurements.c.document["spans"].as_string()
        with self._database.reading() as connection:
            digests = set(connection.execute(sa.select(measurements.c.latencies).distinct()).scalars())
            digests |= set(connection.execute(sa.select(spans).distinct()).scalars())
            digests |= set(connection.execute(sa.select(trials.c.documents).distinct()).scalars())
        return {digest for digest in digests if digest}
