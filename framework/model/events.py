"""Events of a study: its steps report them while it runs, and the store keeps some of them.

A new event needs a dataclass here that ``Event`` names, a producer that passes it to ``watch``, and a ``case`` where it
is shown; the type checker and a test name a progress display that does not handle it yet.

Subclasses of ``StoredEvent`` are stored, whether or not they are watched too.  Exports and the API's event stream
contain them, so that their kinds and the keys of their payloads are public and do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from framework.model.decisions import ModelledPoint, Reduction, SearchEnd, SmallRecommendation
from framework.model.measurement import Measurement
from framework.model.study import Purpose, Step, StudyState, Sweep, Trial
from optimizer.space import Value

PLAN_CHANGED = "plan changed"
"""The kind of all decisions; ``why`` in the payload tells them apart."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """Base of the events that the store keeps.  ``kind``: its name in the store, at most 32 characters."""

    kind: ClassVar[str]

    def payload(self) -> Mapping[str, Any]:
        """Return key -> value, which the store encodes as JSON: by default, every field."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


# ---------------------------------------------------------------------- a study


@dataclass(frozen=True, slots=True)
class StateChanged(StoredEvent):
    """The state of a study changed; ``message`` gives the reason, if there is one."""

    kind = "state"
    state: StudyState
    message: str


@dataclass(frozen=True, slots=True)
class NotesGiven(StoredEvent):
    """Notes of the testbed on how a study differs from the user's own deployment."""

    kind = "notes"
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WarmupLengthened(StoredEvent):
    """The warm-up became longer, because the default settles later than the plan's warm-up ends."""

    kind = PLAN_CHANGED
    warmup_s: float

    def payload(self) -> Mapping[str, Any]:
        return {"why": "warm-up", "warmup_s": self.warmup_s}


@dataclass(frozen=True, slots=True)
class RequestsPrepared(StoredEvent):
    """The first repetition was prepared by the workload's requests, in so many parts, as all others will be."""

    kind = "requests prepared"
    parts: int


@dataclass(frozen=True, slots=True)
class BudgetFrozen(StoredEvent):
    """The time limit became a number of configurations."""

    kind = PLAN_CHANGED
    iterations: int

    def payload(self) -> Mapping[str, Any]:
        return {"why": "time limit", "iterations": self.iterations}


@dataclass(frozen=True, slots=True)
class SearchStopped(StoredEvent):
    """The search stopped by itself: another trial is expected to gain too little."""

    kind = PLAN_CHANGED
    end: SearchEnd

    def payload(self) -> Mapping[str, Any]:
        end = self.end
        return {"why": "gain", "trials": end.trials, "gain": end.gain, "noise": end.noise}


@dataclass(frozen=True, slots=True)
class GainExpected:
    """The model of the search says what another trial would gain.  ``noise``: of the comparison that would show it."""

    gain: float
    noise: float


@dataclass(frozen=True, slots=True)
class SpaceReduced(StoredEvent):
    """The search space was reduced to services that the default's traces point at."""

    kind = PLAN_CHANGED
    reduction: Reduction

    def payload(self) -> Mapping[str, Any]:
        """Return the reason alone: the study's decisions hold the reduction, which is long."""
        return {"why": "reduction"}


@dataclass(frozen=True, slots=True)
class PriorComputed(StoredEvent):
    """The twin predicted values of configurations in the search space."""

    kind = PLAN_CHANGED
    points: tuple[ModelledPoint, ...]

    def payload(self) -> Mapping[str, Any]:
        """Return the reason alone, as for a reduction."""
        return {"why": "prior"}


@dataclass(frozen=True, slots=True)
class SmallerFound(StoredEvent):
    """Configurations that change less than the best will be compared with it."""

    kind = PLAN_CHANGED
    configurations: tuple[Mapping[str, Value], ...]

    def payload(self) -> Mapping[str, Any]:
        """Return the reason alone, as for a reduction."""
        return {"why": "minimal"}


@dataclass(frozen=True, slots=True)
class SmallRecommended(StoredEvent):
    """A few changes will be compared with all that the search made."""

    kind = PLAN_CHANGED
    recommendation: SmallRecommendation

    def payload(self) -> Mapping[str, Any]:
        """Return the reason alone, as for a reduction."""
        return {"why": "small"}


@dataclass(frozen=True, slots=True)
class SpaceEdited(StoredEvent):
    """The search space was edited.  ``after``: the last trial of the old one; ``parameters``: number in the new one."""

    kind = "space edited"
    after: int
    parameters: int


@dataclass(frozen=True, slots=True)
class ReplayDiverged(StoredEvent):
    """The replayed optimizer suggested another configuration than ``trial`` (a number) has."""

    kind = "replay diverged"
    trial: int


@dataclass(frozen=True, slots=True)
class TestbedLost(StoredEvent):
    """One of several testbeds stays unavailable; the study goes on with the others."""

    __test__ = False  # pytest collects classes of such names
    kind = "testbed lost"
    testbed: str
    reason: str


@dataclass(frozen=True, slots=True)
class DatasetStepStarted:
    """A step before the first trial began: code is compiled, data is copied or seeded."""

    step: str


@dataclass(frozen=True, slots=True)
class TwinAsked:
    """The twin computed ``done`` of ``total`` configurations."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """The study waits before it tries again."""

    reason: str
    wait_s: float


# ---------------------------------------------------------------------- a trial


@dataclass(frozen=True, slots=True)
class TrialStarted(StoredEvent):
    """A trial is recorded as running."""

    kind = "trial begins"
    number: int
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class TrialFinished(StoredEvent):
    """A trial ended, with or without a value."""

    kind = "trial ends"
    trial: Trial

    def payload(self) -> Mapping[str, Any]:
        """Return the trial in short; its row in the store has the rest."""
        trial = self.trial
        return {
            "number": trial.number,
            "purpose": trial.purpose,
            "state": trial.state,
            "value": trial.value,
            "reason": trial.reason,
        }


@dataclass(frozen=True, slots=True)
class RepetitionFinished:
    """One repetition of a trial was measured; its measurement says whether it is valid."""

    trial_number: int
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase began: of a repetition (render, deploy, load, ...), or of the study between two trials (ask, tell)."""

    phase: str


@dataclass(frozen=True, slots=True)
class PhaseStepStarted:
    """A step within a phase began."""

    phase: str
    step: str


@dataclass(frozen=True, slots=True)
class OnTestbed:
    """An event of a trial that runs beside others: on ``testbed``, as the study names it."""

    testbed: str
    event: Event


# ---------------------------------------------------------------------- a sweep


@dataclass(frozen=True, slots=True)
class RateMeasured:
    """The default configuration was measured at one rate of a sweep."""

    step: Step


@dataclass(frozen=True, slots=True)
class SweepFinished(StoredEvent):
    """A sweep ended with these steps and this statement."""

    kind = "sweep"
    sweep: Sweep


# ---------------------------------------------------------------------- a profile


@dataclass(frozen=True, slots=True)
class ProfileStepStarted:
    """A step of a profile outside its windows began."""

    step: str


@dataclass(frozen=True, slots=True)
class ProfileWindowStarted:
    """Window ``number`` (from 1) of ``planned`` began.  ``neighbour``: the stressor or the service on the same CPUs as
    the measured service; empty for none.
    """

    number: int
    planned: int
    service: str
    neighbour: str


Event = (
    NotesGiven
    | WarmupLengthened
    | BudgetFrozen
    | SearchStopped
    | GainExpected
    | SpaceReduced
    | PriorComputed
    | SmallRecommended
    | SmallerFound
    | DatasetStepStarted
    | TwinAsked
    | WaitStarted
    | TrialStarted
    | TrialFinished
    | RepetitionFinished
    | PhaseStarted
    | PhaseStepStarted
    | OnTestbed
    | TestbedLost
    | RateMeasured
    | ProfileStepStarted
    | ProfileWindowStarted
)
"""An event that ``Watch`` receives while it happens."""
