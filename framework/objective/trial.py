"""From repetitions to a trial's value, its standard error, and its correction for drift.

Runs of one configuration differ by a factor, not by an amount, so everything happens on logarithms; an objective that
can be zero or negative has none and is treated as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import InputError
from framework.model import Trial


@dataclass(frozen=True, slots=True)
class Spread:
    """Between-run standard deviation, pooled over a study's trials, with its degrees of freedom.

    ``log``: of log(value); otherwise of the values, because some are not positive.
    """

    deviation: float
    degrees: int
    log: bool


def trial_value(values: Sequence[float]) -> float:
    """The geometric mean of the repetitions' values; the arithmetic mean where they are not all positive.

    Raises InputError for no values or values that are not finite: missing data is never a number.
    """
    found = np.asarray(values, dtype=np.float64)
    if not len(found) or not np.isfinite(found).all():
        raise InputError(f"a trial's value needs finite values of its repetitions, found {list(values)}")
    if (found > 0).all():
        return float(np.exp(np.log(found).mean()))
    return float(found.mean())


def pooled_spread(trials: Iterable[Sequence[float]]) -> Spread | None:
    """The standard deviation between runs of one configuration, pooled over trials (each: its repetitions' values).

    None while no trial has two values: three values alone say little, and one says nothing.
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
    """The standard error of the logarithm of a trial's value, from the spread pooled over the study.

    ``others``: the study's trials with a value (``trial`` itself may be among them).  None while no trial has two
    values.  Where the objective is not positive throughout, the error is relative to the trial's value, which is
    what the logarithm's error means to first order.
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
    return [one.value for one in trial.measurements if one.value is not None and not one.invalid]


def baseline_at(at: float, baselines: Sequence[tuple[float, float]]) -> float:
    """The baseline's log value at ``at``.

    ``baselines``: (position in time or trial order, value > 0).  Between two of them: linear in the logarithm.
    Before the first or after the last: the mean of the nearest two, since one alone would hand all its noise on.
    """
    ordered = sorted(baselines)
    if not ordered or any(value <= 0 for _, value in ordered):
        raise InputError("drift is corrected against at least one baseline, all positive")
    before = [one for one in ordered if one[0] <= at]
    after = [one for one in ordered if one[0] > at]
    if before and after:
        (t0, v0), (t1, v1) = before[-1], after[0]
        weight = (at - t0) / (t1 - t0)
        return (1 - weight) * math.log(v0) + weight * math.log(v1)
    nearest = before[-2:] or after[:2]
    return sum(math.log(value) for _, value in nearest) / len(nearest)


def drift_corrected(trial: Trial, baselines: Iterable[Trial]) -> float | None:
    """A trial's value relative to the baselines nearest to it in trial order, on the scale of the first baseline.

    A machine that has become 10 % slower makes candidate and baseline slower alike, and their ratio stays (Abedi &
    Brecht, ICPE'17).  The first baseline fixes the scale, so that values told earlier keep their meaning.
    ``baselines``: trials of the default configuration.  The value as it stands where there is no baseline, or
    where a value is not positive and so has no ratio.
    """
    known = sorted((float(b.number), b.value) for b in baselines if b.value is not None)
    if trial.value is None or trial.value <= 0 or not known or any(value <= 0 for _, value in known):
        return trial.value
    level = baseline_at(trial.number, known)
    return math.exp(math.log(trial.value) - level + math.log(known[0][1]))
