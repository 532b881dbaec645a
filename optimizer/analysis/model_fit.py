"""Fit of the model: each configuration's value, predicted from the values of all others.

Leave-one-out predictions in closed form (Rasmussen & Williams 2006, section 5.4.2), with the hyperparameters of all
values.  The interval of the rank correlation: Bonett & Wright, Psychometrika 65 (2000).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.analysis.fitted import Fitted
from optimizer.space import Configuration

Array = NDArray[np.float64]

NORMAL_975 = 1.959963984540054  # the quantile 0.975 of the normal distribution


@dataclass(frozen=True)
class LeftOut:
    """A measured value, and its prediction from the others with the 95 % interval of a measurement, in its unit."""

    configuration: Configuration
    measured: float
    predicted: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelFit:
    """Fit of the additive process to a search.

    ``correlation``: Spearman's, of predicted and measured values, with its 95 % interval ``low`` to ``high``.
    By chance it lies below 0, because the mean of the values that are left lies on the other side.
    ``density``: mean logarithm of the predictive density of a measured value; ``constant_density``: that of a normal
    distribution with mean and deviation of all values.  Their difference does not depend on the unit.
    """

    points: tuple[LeftOut, ...]
    correlation: float
    low: float
    high: float
    density: float
    constant_density: float

    @property
    def orders(self) -> bool:
        """Whether the model orders configurations better than chance: by their ranks, and by their densities.

        Both, because the hyperparameters know the point that is left out, which flatters the ranks of a few noisy ones.
        """
        return self.low > 0 and self.density > self.constant_density


def model_fit(model: Fitted) -> ModelFit:
    """Return the fit of a process to its own values.  Values beyond 2.5 deviations count as that, for both models."""
    predicted, deviation = model.process.left_out()
    y = model.scaled
    correlation, low, high = rank_correlation(predicted, y)
    middle, below, above = (
        model.value(predicted + side * NORMAL_975 * deviation).tolist() for side in (0.0, -1.0, 1.0)
    )
    measured = (np.exp(model.y) if model.log else model.y).tolist()
    rows = zip(model.configurations, measured, middle, below, above, strict=True)
    return ModelFit(
        points=tuple(LeftOut(*row) for row in rows),
        correlation=correlation,
        low=low,
        high=high,
        density=float(np.mean(_log_density(y, predicted, deviation))),
        constant_density=float(np.mean(_log_density(y, np.mean(y), np.std(y)))),
    )


def rank_correlation(predicted: Array, measured: Array) -> tuple[float, float, float]:
    """Return Spearman's correlation of two (n,) with its 95 % interval; 0 where all predictions are equal.

    ``n``: at least 4.
    """
    from scipy.stats import spearmanr

    count = len(measured)
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        correlation = 0.0
    else:
        correlation = float(spearmanr(predicted, measured).statistic)
    z = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, correlation)))
    half = NORMAL_975 * math.sqrt((1 + 0.5 * correlation**2) / (count - 3))
    return correlation, min(correlation, math.tanh(z - half)), max(correlation, math.tanh(z + half))


def _log_density(y: Array, mean: Array | np.floating[Any], deviation: Array | np.floating[Any]) -> Array:
    return np.asarray(-0.5 * ((y - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * math.log(2 * math.pi))
