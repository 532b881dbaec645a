"""The additive process of a finished or running search, whichever optimizer made it.

``model_fit`` says how well it predicts; ``stopping`` asks it what another trial would gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.models.additive import AdditiveProcess, Layout
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.sampling import values_are_few
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

Array = NDArray[np.float64]

MIN_CONFIGURATIONS = 8  # with fewer there is no result
MOST_CONFIGURATIONS = 500  # with more there is none either: the time grows with the third power
HIGHEST = 2.5  # standard deviations above the mean: a disaster counts no more than a bad value


@dataclass(frozen=True)
class Fitted:
    """A process fitted to the mean value of each configuration.

    ``y`` (n,): logarithms where all values are above 0 (``log``), else the values.  The process knows them as
    (y - ``centre``) / ``spread``, at most 2.5; ``kept`` (n,): whether the configuration keeps the measured constraints.
    """

    space: SearchSpace
    encoder: Encoder
    configurations: tuple[Configuration, ...]
    y: Array
    scaled: Array
    kept: NDArray[np.bool_]
    centre: float
    spread: float
    log: bool
    layout: Layout
    process: AdditiveProcess
    known_noise: float  # mean of the known variances of the scaled values

    def value(self, scaled: Array) -> Array:
        """Return values in the objective's unit for values of the process."""
        y = self.centre + self.spread * scaled
        return np.exp(y) if self.log else y


def fitted(space: SearchSpace, observations: Sequence[Observation]) -> Fitted | None:
    """Fit the process; None where fewer than 8 or more than 500 configurations have values, or all are equal."""
    told: dict[Configuration, list[Observation]] = {}
    for observation in observations:
        if observation.value is not None:
            told.setdefault(observation.configuration, []).append(observation)
    if not MIN_CONFIGURATIONS <= len(told) <= MOST_CONFIGURATIONS:
        return None
    # In the order of their texts, so that the result does not depend on the order of the tells.
    configurations = tuple(sorted(told, key=lambda configuration: configuration.key()))
    values, variances = np.array([_mean_and_variance(told[configuration]) for configuration in configurations]).T
    log = bool((values > 0).all())
    y = np.log(values) if log else values
    variances = variances / values**2 if log else variances  # delta method
    spread = float(np.std(y))
    if spread <= 1e-12 * max(1.0, float(np.abs(y).max())):
        return None
    encoder = Encoder(space)
    scaled = np.minimum((y - float(np.mean(y))) / spread, HIGHEST)
    layout = Layout.of(space, encoder.columns, np.ones(len(space)), alone=values_are_few(space))
    with one_thread():
        x = encoder.encode(encoder.snap(encoder.units(configurations)))
        process = AdditiveProcess(layout, x, scaled, variances / spread**2)
    kept = np.array([all(o.keeps_limits for o in told[configuration]) for configuration in configurations])
    return Fitted(
        space, encoder, configurations, y, scaled, kept, float(np.mean(y)), spread, log, layout, process,
        float(np.mean(variances)) / spread**2,
    )  # fmt: skip


def _mean_and_variance(observations: Sequence[Observation]) -> tuple[float, float]:
    """Return the mean of a configuration's values, and the variance of its error."""
    values = [observation.value for observation in observations if observation.value is not None]
    errors = [(observation.standard_error or 0.0) ** 2 for observation in observations]
    return math.fsum(values) / len(values), math.fsum(errors) / len(values) ** 2
