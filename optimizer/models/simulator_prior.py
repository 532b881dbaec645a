"""Prior mean from a model of the application (the twin), known before any configuration is measured.

It counts as far as measurements agree with it: measured values are modelled as rho times the prior mean, and a process
for the rest (Kennedy & O'Hagan, Biometrika 87(1) (2000), equation 1 [KO00]).  rho is 1 where the model is right;
measurements that contradict it draw rho to 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from optimizer.errors import InvalidInput
from optimizer.models.additive import AdditiveProcess, Array, Layout
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.space import Configuration, SearchSpace

RHO_SPREAD = 0.5  # standard deviation of rho around what is expected, before anything is measured
LOG_ERROR = 0.02  # standard deviation of a modelled logarithm: the simulation's noise


class Modelled(NamedTuple):
    """A configuration and the logarithm of its predicted value over that of the default."""

    configuration: Configuration
    log_ratio: float


class PriorMean(Protocol):
    """Prediction of the logarithm of the value, up to a constant, before anything is measured.

    ``replaces_design``: whether its best configurations take the place of a start-up design; else they alternate with
    it.  ``expected_rho``: the factor that it has before anything is measured.
    """

    replaces_design: bool
    expected_rho: float

    def at(self, x: Array) -> Array:
        """Return the predicted logarithm at encoded configurations (m, columns), (m,)."""

    def best(self, count: int) -> list[Configuration]:
        """Return at most ``count`` feasible configurations that are predicted to be good, the best first."""


class SimulatorPrior:
    """An additive process through modelled points, on a logarithmic scale.

    Raises InvalidInput for fewer than 2 points or one that is not finite, InvalidValue for one of another space.
    """

    replaces_design = True
    expected_rho = 1.0

    def __init__(self, space: SearchSpace, points: Sequence[Modelled]) -> None:
        if len(points) < 2 or not all(math.isfinite(point.log_ratio) for point in points):
            raise InvalidInput("a simulator prior needs at least 2 modelled points with finite logarithms")
        self._encoder = Encoder(space)
        self.points = sorted(
            (Modelled(space.validate(point.configuration), point.log_ratio) for point in points),
            key=lambda point: (point.log_ratio, point.configuration.key()),
        )
        layout = Layout.of(space, self._encoder.columns, np.ones(len(space)))
        y = np.array([point.log_ratio for point in self.points])
        self._mean, self._spread = float(y.mean()), float(y.std()) or 1.0
        x = self._encoder.encode(self._encoder.units([point.configuration for point in self.points]))
        noise = np.full(len(y), (LOG_ERROR / self._spread) ** 2)
        with one_thread():
            self._process = AdditiveProcess(layout, x, (y - self._mean) / self._spread, noise)

    def at(self, x: Array) -> Array:
        """Return the predicted logarithm at encoded configurations (m, columns), (m,)."""
        mean, _ = self._process.predict(x)
        return self._mean + self._spread * mean

    def best(self, count: int) -> list[Configuration]:
        """Return the lowest modelled points, at most ``count``, that differ in more than a tenth of the parameters."""
        chosen: list[Configuration] = []
        for point in self.points:
            distance = min((_distance(point.configuration, other) for other in chosen), default=1.0)
            if distance > 0.1:
                chosen.append(point.configuration)
            if len(chosen) == count:
                break
        return chosen


def fitted_rho(predicted: Array, measured: Array, expected: float = 1.0) -> float:
    """Return rho [KO00] of measured logarithms (n,) over predicted ones (n,), from 0 to 1.5.

    It is found by least squares, drawn to ``expected``.  rho and the residual variance are estimated in turns.
    """
    g, y = predicted - predicted.mean(), measured - measured.mean()
    if len(g) < 2 or not np.any(g):
        return expected
    rho = expected
    for _ in range(10):
        residual = max(float(np.mean((y - rho * g) ** 2)), 1e-6)
        pull = residual / RHO_SPREAD**2
        rho = (float(g @ y) + pull * expected) / (float(g @ g) + pull)
    return float(np.clip(rho, 0.0, 1.5))


def _distance(first: Configuration, second: Configuration) -> float:
    """Return the fraction of the parameters in which two configurations differ."""
    return sum(first[name] != second[name] for name in first) / len(first)
