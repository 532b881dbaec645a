"""What an optimizer is compared on: a space, the true value of each configuration, and how noisily it is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation, ObservationState


class Problem(Protocol):
    """A problem that can be measured as often as one likes."""

    @property
    def name(self) -> str:
        """Says all: problems of one name are the same problem."""

    @property
    def family(self) -> str:
        """Problems of one kind, for tables."""

    @property
    def space(self) -> SearchSpace:
        """Its default is the first point of every run."""

    def truth(self, configuration: Configuration) -> float | None:
        """Return the value without noise, above 0, to be minimised; None where the configuration fails."""

    def noise(self, configuration: Configuration) -> float:
        """Standard deviation of the logarithm of one measurement."""

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        """Group -> share of the value that it accounts for, as traces would tell; empty where nothing tells."""


def measured(
    problem: Problem,
    configuration: Configuration,
    rng: np.random.Generator,
    ask: int | None = None,
    *,
    guided: bool = False,
) -> Observation:
    """Return one measurement: log-normal about the truth, with the standard error that repetitions would have found.

    ``guided``: with the priors that traces would tell.
    """
    deviation = float(rng.standard_normal())  # drawn for failures too: what follows does not depend on them
    truth = problem.truth(configuration)
    if truth is None:
        return Observation(configuration, ObservationState.FAILED, ask=ask, reason="the configuration fails")
    noise = problem.noise(configuration)
    value = truth * math.exp(noise * deviation)
    priors = problem.priors(configuration) if guided else {}
    return Observation(configuration, ObservationState.COMPLETED, value, value * noise, ask, priors=priors)
