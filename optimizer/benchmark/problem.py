"""The interface of benchmark problems: a space, the true value of each configuration, and the noise."""

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
        """A unique name: problems of one name are the same problem."""

    @property
    def family(self) -> str:
        """The name of its kind, for tables."""

    @property
    def space(self) -> SearchSpace:
        """The space to search; its default is the first point of every run."""

    def truth(self, configuration: Configuration) -> float | None:
        """Return the value without noise, above 0, to be minimised; None where the configuration fails."""

    def noise(self, configuration: Configuration) -> float:
        """Return the standard deviation of the logarithm of one measurement."""

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        """Return each group's share of the value, as traces would show it; empty where unknown."""


def measured(
    problem: Problem,
    configuration: Configuration,
    rng: np.random.Generator,
    ask: int | None = None,
    *,
    guided: bool = False,
) -> Observation:
    """Measure once: log-normal about the truth, with the standard error that repetitions would estimate.

    ``guided``: with the priors that traces would show.
    """
    deviation = float(rng.standard_normal())  # drawn for failures too: later draws do not depend on them
    truth = problem.truth(configuration)
    if truth is None:
        return Observation(configuration, ObservationState.FAILED, ask=ask, reason="the configuration fails")
    noise = problem.noise(configuration)
    value = truth * math.exp(noise * deviation)
    priors = problem.priors(configuration) if guided else {}
    return Observation(configuration, ObservationState.COMPLETED, value, value * noise, ask, priors=priors)
