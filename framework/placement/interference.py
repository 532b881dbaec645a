"""Interference of services, from windows beside stressors: sensitivity (suffered) and pressure (inflicted).

Two models of the same measurements:

* the thesis's score (Sfakiotakis, NTUA 2023): the mean loss over intensities weighted to the strongest, and over
  stressors weighted by the damage they do;
* ours: the log of the slowdown is taken to be sensitivity times pressure, summed over resources, where a pressure of
  one is one thread of the stressor working all the time.  A service's own pressure is the intensity of the stressor
  beside which a probe loses as much as beside the service (Mars et al., Bubble-Up, MICRO 2011).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss of a service beside a stressor.  ``intensity``: threads times duty, above 0.  ``ratio``: the measured
    quantity over the one without the stressor, above 1 where the service suffers (latency; 1/IPC).
    """

    service: str
    stressor: str
    intensity: float
    ratio: float


def thesis_scores(losses: Sequence[Loss]) -> Mapping[str, Mapping[str, float]]:
    """Return service -> stressor -> score, and under the empty name the service's overall score; 0.2 is a loss of 20 %.

    A stressor's damage is its mean score over the services; a stressor that harms no service does not count.  Raises
    InputError where a service was not measured beside each stressor.
    """
    services, stressors = sorted({loss.service for loss in losses}), sorted({loss.stressor for loss in losses})
    table: dict[str, dict[str, float]] = {}
    for service in services:
        table[service] = {}
        for stressor in stressors:
            pair = [loss for loss in losses if loss.service == service and loss.stressor == stressor]
            if not pair:
                raise InputError(f"{service} was not measured beside {stressor}")
            weights = [loss.intensity for loss in pair]
            table[service][stressor] = float(np.average([loss.ratio - 1 for loss in pair], weights=weights))
    damage = {stressor: max(0.0, float(np.mean([row[stressor] for row in table.values()]))) for stressor in stressors}
    total = sum(damage.values())
    for row in table.values():
        row[""] = sum(damage[stressor] * row[stressor] for stressor in stressors) / total if total > 0 else 0.0
    return table


def sensitivities(losses: Sequence[Loss]) -> Mapping[str, Mapping[str, float]]:
    """Return service -> stressor -> sensitivity: the slope of the log ratio over the intensity, at least 0.

    Least squares through the origin, over the windows of that pair.
    """
    slopes: dict[str, dict[str, float]] = {}
    for service in sorted({loss.service for loss in losses}):
        for stressor in sorted({loss.stressor for loss in losses if loss.service == service}):
            pairs = [(o.intensity, math.log(o.ratio)) for o in losses if (o.service, o.stressor) == (service, stressor)]
            slope = sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs)
            slopes.setdefault(service, {})[stressor] = max(0.0, slope)
    return slopes


def pressure_of(loss: float, known: Mapping[float, float]) -> float:
    """Return the intensity of a stressor beside which a probe loses as much as beside a service.

    ``loss``: share of the probe's throughput that is lost beside the service.  ``known``: intensity -> loss beside the
    stressor itself; the running maximum makes losses rise with the intensity.  Linear between the points and from the
    origin; proportional to the strongest point beyond it.  Raises InputError where ``known`` is empty.
    """
    points = sorted((intensity, lost) for intensity, lost in known.items() if intensity > 0)
    if not points:
        raise InputError("the probe was not measured beside its own stressor")
    intensities = np.array([0.0, *(intensity for intensity, _ in points)])
    losses = np.maximum.accumulate(np.array([0.0, *(max(0.0, lost) for _, lost in points)]))
    if loss <= 0 or losses[-1] <= 0:
        return 0.0
    if loss >= losses[-1]:
        return float(intensities[-1] * loss / losses[-1])
    # Where losses are equal, the smallest intensity that explains the loss counts.
    above = int(np.argmax(losses >= loss))
    low, high = losses[above - 1], losses[above]
    share = (loss - low) / (high - low)
    return float(intensities[above - 1] + share * (intensities[above] - intensities[above - 1]))


@dataclass(frozen=True)
class Interference:
    """Interference model of n services: (n, r) sensitivities and pressures over the same r resources.

    ``weights``: (r,), factor of each resource's product; 1 where nothing was fitted.
    """

    services: tuple[str, ...]
    resources: tuple[str, ...]
    sensitivity: NDArray[np.float64]
    pressure: NDArray[np.float64]
    weights: NDArray[np.float64]

    def slowdown(self, service: str, neighbours: Sequence[str]) -> float:
        """Predict the ratio of a service's latency beside other services to its latency alone."""
        row = self.services.index(service)
        pressure = sum((self.pressure[self.services.index(name)] for name in neighbours), np.zeros(len(self.resources)))
        return float(np.exp(np.sum(self.weights * self.sensitivity[row] * pressure)))


def fitted(
    interference: Interference, pairs: Sequence[tuple[str, str, float]]
) -> tuple[Interference, NDArray[np.float64]]:
    """Fit one common weight for all resources to measured pairs (service, neighbour, ratio of latencies).

    Return the fitted model and the relative error of each pair's predicted ratio when that pair is left out of the
    fit, (pairs,).  Least squares of the log ratio through the origin.  Raises InputError with fewer than two pairs.
    """
    if len(pairs) < 2:
        raise InputError(f"{len(pairs)} measured pairs; allowed: at least 2, so that one can be left out")
    plain = Interference(
        interference.services,
        interference.resources,
        interference.sensitivity,
        interference.pressure,
        np.ones(len(interference.resources)),
    )
    x = np.array([math.log(plain.slowdown(service, [neighbour])) for service, neighbour, _ in pairs])
    y = np.array([math.log(ratio) for _, _, ratio in pairs])
    xy, xx = x * y, x * x

    def weight(numerator: float, denominator: float) -> float:
        return max(0.0, numerator / denominator) if denominator > 0 else 1.0

    left_out = np.array([weight(xy.sum() - a, xx.sum() - b) for a, b in zip(xy, xx, strict=True)])
    errors = np.exp(left_out * x - y) - 1
    common = weight(float(xy.sum()), float(xx.sum()))
    return (
        Interference(plain.services, plain.resources, plain.sensitivity, plain.pressure, common * plain.weights),
        errors,
    )
