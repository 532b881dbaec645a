"""Data that an optimizer exchanges with its caller: suggestions out, observations in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from optimizer.errors import InvalidObservation
from optimizer.space import Configuration


@dataclass(frozen=True)
class Suggestion:
    """A configuration to try.  ``ask`` counts the asks of a study from 0; ``note`` says why this one, in a phrase."""

    ask: int
    configuration: Configuration
    note: str = ""


class ObservationState(StrEnum):
    """Why a trial has a value or has none.

    completed: it has one.  failed: the configuration could not be run or lost data.  infeasible: it ran and broke a
    limit.  aborted: it was interrupted, which says nothing about the configuration.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    INFEASIBLE = "infeasible"
    ABORTED = "aborted"


@dataclass(frozen=True)
class Observation:
    """The result of a trial, as the optimizer is told it.

    ``value`` (minimised) and its ``standard_error`` are in the objective's unit; only a completed trial has them.
    ``ask`` is the suggestion's number, None for results without a suggestion (the default configuration, imports).
    ``constraints``: name -> (measured quantity - limit) / limit, at most 0 where the limit holds.  ``others``: further
    objectives, minimised too, with the same names in every observation of a study.  ``priors``: group of parameters
    -> weight from 0, from the trial's traces (a service's share of the critical path); the search looks more where it
    is large.  ``costs``: group -> cost of the trial there (a service's CPU time per request), above 0.
    Raises InvalidObservation.
    """

    configuration: Configuration
    state: ObservationState
    value: float | None = None
    standard_error: float | None = None
    ask: int | None = None
    constraints: Mapping[str, float] = field(default_factory=dict, hash=False)
    reason: str = ""
    priors: Mapping[str, float] = field(default_factory=dict, hash=False)
    others: Mapping[str, float] = field(default_factory=dict, hash=False)
    costs: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "state", ObservationState(self.state))
        except ValueError as error:
            known = ", ".join(ObservationState)
            raise InvalidObservation(f"no such state {self.state!r}; known: {known}") from error
        for measured in ("constraints", "others"):
            numbers = {name: float(number) for name, number in getattr(self, measured).items()}
            for name, number in numbers.items():
                if not math.isfinite(number):
                    raise InvalidObservation(f"{measured} are finite, found {number!r} for {name!r}")
            object.__setattr__(self, measured, numbers)
        object.__setattr__(self, "priors", dict(self.priors))
        object.__setattr__(self, "costs", dict(self.costs))
        for group, cost in self.costs.items():
            if not (math.isfinite(cost) and cost > 0):
                raise InvalidObservation(f"a cost is finite and above 0, found {cost!r} for {group!r}")
        for group, weight in self.priors.items():
            if not (math.isfinite(weight) and weight >= 0):
                raise InvalidObservation(f"a prior is finite and not negative, found {weight!r} for {group!r}")
        if self.state is ObservationState.COMPLETED:
            if self.value is None or not math.isfinite(self.value):
                raise InvalidObservation(f"a completed trial needs a finite value, found {self.value!r}")
            object.__setattr__(self, "value", float(self.value))
        elif self.value is not None or self.standard_error is not None or self.others:
            raise InvalidObservation(f"a trial that is {self.state.value} has no value, found {self.value!r}")
        if self.standard_error is not None:
            if not (math.isfinite(self.standard_error) and self.standard_error >= 0):
                raise InvalidObservation(f"a standard error is finite and not negative, found {self.standard_error!r}")
            object.__setattr__(self, "standard_error", float(self.standard_error))
        if self.ask is not None and self.ask < 0:
            raise InvalidObservation(f"asks count from 0, found {self.ask!r}")

    @property
    def keeps_limits(self) -> bool:
        """Whether every measured constraint holds."""
        return all(number <= 0 for number in self.constraints.values())
