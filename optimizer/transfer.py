"""Results of another study as observations of this one: an edited space, another day, a similar application.

Levels differ from day to day and from machine to machine, ratios to the default less so (Abedi & Brecht, ICPE 2017):
the logarithm of the ratio is carried over, with a larger error because it was not measured here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.errors import InvalidValue, NotOfThisSpace
from optimizer.space import Configuration, SearchSpace, Value
from optimizer.trial import Observation, ObservationState

ELSEWHERE = 0.1  # standard deviation of a log ratio between two days, added to its own error


@dataclass(frozen=True)
class Known:
    """A configuration measured in another study: log(value / the default's value there), and its standard error."""

    values: Mapping[str, Value]
    log_ratio: float
    error: float = 0.0


def carried(space: SearchSpace, values: Mapping[str, Value], default_there: Mapping[str, Value]) -> Configuration:
    """Return the configuration of ``space`` that ``values`` stand for.

    Parameters that ``space`` lacks must be at ``default_there``, the default of the other study, since they are at it
    here.  Parameters that only ``space`` has get their default, or what follows.  Raises NotOfThisSpace.
    """
    known = space.default()
    for name, value in values.items():
        if name not in known and default_there.get(name) != value:
            raise NotOfThisSpace(f"{name} is not tuned here, and was not at its default")
    try:
        return space.from_default({name: value for name, value in values.items() if name in known})
    except InvalidValue as error:
        raise NotOfThisSpace(f"{error.parameter}: a value that is not allowed here") from error


def observed(configuration: Configuration, known: Known, default_value: float) -> Observation:
    """Return a known result as an observation; ``default_value`` (above 0) is the default's value in this study."""
    value = default_value * math.exp(known.log_ratio)
    error = value * math.hypot(known.error, ELSEWHERE)
    return Observation(configuration, ObservationState.COMPLETED, value, error, reason="measured elsewhere")
