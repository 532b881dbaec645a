"""Where studies are kept."""

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
    """Studies, trials and measurements.  Every method is one transaction; raises StoreError's family."""

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
        """The newest first."""

    def delete(self, study: str) -> None: ...
    def set_state(self, study: str, state: StudyState, message: str = "") -> None: ...
    def set_best(self, study: str, trial: int) -> None: ...
    def set_decisions(self, study: str, decisions: StudyDecisions) -> None: ...
    def set_space(self, study: str, space: Mapping[str, Any], decisions: StudyDecisions) -> None:
        """Another search space, with the decisions that say since when, in one transaction."""

    def set_verdict(self, study: str, verdict: Verdict | None, rivals: Mapping[str, Verdict]) -> None: ...

    def begin_trial(self, trial: Trial) -> Trial:
        """Records a trial as RUNNING under the next number of its study, which the returned trial carries."""

    def begin_trials(self, wanted: Sequence[Trial], offered: Sequence[Offer] = ()) -> Sequence[Trial]:
        """As begin_trial, several of one study in one transaction.

        With ``offered``, one for each, they are measured elsewhere and offered from the beginning; their study has to
        run.  Raises IllegalTransition.
        """

    def add_measurement(self, study: str, trial: int, measurement: Measurement) -> None: ...

    def finish_trial(self, trial: Trial) -> Trial:
        """RUNNING -> COMPLETED | FAILED | INFEASIBLE | ABORTED, with value, reason, phases, images; no offer any more.

        Raises NotFound, IllegalTransition.
        """

    def finish_trials(
        self, wanted: Sequence[Trial], *, best: int | None = None, offered: bool = False
    ) -> Sequence[Trial]:
        """As finish_trial, several of one study in one transaction: all or none.

        ``best``: the number of the trial that is its study's best from now on.  ``offered``: they were measured
        elsewhere; their study has to run.
        """

    def annotate_trial(self, trial: Trial) -> None:
        """Records phases that end after a trial is finished (tell)."""

    def trials(self, study: str, states: Iterable[TrialState] | None = None) -> Sequence[Trial]: ...

    def trial_count(self, study: str) -> int:
        """The number of trials, those that run included."""

    def numbered(self, study: str, numbers: Sequence[int]) -> Sequence[Trial]:
        """The trials of these numbers that there are, in order, without their measurements."""

    def trial(self, study: str, number: int) -> Trial:
        """One trial with its measurements.  Raises NotFound."""

    def trial_page(
        self,
        study: str,
        after: int,
        limit: int,
        *,
        state: TrialState | None = None,
        purpose: Purpose | None = None,
    ) -> Sequence[Trial]:
        """In order from the one after this number, without their measurements."""

    def add_event(self, study: str, event: StoredEvent) -> int:
        """Records that something happened now; returns the id of the record."""

    def events(self, study: str, after: int = 0) -> Sequence[Mapping[str, Any]]:
        """In order, from the one after this id: id, at (ISO 8601), kind, and the keys of the payload."""

    def revision(self, study: str) -> tuple[int, int]:
        """(its last event's id, its last measurement's); what is computed of a study is good while this is the same."""

    def acquire(self, study: str, holder: str, seconds: float) -> bool:
        """Take or renew the lease on a study; False when another holder's lease is alive."""

    def release(self, study: str, holder: str) -> None: ...
    def leased(self) -> Sequence[tuple[str, str]]:
        """(study, holder) of every lease that has not run out."""

    def close(self) -> None: ...


class OfferStore(Protocol):
    """Trials that clients measure elsewhere."""

    def status(self, study: str) -> tuple[StudyState, bool]:
        """Return the study's state, and whether leases of its trials expired.  Raises NotFound."""

    def take_over(self, study: str, client: str, count: int, seconds: float) -> Sequence[int]:
        """Up to ``count`` trials whose leases ran out are this client's now; their numbers."""

    def renew(self, study: str, client: str, trials: Sequence[int], seconds: float) -> Sequence[int]: ...


class LaunchStore(Protocol):
    """New studies with their jobs and idempotency keys.  Every method is one transaction."""

    def made_by(self, key: IdempotencyKey) -> str | None:
        """The study that this key stands for, None where it is new.  Raises InputError after another request."""

    def launch(self, study: Study, job: Job | None, key: IdempotencyKey | None) -> str:
        """Record a study, and let it wait with ``job``; its id, or the id of what the key stands for already."""


class ArtefactStore(Protocol):
    """Large things by content hash: compose documents, mounted files, latency samples, traces."""

    def put(self, data: bytes) -> str: ...
    def get(self, digest: str) -> bytes: ...
    def remove_but(self, referred: Collection[str], before_ns: int) -> int:
        """Remove those that were last put before a time and are not ``referred`` to; returns how many."""


class StudyArchive(Protocol):
    """Whole studies: those that nobody works on any more, and those that come from elsewhere."""

    def restore(self, study: Study, trials: Sequence[Trial], events: Sequence[Mapping[str, Any]]) -> None:
        """Record a study as it was elsewhere, in one transaction.  Raises InputError where there is one of its id."""

    def idle_since(self, at: str) -> Sequence[str]:
        """Studies to which nothing happened after a time (ISO 8601, UTC), and that nobody runs."""

    def forget_samples(self, study: str) -> int:
        """Drop each request's latency and the traces; all that was computed stays.  Returns how many were dropped."""

    def referred(self) -> Collection[str]:
        """Digests of all artefacts that some study refers to."""
