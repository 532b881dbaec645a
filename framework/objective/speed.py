"""The machine's speed in a window, and what a value would have been at another speed.

On a machine that is shared with others the same requests cost more processor time in one window than in the next,
though nothing is stolen and nothing else runs, and latency follows.  The load generator's ticks
(apps/common/loadgen/yardstick.go) are work that no configuration changes; the logarithm of their processor time is a
control variate for the logarithm of the value (Lavenberg & Welch, Management Science 27(3), 1981): what the two have in
common in windows of the same configuration comes from the machine.  What it is good for, and where it misleads:
docs/adr/0014-the-machines-speed.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from framework.model import Measurement, Objective, Trial

EXPECTED = 1.0  # a machine that takes 1 % longer for everything makes latencies 1 % longer, and more where they queue
DOUBT = 0.5  # standard deviation of that belief
LEAST = 0.001  # of log(value) between windows at one speed: none are more alike, and a few may seem to be by chance


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """d log(value) / d log(processor time of fixed work), with its standard error.

    ``explained``: part of the variance between windows of one configuration that goes with the machine's speed.
    ``windows``: behind it.
    """

    slope: float
    error: float
    explained: float
    windows: int


def slowness(measurement: Measurement) -> float | None:
    """The logarithm of the processor time of a tick; None where it was not measured."""
    return math.log(measurement.tick_us) if measurement.tick_us else None


def sensitivity(trials: Iterable[Trial], objective: Objective) -> Sensitivity | None:
    """From the deviations of windows from the mean of their configuration, together with what is believed of latencies.

    A normal belief about the slope and least squares, weighted by their precisions (Gelman et al., Bayesian Data
    Analysis, 3rd ed., section 2.5).  None where the speed was not measured, values are not positive, or the objective
    is of something else than latencies.
    """
    if not all(t.quantity == "mean" or t.quantity.startswith("p") for t in objective.terms if t.weight):
        return None
    groups = _windows(trials)
    if not groups or any(value <= 0 for rows in groups.values() for _, value in rows):
        return None
    x, y = (np.concatenate(columns) for columns in zip(*map(_deviations, groups.values()), strict=True))
    degrees = len(x) - len(groups)
    if degrees < 2:
        return Sensitivity(EXPECTED, DOUBT, 0.0, len(x))
    sxx, sxy = float(x @ x), float(x @ y)
    least = sxy / sxx if sxx else 0.0
    variance = max(LEAST**2, float(((y - least * x) ** 2).sum()) / max(1, degrees - 1))
    precision = sxx / variance + 1.0 / DOUBT**2
    slope = (sxy / variance + EXPECTED / DOUBT**2) / precision
    left = float(((y - slope * x) ** 2).sum()) / float(y @ y) if y.any() else 1.0
    return Sensitivity(slope, 1.0 / math.sqrt(precision), max(0.0, 1.0 - left), len(x))


def at_speed(trial: Trial, found: Sensitivity | None, reference: float | None) -> Trial:
    """The trial as it would have been where fixed work takes exp(``reference``): its value and its repetitions'.

    As it stands where a speed was not measured.
    """
    if found is None or reference is None or trial.value is None or trial.value <= 0:
        return trial
    measurements = []
    factors = []
    for one in trial.measurements:
        speed = slowness(one)
        if one.value is None or one.invalid:
            measurements.append(one)
        elif speed is None:
            return trial
        else:
            factors.append(-found.slope * (speed - reference))
            measurements.append(replace(one, value=one.value * math.exp(factors[-1])))
    if not factors:
        return trial
    return replace(trial, value=trial.value * math.exp(fmean(factors)), measurements=tuple(measurements))


def typical(trials: Iterable[Trial]) -> float | None:
    """The mean slowness of the first trial that has one: a study's scale, so that later values keep their meaning."""
    for trial in sorted(trials, key=lambda one: one.number):
        speeds = [speed for one in trial.measurements if not one.invalid and (speed := slowness(one)) is not None]
        if speeds:
            return fmean(speeds)
    return None


def _windows(trials: Iterable[Trial]) -> Mapping[object, Sequence[tuple[float, float]]]:
    """Configuration -> (slowness, value) of each window that counts."""
    groups: dict[object, list[tuple[float, float]]] = {}
    for trial in trials:
        for one in trial.measurements:
            speed = slowness(one)
            if one.value is not None and not one.invalid and speed is not None:
                groups.setdefault(trial.configuration, []).append((speed, one.value))
    return groups


def _deviations(rows: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Of slowness and of log(value) from their means, shapes (n,)."""
    x, y = np.array([one[0] for one in rows]), np.log([one[1] for one in rows])
    return x - x.mean(), y - y.mean()
