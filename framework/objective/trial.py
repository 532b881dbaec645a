"""The value of a trial from its repetitions, its standard error, and its correction for drift.

Runs of one configuration differ by a factor, not by an amount, so all is computed on logarithms.  An objective that can
be zero or negative has no logarithm and is used as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from framework.errors import InputError
from framework.model import Trial


@dataclass(frozen=True, slots=True)
class Spread:
    """The between-run standard deviation, pooled over a study's trials, with its degrees of freedom.

    ``log``: it is of log(value); else of the values, because some are not positive.
    """

    deviation: float
    degrees: int
    log: bool


def trial_value(values: Sequence[float]) -> float:
    """Return the geometric mean of the repetitions' values; the arithmetic mean where one is not positive.

    Raises InputError without values, or for values that are not finite: missing data is never a number.
    """
    array = np.asarray(values, dtype=np.float64)
    if not len(array) or not np.isfinite(array).all():
        raise InputError(f"a trial's value needs finite values of its repetitions, found {list(values)}")
    if (array > 0).all():
        return float(np.exp(np.log(array).mean()))
    return float(array.mean())


def pooled_spread(trials: Iterable[Sequence[float]]) -> Spread | None:
    """Pool the standard deviation between runs of one configuration over trials (each: its repetitions' values).

    None while no trial has two values.  It is pooled because the few values of one trial say little.
    """
    groups = [np.asarray(values, dtype=np.float64) for values in trials if len(values)]
    log = all((values > 0).all() for values in groups)
    if log:
        groups = [np.log(values) for values in groups]
    degrees = sum(len(values) - 1 for values in groups)
    if degrees < 1:
        return None
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in groups)
    return Spread(math.sqrt(squares / degrees), degrees, log)


def standard_error(trial: Trial, others: Iterable[Trial]) -> float | None:
    """Return the standard error of the logarithm of a trial's value, from the spread pooled over the study.

    ``others``: the study's trials with a value (``trial`` itself may be among them).  None while no trial has two
    values.  Where some values are not positive, the error is relative to the trial's value, which equals the error of
    the logarithm to first order.  Raises InputError for a trial without a valid repetition.
    """
    values = _values(trial)
    if not values:
        raise InputError(f"trial {trial.number} has no valid repetition, so its value has no standard error")
    groups = [_values(other) for other in others if other.number != trial.number]
    spread = pooled_spread([*groups, values])
    if spread is None:
        return None
    error = spread.deviation / math.sqrt(len(values))
    if spread.log:
        return error
    value = trial_value(values)
    return error / abs(value) if value else None


def _values(trial: Trial) -> list[float]:
    return [m.value for m in trial.measurements if m.value is not None and not m.invalid]


def baseline_at(at: float, baselines: Sequence[tuple[float, float]]) -> float:
    """Interpolate the baseline's log value at ``at``, linearly between two baselines.

    ``baselines``: (position in time or trial order, value > 0).  Before the first or after the last, the mean of the
    nearest two, which is less noisy than one.  Raises InputError without baselines, or where one is not positive.
    """
    ordered = sorted(baselines)
    if not ordered or any(value <= 0 for _, value in ordered):
        raise InputError("drift is corrected against at least one baseline, all positive")
    weights = baseline_weights(at, [position for position, _ in ordered])
    return sum(weight * math.log(ordered[place][1]) for place, weight in weights.items())


def baseline_weights(at: float, positions: Sequence[float]) -> Mapping[int, float]:
    """Return index of a baseline -> its weight in the level at ``at``; ``positions`` increase, one at least."""
    before = [place for place, position in enumerate(positions) if position <= at]
    after = [place for place, position in enumerate(positions) if position > at]
    if before and after:
        first, second = before[-1], after[0]
        weight = (at - positions[first]) / (positions[second] - positions[first])
        return {first: 1 - weight, second: weight}
    nearest = before[-2:] or after[:2]
    return {place: 1 / len(nearest) for place in nearest}


def on_reference(trial: Trial, baselines: Sequence[Trial], reference: float) -> Trial:
    """Return a trial with its told value on the scale of another testbed, and with the error of its own baselines.

    ``trial``: its told value is on the scale of its testbed's first baseline.  ``baselines``: trials of the default on
    that testbed, with a value, at least one.  ``reference``: the default's value on the other testbed.  Ratios to the
    default are carried over; where signs differ there are none, and differences are.  The variance of the trial's ratio
    is that of its own mean and that of the baselines which it is compared with, both from the pooled spread.
    """
    ordered = sorted(baselines, key=lambda baseline: baseline.number)
    told, level = trial.told_value, ordered[0].value
    if told is None or level is None:
        return trial
    same_sign = level * reference > 0
    moved = told * reference / level if same_sign else told - level + reference
    repetitions = len(_values(trial))
    if trial.standard_error is None or not repetitions:
        return replace(trial, told_value=moved)
    spread = trial.standard_error * math.sqrt(repetitions)
    weights = baseline_weights(trial.number, [baseline.number for baseline in ordered])
    counts = {place: max(1, len(_values(ordered[place]))) for place in weights}
    shared = sum(weight**2 / counts[place] for place, weight in weights.items())
    return replace(trial, told_value=moved, standard_error=spread * math.sqrt(1 / repetitions + shared))


def drift_corrected(trial: Trial, baselines: Iterable[Trial]) -> float | None:
    """Correct a trial's value by the baselines nearest to it in trial order, on the scale of the first baseline.

    A machine that has become 10 % slower slows candidate and baseline alike, and their ratio stays (Abedi & Brecht,
    ICPE'17).  The first baseline fixes the scale, so that later baselines do not change values already told.
    ``baselines``: trials of the default configuration.  The value stays as it is without a baseline, or where a
    value is not positive and so has no ratio.
    """
    known = sorted((float(b.number), b.value) for b in baselines if b.value is not None)
    if trial.value is None or trial.value <= 0 or not known or any(value <= 0 for _, value in known):
        return trial.value
    level = baseline_at(trial.number, known)
    return math.exp(math.log(trial.value) - level + math.log(known[0][1]))
