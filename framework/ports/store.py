"""Stores of studies, of external trials, of launches and of artefacts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from framework.model import (
    Measurement,
    Offer,
    Purpose,
    Study,
    StudyState,
    Trial,
    TrialState,
    Verdict,
)
from framework.model.decisions import StudyDecisions
from framework.model.events import StoredEvent
from framework.model.job import IdempotencyKey, Job


class StudyStore(Protocol):
    """Studies, trials and measurements.  Every method is one transaction, and raises StoreError and its subclasses."""

    def create(self, study: Study) -> None: ...
    def get(self, study: str) -> Study: ...
    def studies(self) -> Sequence[Study]: ...
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
        """Return at most ``limit`` studies, the newest first, from the one that follows ``before`` (an id)."""

    def delete(self, study: str) -> None: ...
    def set_state(self, study: str, state: StudyState, message: str = "") -> None: ...
    def set_best(self, study: str, trial: int) -> None: ...
    def set_decisions(self, study: str, decisions: StudyDecisions) -> None: ...
    def set_space(self, study: str, space: Mapping[str, Any], decisions: StudyDecisions) -> None:
        """Replace the search space, and the decisions, which hold the edit."""

    def set_verdict(self, study: str, verdict: Verdict | None, rivals: Mapping[str, Verdict]) -> None: ...

    def begin_trial(self, trial: Trial) -> Trial:
        """Record a trial as RUNNING; return it with its number, the next one of its study."""

    def begin_trials(self, wanted: Sequence[Trial], offered: Sequence[Offer] = ()) -> Sequence[Trial]:
        """Record several trials of one study as RUNNING, in one transaction.

        ``offered``: a lease for each trial of an external study, which has to run.  Raises IllegalTransition.
        """

    def add_measurement(self, study: str, trial: int, measurement: Measurement) -> None: ...

    def finish_trial(self, trial: Trial) -> Trial:
        """Record RUNNING -> COMPLETED | FAILED | INFEASIBLE | ABORTED with all fields of the trial; end its offer.

        Raises NotFound, IllegalTransition.
        """

    def finish_trials(
        self, wanted: Sequence[Trial], *, best: int | None = None, offered: bool = False
    ) -> Sequence[Trial]:
        """Finish several trials of one study in one transaction: all or none.

        ``best``: the number of the study's new best trial.  ``offered``: the trials belong to an external study, which
        has to run.  Raises NotFound, IllegalTransition.
        """

    def annotate_trial(self, trial: Trial) -> None:
        """Record the phases of a finished trial again, for those that end later (tell).  Raises NotFound."""

    def trials(self, study: str, states: Iterable[TrialState] | None = None) -> Sequence[Trial]: ...

    def trial_count(self, study: str) -> int:
        """Return the number of trials, running ones included."""

    def numbered(self, study: str, numbers: Sequence[int]) -> Sequence[Trial]:
        """Return the existing trials of these numbers, in order, without their measurements."""

    def trial(self, study: str, number: int) -> Trial:
        """Return one trial with its measurements.  Raises NotFound."""

    def trial_page(
        self,
        study: str,
        after: int,
        limit: int,
        *,
        state: TrialState | None = None,
        purpose: Purpose | None = None,
    ) -> Sequence[Trial]:
        """Return at most ``limit`` trials in order, from the one after this number, without their measurements."""

    def add_event(self, study: str, event: StoredEvent) -> int:
        """Record an event with the current time; return the id of the record."""

    def events(self, study: str, after: int = 0) -> Sequence[Mapping[str, Any]]:
        """Return events in order, from the one after this id: id, at (ISO 8601), kind, and the keys of the payload."""

    def revision(self, study: str) -> tuple[int, int]:
        """Return (id of the last event, id of the last measurement); results cached for a revision are valid for it."""

    def acquire(self, study: str, holder: str, seconds: float) -> bool:
        """Take or renew the lease on a study; return False where another holder's lease has not expired."""

    def release(self, study: str, holder: str) -> None: ...

    def leased(self) -> Sequence[tuple[str, str]]:
        """Return (study, holder) of every lease that has not expired."""

    def close(self) -> None: ...


class OfferStore(Protocol):
    """Trials of external studies, leased to the clients that measure them."""

    def status(self, study: str) -> tuple[StudyState, bool]:
        """Return the study's state, and whether leases of its trials expired.  Raises NotFound."""

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        """Lease up to ``count`` trials with expired leases to this client; return their numbers."""

    def renew(self, study: str, client: str, trials: Sequence[int], seconds: float) -> Sequence[int]:
        """Renew the leases that this client still has on these trials; return their numbers."""


class LaunchStore(Protocol):
    """New studies with their jobs and idempotency keys.  Every method is one transaction."""

    def made_by(self, key: IdempotencyKey) -> str | None:
        """Return the study of a known key, None for a new one.  Raises InputError where the requests differ."""

    def launch(self, study: Study, job: Job | None, key: IdempotencyKey | None) -> str:
        """Record a study and queue its ``job``; return its id, or the id of the study that a known key stands for."""


class ArtefactStore(Protocol):
    """Large objects by content hash: compose documents, mounted files, latency samples, traces."""

    def put(self, data: bytes) -> str: ...
    def get(self, digest: str) -> bytes: ...

    def remove_but(self, referred: Collection[str], before_ns: int) -> int:
        """Remove artefacts that were last put before a time and are not ``referred`` to; return how many."""


class StudyArchive(Protocol):
    """Import and retention of whole studies."""

    def restore(self, study: Study, trials: Sequence[Trial], events: Sequence[Mapping[str, Any]]) -> None:
        """Record an imported study, in one transaction.  Raises InputError where there is a study of its id."""

    def idle_since(self, at: str) -> Sequence[str]:
        """Return idle studies: without an event since a time (ISO 8601, UTC), neither running nor queued."""

    def forget_samples(self, study: str) -> int:
        """Drop latency samples and traces, and keep all computed results; return the number of dropped artefacts."""

    def referred(self) -> Collection[str]:
        """Return the digests of all artefacts that any study refers to."""
