"""The machine's speed in a window, and the correction of values to another speed.

On a shared machine the same requests cost more processor time in one window than in the next, even where no time is
stolen and nothing else runs, and latency follows.  The load generator's ticks
(apps/common/loadgen/yardstick.go) are work that no configuration changes; the logarithm of their processor time is a
control variate for the logarithm of the value (Lavenberg & Welch, Management Science 27(3), 1981): their common
variation in windows of the same configuration comes from the machine.  docs/adr/0014-the-machines-speed.md says where
this helps and where it misleads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from framework.model import Measurement, Objective, Trial

PRIOR_MEAN = 1.0  # a machine that takes 1 % longer for everything makes latencies 1 % longer, and more where they queue
PRIOR_DEVIATION = 0.5  # standard deviation of the prior of the slope
MIN_DEVIATION = 0.001  # of log(value) between windows at one speed: a few windows may be more alike by chance


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The slope d log(value) / d log(processor time of fixed work), with its standard error.

    ``explained``: part of the variance between windows of one configuration that the machine's speed explains.
    ``windows``: the number of windows behind it.
    """

    slope: float
    error: float
    explained: float
    windows: int


def slowness(measurement: Measurement) -> float | None:
    """Return the logarithm of the processor time of a tick [log us]; None where it was not measured."""
    return math.log(measurement.tick_us) if measurement.tick_us else None


def sensitivity(trials: Iterable[Trial], objective: Objective) -> Sensitivity | None:
    """Estimate the slope from the deviations of windows from the mean of their configuration, and from the prior.

    The normal prior and the least squares are weighted by their precisions (Gelman et al., Bayesian Data Analysis,
    3rd ed., section 2.5).  None where the speed was not measured, a value is not positive, or the objective has other
    quantities than latencies.
    """
    if not all(t.quantity == "mean" or t.quantity.startswith("p") for t in objective.terms if t.weight):
        return None
    groups = _windows(trials)
    if not groups or any(value <= 0 for rows in groups.values() for _, value in rows):
        return None
    x, y = (np.concatenate(columns) for columns in zip(*map(_deviations, groups.values()), strict=True))
    degrees = len(x) - len(groups)
    if degrees < 2:
        return Sensitivity(PRIOR_MEAN, PRIOR_DEVIATION, 0.0, len(x))
    sxx, sxy = float(x @ x), float(x @ y)
    least = sxy / sxx if sxx else 0.0
    variance = max(MIN_DEVIATION**2, float(((y - least * x) ** 2).sum()) / max(1, degrees - 1))
    precision = sxx / variance + 1.0 / PRIOR_DEVIATION**2
    slope = (sxy / variance + PRIOR_MEAN / PRIOR_DEVIATION**2) / precision
    left = float(((y - slope * x) ** 2).sum()) / float(y @ y) if y.any() else 1.0
    return Sensitivity(slope, 1.0 / math.sqrt(precision), max(0.0, 1.0 - left), len(x))


def at_speed(trial: Trial, effect: Sensitivity | None, reference: float | None) -> Trial:
    """Correct the values of a trial and its repetitions to a machine on which a tick takes exp(``reference``) us.

    A trial without a measured speed stays as it is.
    """
    if effect is None or reference is None or trial.value is None or trial.value <= 0:
        return trial
    measurements = []
    factors = []
    for measurement in trial.measurements:
        speed = slowness(measurement)
        if measurement.value is None or measurement.invalid:
            measurements.append(measurement)
        elif speed is None:
            return trial
        else:
            factors.append(-effect.slope * (speed - reference))
            measurements.append(replace(measurement, value=measurement.value * math.exp(factors[-1])))
    if not factors:
        return trial
    return replace(trial, value=trial.value * math.exp(fmean(factors)), measurements=tuple(measurements))


def typical(trials: Iterable[Trial]) -> float | None:
    """Return the mean slowness of the first trial that has one: the scale of a study, which then stays fixed."""
    for trial in sorted(trials, key=lambda trial: trial.number):
        speeds = [speed for m in trial.measurements if not m.invalid and (speed := slowness(m)) is not None]
        if speeds:
            return fmean(speeds)
    return None


def _windows(trials: Iterable[Trial]) -> Mapping[object, Sequence[tuple[float, float]]]:
    """Group (slowness, value) of each valid window by configuration and rate."""
    groups: dict[object, list[tuple[float, float]]] = {}
    for trial in trials:
        for measurement in trial.measurements:
            speed = slowness(measurement)
            if measurement.value is not None and not measurement.invalid and speed is not None:
                # Latency differs between the rates of a study of several for other reasons than speed.
                key = trial.configuration, measurement.rate_rps
                groups.setdefault(key, []).append((speed, measurement.value))
    return groups


def _deviations(rows: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the deviations of slowness and of log(value) from their means, shapes (n,)."""
    x, y = np.array([speed for speed, _ in rows]), np.log([value for _, value in rows])
    return x - x.mean(), y - y.mean()
