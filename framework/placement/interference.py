"""From windows beside stressors to numbers: what a service suffers from (sensitivity) and what it inflicts (pressure).

Two readings of the same measurements:

* the thesis's score (Sfakiotakis, NTUA 2023): the mean loss over intensities weighted to the strongest, and over
  stressors weighted by the damage they do;
* ours: the log of the slowdown is taken to be sensitivity times pressure, summed over resources, where a pressure of
  one is one thread of the stressor working all the time.  A service's own pressure is that of the stressor beside which
  a probe loses as much as beside the service (Mars et al., Bubble-Up, MICRO 2011).
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
    """What a service lost beside a stressor.  ``intensity``: threads times duty, above 0.  ``ratio``: of the measured
    quantity to that without the stressor, above 1 where the service suffers (latency; 1/IPC).
    """

    service: str
    stressor: str
    intensity: float
    ratio: float


def thesis_scores(losses: Sequence[Loss]) -> Mapping[str, Mapping[str, float]]:
    """Service -> stressor -> score, and under the empty name the service's own; 0.2 is a loss of 20 %.

    A stressor's damage is its mean score over the services; one that harms nobody does not count.  Raises InputError
    where a service was not measured beside each stressor.
    """
    services, stressors = sorted({one.service for one in losses}), sorted({one.stressor for one in losses})
    table: dict[str, dict[str, float]] = {}
    for service in services:
        table[service] = {}
        for stressor in stressors:
            found = [one for one in losses if one.service == service and one.stressor == stressor]
            if not found:
                raise InputError(f"{service} was not measured beside {stressor}")
            weights = [one.intensity for one in found]
            table[service][stressor] = float(np.average([one.ratio - 1 for one in found], weights=weights))
    damage = {stressor: max(0.0, float(np.mean([table[one][stressor] for one in services]))) for stressor in stressors}
    total = sum(damage.values())
    for row in table.values():
        row[""] = sum(damage[one] * row[one] for one in stressors) / total if total > 0 else 0.0
    return table


def sensitivities(losses: Sequence[Loss]) -> Mapping[str, Mapping[str, float]]:
    """Service -> stressor -> sensitivity: the slope of the log ratio over the intensity, through the origin, from 0.

    Least squares over the windows of that pair.
    """
    found: dict[str, dict[str, float]] = {}
    for service in sorted({one.service for one in losses}):
        for stressor in sorted({one.stressor for one in losses if one.service == service}):
            pairs = [(o.intensity, math.log(o.ratio)) for o in losses if (o.service, o.stressor) == (service, stressor)]
            slope = sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs)
            found.setdefault(service, {})[stressor] = max(0.0, slope)
    return found


def pressure_of(loss: float, known: Mapping[float, float]) -> float:
    """The intensity of a stressor beside which a probe loses as much as beside a service.

    ``loss``: share of the probe's throughput that is lost beside the service.  ``known``: intensity -> loss beside the
    stressor itself; losses are made to rise with the intensity (their running maximum).  Linear between the points and
    from the origin; beyond the strongest point its slope goes on.  Raises InputError where nothing is known.
    """
    points = sorted((intensity, loss) for intensity, loss in known.items() if intensity > 0)
    if not points:
        raise InputError("the probe was not measured beside its own stressor")
    intensities = np.array([0.0, *(one for one, _ in points)])
    losses = np.maximum.accumulate(np.array([0.0, *(max(0.0, one) for _, one in points)]))
    if loss <= 0 or losses[-1] <= 0:
        return 0.0
    if loss >= losses[-1]:
        return float(intensities[-1] * loss / losses[-1])
    # Where losses stand still, the smallest intensity that explains the loss counts.
    above = int(np.argmax(losses >= loss))
    low, high = losses[above - 1], losses[above]
    share = (loss - low) / (high - low)
    return float(intensities[above - 1] + share * (intensities[above] - intensities[above - 1]))


@dataclass(frozen=True)
class Interference:
    """What services do to each other: (n, r) sensitivities and pressures over the same resources.

    ``weights``: (r,), by how much a resource's product counts; 1 where nothing was fitted.
    """

    services: tuple[str, ...]
    resources: tuple[str, ...]
    sensitivity: NDArray[np.float64]
    pressure: NDArray[np.float64]
    weights: NDArray[np.float64]

    def slowdown(self, service: str, beside: Sequence[str]) -> float:
        """The predicted ratio of a service's latency beside others to that alone."""
        row = self.services.index(service)
        felt = sum((self.pressure[self.services.index(one)] for one in beside), np.zeros(len(self.resources)))
        return float(np.exp(np.sum(self.weights * self.sensitivity[row] * felt)))


def fitted(
    interference: Interference, pairs: Sequence[tuple[str, str, float]]
) -> tuple[Interference, NDArray[np.float64]]:
    """One common weight for all resources, from measured pairs (service, neighbour, ratio of latencies).

    Returns the fitted model and the relative error of each pair's predicted ratio when that pair is left out of the
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
