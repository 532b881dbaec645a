"""Studies, trials and measurements in a SQL database.

Every method is one transaction.  A finished trial is on disk when ``finish_trial`` returns, so that killing the
process at any moment loses no finished trial; a lease says which process works on a study.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from framework.errors import IllegalTransition, NotFound
from framework.model import Measurement, Offer, Purpose, Study, StudyState, Trial, TrialState, Verdict
from framework.model.decisions import StudyDecisions
from framework.model.documents import encode
from framework.model.events import StateChanged, StoredEvent, TrialFinished, TrialStarted
from framework.ports.clock import Clock
from framework.ports.store import ArtefactStore
from framework.store import statements
from framework.store.database import Database, one_or_many
from framework.store.leased import alive
from framework.store.rows import (
    keep_latencies,
    measurement_of,
    measurement_row,
    study_of,
    study_row,
    trial_of,
    trial_row,
)
from framework.store.schema import events, jobs, leases, measurements, offers, studies, trials

# Legal transitions; all others are refused.
STUDY_TRANSITIONS: Mapping[StudyState, frozenset[StudyState]] = {
    StudyState.CREATED: frozenset({StudyState.RUNNING, StudyState.FAILED}),
    StudyState.RUNNING: frozenset({StudyState.PAUSED, StudyState.COMPLETED, StudyState.FAILED, StudyState.RUNNING}),
    StudyState.PAUSED: frozenset({StudyState.RUNNING, StudyState.FAILED}),
    StudyState.COMPLETED: frozenset({StudyState.RUNNING}),  # a study may be extended
    StudyState.FAILED: frozenset({StudyState.RUNNING}),
}


def allowed_transition(old: TrialState | StudyState, new: TrialState | StudyState) -> bool:
    """Return whether ``new`` may follow ``old``; this function alone knows the life cycles."""
    if isinstance(old, StudyState):
        return new in STUDY_TRANSITIONS[old]
    return old is TrialState.RUNNING and new is not TrialState.RUNNING


class SqlStudyStore:
    """StudyStore on SQLAlchemy Core."""

    def __init__(self, database: Database, artefacts: ArtefactStore, clock: Clock) -> None:
        self._database = database
        self._transaction = database.transaction
        self._artefacts = artefacts
        self._clock = clock

    def close(self) -> None:
        self._database.close()

    # ------------------------------------------------------------------ studies

    def create(self, study: Study) -> None:
        with self._transaction() as connection:
            insert_study(connection, study, self._clock.now_ns())

    def get(self, study: str) -> Study:
        """Return the study of this id, or of this unique beginning of an id.  Raises NotFound."""
        if not study.isprintable():  # PostgreSQL takes no NUL
            raise NotFound(f"no study {study!r}")
        with self._database.single_read() as connection:
            rows = connection.execute(studies.select().where(studies.c.id.startswith(study, autoescape=True))).all()
        exact = [row for row in rows if row.id == study]
        if len(exact or rows) != 1:
            problem = "no study" if not rows else f"{len(rows)} studies begin with"
            raise NotFound(f"{problem} {study!r}; `tailor studies` lists them")
        return study_of((exact or rows)[0])

    def studies(self) -> Sequence[Study]:
        with self._database.single_read() as connection:
            return [study_of(row) for row in connection.execute(studies.select().order_by(studies.c.created_at))]

    def page(
        self,
        limit: int,
        *,
        before: str = "",
        state: StudyState | None = None,
        application: str | None = None,
        optimizer: str | None = None,
        testbed: str | None = None,
    ) -> Sequence[Study]:
        """Return studies, the newest first, from the one after ``before``; ids begin with the time of creation."""
        wanted: list[sa.ColumnElement[bool]] = []
        if before:
            wanted.append(studies.c.id < before)
        if state is not None:
            wanted.append(studies.c.state == state.value)
        if testbed is not None:
            wanted.append(studies.c.testbed == testbed)
        if optimizer is not None:
            wanted.append(studies.c.plan["optimizer"].as_string() == optimizer)
        if application is not None:
            named = studies.c.plan["application"].as_string()  # a directory, or the name of an external study
            wanted.append(sa.or_(named == application, named.endswith(f"/{application}", autoescape=True)))
        with self._database.single_read() as connection:
            rows = connection.execute(studies.select().where(*wanted).order_by(studies.c.id.desc()).limit(limit))
            return [study_of(row) for row in rows]

    def delete(self, study: str) -> None:
        """Remove a study with all that belongs to it.  Raises NotFound."""
        with self._transaction() as connection:
            # Locked before its job, as in the queue; key_share, because a lease may refer to the study meanwhile.
            connection.execute(sa.select(studies.c.id).where(studies.c.id == study).with_for_update(key_share=True))
            for table in (measurements, trials, events, leases, jobs, offers):  # children first
                connection.execute(table.delete().where(table.c.study == study))
            if connection.execute(studies.delete().where(studies.c.id == study)).rowcount != 1:
                raise NotFound(f"no study {study!r}")

    def set_state(self, study: str, state: StudyState, message: str = "") -> None:
        with self._transaction() as connection:
            row = connection.execute(sa.select(studies.c.state).where(studies.c.id == study).with_for_update()).first()
            if row is None:
                raise NotFound(f"no study {study!r}")
            if not allowed_transition(StudyState(row.state), state):
                raise IllegalTransition(f"study {study}: {row.state} -> {state.value}")
            connection.execute(studies.update().where(studies.c.id == study).values(state=state.value, message=message))
            self._note(connection, study, StateChanged(state, message))

    def set_decisions(self, study: str, decisions: StudyDecisions) -> None:
        self._update(study, decisions=encode(decisions))

    def set_space(self, study: str, space: Mapping[str, Any], decisions: StudyDecisions) -> None:
        self._update(study, space=dict(space), decisions=encode(decisions))

    def set_best(self, study: str, trial: int) -> None:
        self._update(study, best=trial)

    def set_verdict(self, study: str, verdict: Verdict | None, rivals: Mapping[str, Verdict]) -> None:
        self._update(study, verdict=encode(verdict), rivals=encode(rivals))

    # ------------------------------------------------------------------ trials

    def begin_trial(self, trial: Trial) -> Trial:
        [begun] = self.begin_trials([trial])
        return begun

    def begin_trials(self, wanted: Sequence[Trial], offered: Sequence[Offer] = ()) -> Sequence[Trial]:
        study = wanted[0].study
        with self._transaction() as connection:
            state = connection.execute(statements.TURN, {"its_study": study}).scalar()
            if offered:
                _expect_running(study, state)
            last = connection.execute(statements.LAST, {"its_study": study}).scalar()
            now = self._now()
            begun = [
                replace(trial, number=number, state=TrialState.RUNNING, started_at=now)
                for number, trial in enumerate(wanted, start=(last or 0) + 1)
            ]
            with self._database.pipelined_commit(connection):
                connection.execute(statements.inserting(trials), one_or_many([trial_row(trial) for trial in begun]))
                if offered:
                    rows = [
                        {"study": study, "trial": trial.number, "client": offer.client, "expires_ns": offer.expires_ns}
                        for trial, offer in zip(begun, offered, strict=True)
                    ]
                    connection.execute(statements.inserting(offers), one_or_many(rows))
                self._note(connection, study, *(TrialStarted(trial.number, trial.purpose) for trial in begun))
        return begun

    def add_measurement(self, study: str, trial: int, measurement: Measurement) -> None:
        row = measurement_row(study, trial, measurement, keep_latencies(self._artefacts, measurement))
        with self._transaction() as connection:
            connection.execute(measurements.insert().values(row))

    def finish_trial(self, trial: Trial) -> Trial:
        [finished] = self.finish_trials([trial])
        return finished

    def finish_trials(
        self, wanted: Sequence[Trial], *, best: int | None = None, offered: bool = False
    ) -> Sequence[Trial]:
        study, numbers = wanted[0].study, [trial.number for trial in wanted]
        parameters = {"its_study": study, "its_numbers": numbers}
        with self._transaction() as connection:
            recorded = connection.execute(statements.STATES, parameters).all()
            states = {row.number: TrialState(row.state) for row in recorded}
            if offered and recorded:
                _expect_running(study, recorded[0].study_state)
            for trial in wanted:
                if trial.number not in states:
                    raise NotFound(f"study {study} has no trial {trial.number}")
                if not allowed_transition(states[trial.number], trial.state):
                    transition = f"{states[trial.number].value} -> {trial.state.value}"
                    raise IllegalTransition(f"trial {trial.number} of {study}: {transition}")
            now = self._now()
            finished = [replace(trial, finished_at=now) for trial in wanted]
            rows = [trial_row(trial) | {"its_study": study, "its_number": trial.number} for trial in finished]
            with self._database.pipelined_commit(connection):
                connection.execute(statements.TRIAL_ENDS, one_or_many(rows))
                connection.execute(statements.OFFERS_END, parameters)
                if best is not None:
                    connection.execute(statements.STUDY_CHANGES, {"its_study": study, "best": best})
                self._note(connection, study, *map(TrialFinished, finished))
        return finished

    def annotate_trial(self, trial: Trial) -> None:
        values = {"phases": encode(trial.phases)}
        with self._transaction() as connection:
            condition = (trials.c.study == trial.study) & (trials.c.number == trial.number)
            if connection.execute(trials.update().where(condition).values(**values)).rowcount != 1:
                raise NotFound(f"study {trial.study} has no trial {trial.number}")

    def trials(self, study: str, states: Iterable[TrialState] | None = None) -> Sequence[Trial]:
        wanted = trials.c.study == study
        if states is not None:
            wanted &= trials.c.state.in_([state.value for state in states])
        with self._database.reading() as connection:
            rows = connection.execute(trials.select().where(wanted).order_by(trials.c.number)).all()
            measured = connection.execute(
                measurements.select().where(measurements.c.study == study).order_by(measurements.c.id)
            ).all()
        by_trial: dict[int, list[Measurement]] = {}
        for row in measured:
            by_trial.setdefault(row.trial, []).append(measurement_of(row, self._artefacts))
        return [trial_of(row, tuple(by_trial.get(row.number, ()))) for row in rows]

    def trial_count(self, study: str) -> int:
        """Return the number of trials, running ones included."""
        count = sa.select(sa.func.count()).select_from(trials).where(trials.c.study == study)
        with self._database.single_read() as connection:
            return int(connection.execute(count).scalar_one())

    def numbered(self, study: str, numbers: Sequence[int]) -> Sequence[Trial]:
        """Return the existing trials of these numbers, in order, without their measurements."""
        parameters = {"its_study": study, "its_numbers": list(numbers)}
        with self._database.single_read() as connection:
            return [trial_of(row) for row in connection.execute(statements.NUMBERED, parameters)]

    def trial(self, study: str, number: int) -> Trial:
        """Return one trial with its measurements.  Raises NotFound."""
        condition = (measurements.c.study == study) & (measurements.c.trial == number)
        with self._database.reading() as connection:
            row = connection.execute(
                trials.select().where((trials.c.study == study) & (trials.c.number == number))
            ).first()
            measured = connection.execute(measurements.select().where(condition).order_by(measurements.c.id)).all()
        if row is None:
            raise NotFound(f"study {study} has no trial {number}")
        return trial_of(row, tuple(measurement_of(measurement, self._artefacts) for measurement in measured))

    def trial_page(
        self,
        study: str,
        after: int,
        limit: int,
        *,
        state: TrialState | None = None,
        purpose: Purpose | None = None,
    ) -> Sequence[Trial]:
        """Return trials in order, from the one after this number, without their measurements."""
        wanted = (trials.c.study == study) & (trials.c.number > after)
        if state is not None:
            wanted &= trials.c.state == state.value
        if purpose is not None:
            wanted &= trials.c.purpose == purpose
        with self._database.single_read() as connection:
            rows = connection.execute(trials.select().where(wanted).order_by(trials.c.number).limit(limit))
            return [trial_of(row) for row in rows]

    # ------------------------------------------------------------------ events and leases

    def add_event(self, study: str, event: StoredEvent) -> int:
        row = self._event(study, event)
        with self._transaction() as connection:
            [number] = connection.execute(events.insert().values(row)).inserted_primary_key or (0,)
        return int(number)

    def _note(self, connection: sa.Connection, study: str, *happened: StoredEvent) -> None:
        """Record events in the transaction of the change that they describe."""
        rows = [self._event(study, event) for event in happened]
        connection.execute(statements.inserting(events), one_or_many(rows))

    def _event(self, study: str, event: StoredEvent) -> dict[str, Any]:
        return event_row(study, self._clock.now_ns(), event)

    def events(self, study: str, after: int = 0) -> Sequence[Mapping[str, Any]]:
        wanted = (events.c.study == study) & (events.c.id > after)
        with self._database.single_read() as connection:
            rows = connection.execute(events.select().where(wanted).order_by(events.c.id))
            return [{"id": row.id, "at": row.at, "kind": row.kind, **row.data} for row in rows]

    def revision(self, study: str) -> tuple[int, int]:
        with self._database.single_read() as connection:
            last = connection.execute(statements.REVISION, {"its_study": study}).one()
        return last[0] or 0, last[1] or 0

    def acquire(self, study: str, holder: str, seconds: float) -> bool:
        now = self._clock.now_ns()
        expires = now + int(seconds * 1e9)
        with self._transaction() as connection:
            connection.execute(statements.TURN, {"its_study": study})
            row = connection.execute(leases.select().where(leases.c.study == study, alive(now))).first()
            if row is not None and row.holder != holder:
                return False
            connection.execute(leases.delete().where(leases.c.study == study))
            connection.execute(leases.insert().values(study=study, holder=holder, expires_ns=expires))
        return True

    def release(self, study: str, holder: str) -> None:
        with self._transaction() as connection:
            connection.execute(leases.delete().where((leases.c.study == study) & (leases.c.holder == holder)))

    def leased(self) -> Sequence[tuple[str, str]]:
        """Return (study, holder) of every lease that has not expired."""
        with self._database.single_read() as connection:
            rows = connection.execute(leases.select().where(alive(self._clock.now_ns())))
            return [(row.study, row.holder) for row in rows]

    # ------------------------------------------------------------------ helpers

    def _update(self, study: str, **values: Any) -> None:
        with self._transaction() as connection:
            if connection.execute(statements.STUDY_CHANGES, {"its_study": study, **values}).rowcount != 1:
                raise NotFound(f"no study {study!r}")

    def _now(self) -> str:
        return _time(self._clock.now_ns())


def insert_study(connection: sa.Connection, study: Study, now_ns: int) -> None:
    """Insert a new study in a transaction, with an event of its state where it is not CREATED."""
    connection.execute(studies.insert().values(study_row(study)))
    if study.state is not StudyState.CREATED:
        changed = StateChanged(study.state, study.message)
        connection.execute(statements.inserting(events), event_row(study.id, now_ns, changed))


def event_row(study: str, now_ns: int, event: StoredEvent) -> dict[str, Any]:
    """Return the row of an event at a time [ns since 1970]."""
    return {"study": study, "at": _time(now_ns), "kind": event.kind, "data": encode(event.payload())}


def _time(now_ns: int) -> str:
    return datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _expect_running(study: str, state: str | None) -> None:
    """Raise IllegalTransition where a study does not run."""
    if state != StudyState.RUNNING.value:
        raise IllegalTransition(f"study {study} is {state}")
