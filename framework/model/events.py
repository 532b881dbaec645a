"""Events of a study: what its steps report while it runs, and what the store keeps of them.

A new event is a dataclass here that ``Event`` names, a producer that passes it to ``watch``, and a ``case`` where it is
shown: the type checker and a test name the progress display that does not handle it yet.

Some events are stored, whether or not they are watched too: the subclasses of ``StoredEvent``.  Exports and the API's
event stream contain them, so that their kinds and the keys of their payloads are public and do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from framework.model.decisions import ModelledPoint, Reduction
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
        """Key -> value, which the store encodes as JSON: by default, every field."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


# ---------------------------------------------------------------------- a study


@dataclass(frozen=True, slots=True)
class StateChanged(StoredEvent):
    """A study is in another state; ``message`` says why, where there is a reason."""

    kind = "state"
    state: StudyState
    message: str


@dataclass(frozen=True, slots=True)
class NotesGiven(StoredEvent):
    """The testbed told what it does otherwise than the user's deployment does."""

    kind = "notes"
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WarmupLengthened(StoredEvent):
    """The default was found to settle later than the plan's warm-up ends."""

    kind = PLAN_CHANGED
    warmup_s: float

    def payload(self) -> Mapping[str, Any]:
        return {"why": "warm-up", "warmup_s": self.warmup_s}


@dataclass(frozen=True, slots=True)
class BudgetFrozen(StoredEvent):
    """The time limit became a number of configurations."""

    kind = PLAN_CHANGED
    iterations: int

    def payload(self) -> Mapping[str, Any]:
        return {"why": "time limit", "iterations": self.iterations}


@dataclass(frozen=True, slots=True)
class SpaceReduced(StoredEvent):
    """The traces of the default say which services are tuned."""

    kind = PLAN_CHANGED
    reduction: Reduction

    def payload(self) -> Mapping[str, Any]:
        """The reason alone: the study's decisions hold the reduction, which is long."""
        return {"why": "reduction"}


@dataclass(frozen=True, slots=True)
class PriorComputed(StoredEvent):
    """The twin said what it predicts for the search space."""

    kind = PLAN_CHANGED
    points: tuple[ModelledPoint, ...]

    def payload(self) -> Mapping[str, Any]:
        """The reason alone, as for a reduction."""
        return {"why": "prior"}


@dataclass(frozen=True, slots=True)
class SmallerFound(StoredEvent):
    """Configurations that change less than the best will be compared with it."""

    kind = PLAN_CHANGED
    configurations: tuple[Mapping[str, Value], ...]

    def payload(self) -> Mapping[str, Any]:
        """The reason alone, as for a reduction."""
        return {"why": "minimal"}


@dataclass(frozen=True, slots=True)
class SpaceEdited(StoredEvent):
    """Somebody edited the search space.  ``after``: number of the last trial in the old one; ``parameters``: how many
    the new one has.
    """

    kind = "space edited"
    after: int
    parameters: int


@dataclass(frozen=True, slots=True)
class ReplayDiverged(StoredEvent):
    """The optimizer, replayed, suggested another configuration than the one of this trial (number)."""

    kind = "replay diverged"
    trial: int


@dataclass(frozen=True, slots=True)
class DatasetStepStarted:
    """A step before the first trial: code is compiled, data is copied or seeded."""

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
        """The trial in short; the whole of it is a row of its own."""
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
    """One repetition of a trial was measured; whether it counts, its measurement says."""

    trial_number: int
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase of a repetition (render, deploy, load, ...), or of the study between two trials (ask, tell)."""

    phase: str


@dataclass(frozen=True, slots=True)
class PhaseStepStarted:
    """A step within a phase."""

    phase: str
    step: str


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
    """A step of a profile outside its windows."""

    step: str


@dataclass(frozen=True, slots=True)
class ProfileWindowStarted:
    """Window ``number`` (from 1) of ``planned``.  ``beside``: the stressor or the service that runs beside the measured
    service; empty where that is alone.
    """

    number: int
    planned: int
    service: str
    beside: str


Event = (
    NotesGiven
    | WarmupLengthened
    | BudgetFrozen
    | SpaceReduced
    | PriorComputed
    | SmallerFound
    | DatasetStepStarted
    | TwinAsked
    | WaitStarted
    | TrialStarted
    | TrialFinished
    | RepetitionFinished
    | PhaseStarted
    | PhaseStepStarted
    | RateMeasured
    | ProfileStepStarted
    | ProfileWindowStarted
)
"""An event that is watched while it happens."""
