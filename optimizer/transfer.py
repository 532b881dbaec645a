"""Results of another study as observations of this one: of an edited space, of another day, of a similar application.

Levels differ from day to day and from machine to machine, ratios to the default less so (Abedi & Brecht, ICPE 2017):
what is carried over is the logarithm of the ratio, with an error that says that it was not measured here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.errors import InvalidValue, NotOfThisSpace
from optimizer.space import Configuration, SearchSpace, Value
from optimizer.trial import Observation, ObservationState

ELSEWHERE = 0.1  # standard deviation of a log ratio between two days, beside its own error


@dataclass(frozen=True)
class Known:
    """A configuration measured elsewhere: log(value / the default's value there), and the error of that."""

    values: Mapping[str, Value]
    log_ratio: float
    error: float = 0.0


def carried(space: SearchSpace, values: Mapping[str, Value], default_there: Mapping[str, Value]) -> Configuration:
    """Return the configuration of ``space`` that ``values`` stand for.

    What ``space`` does not have must stand at its default there, since that is what it does here; what only ``space``
    has stood at its default there.  Raises NotOfThisSpace.
    """
    for name, value in values.items():
        if name not in space and default_there.get(name) != value:
            raise NotOfThisSpace(f"{name} is not tuned here, and was not at its default")
    try:
        return space.validate({**space.default(), **{name: values[name] for name in space.names if name in values}})
    except InvalidValue as error:
        raise NotOfThisSpace(f"{error.parameter}: a value that is not allowed here") from error


def observed(configuration: Configuration, known: Known, default_value: float) -> Observation:
    """As an observation on the scale of a default that has this value here (above 0)."""
    value = default_value * math.exp(known.log_ratio)
    error = value * math.hypot(known.error, ELSEWHERE)
    return Observation(configuration, ObservationState.COMPLETED, value, error, reason="measured elsewhere")
