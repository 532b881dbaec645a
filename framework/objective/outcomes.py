"""Further outcomes of a trial: by how much it exceeds its limits, and its further objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from framework.model import Measurement, Objective, OutcomeConstraint, Trial
from framework.objective.trial import trial_value

MAX_EXCESS = 100.0  # as a fraction of the limit: failed requests make a quantile infinite, and models need numbers


def outcome(measurements: Iterable[Measurement], quantity: str) -> float | None:
    """Return a quantity over the valid repetitions, averaged like a trial's value; None where none has it.

    Infinite where failed requests reach into the quantile.
    """
    values = [m.quantities[quantity].value for m in measurements if not m.invalid and quantity in m.quantities]
    if not values:
        return None
    return trial_value(values) if all(math.isfinite(value) for value in values) else math.inf


def measured(trial: Trial, quantity: str) -> float | None:
    """Return a quantity of a trial: the told value, else that of its repetitions; None without either."""
    told = trial.quantities.get(quantity)
    return outcome(trial.measurements, quantity) if told is None else told


def constraints(trial: Trial, objective: Objective) -> dict[str, float]:
    """Return limit (as text) -> by how much a trial exceeds it, as a fraction of it; at most 0 where it is kept.

    A limit holds at every rate: of several, the one with the largest excess counts.
    """
    excesses = ((limit, _excess(trial, limit)) for limit in objective.subject_to)
    return {str(limit): min(MAX_EXCESS, excess) for limit, excess in excesses if excess is not None}


def _excess(trial: Trial, limit: OutcomeConstraint) -> float | None:
    told = trial.quantities.get(limit.quantity)
    value = worst_at(trial.measurements, limit) if told is None else told
    return None if value is None else limit.excess(value)


def worst_at(measurements: Iterable[Measurement], limit: OutcomeConstraint) -> float | None:
    """Return a limit's quantity at the rate, of those of the windows, where it exceeds the limit most.

    None where it was not measured at any rate.
    """
    groups: dict[float | None, list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(measurement.rate_rps, []).append(measurement)
    values = [value for windows in groups.values() if (value := outcome(windows, limit.quantity)) is not None]
    return max(values, key=limit.excess, default=None)


def others(trial: Trial, objective: Objective) -> dict[str, float]:
    """Return the further objectives, to be minimised: throughput is maximised, so it is negated.

    Of several rates, each is the geometric mean over them, whose order is that of the mean ratio to the default.
    An objective that is infinite or was not measured is missing.
    """
    values = ((name, measured(trial, name)) for name in objective.also)
    return {
        name: -value if name == "throughput" else value
        for name, value in values
        if value is not None and math.isfinite(value)
    }


def keeps(trial: Trial, objective: Objective) -> bool:
    """Return whether a trial keeps every limit."""
    return all(excess <= 0 for excess in constraints(trial, objective).values())


def best_of(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """Return the trial with the lowest told value of those that keep the limits; if none does, the least excess.

    Deb, Computer Methods in Applied Mechanics and Engineering 186 (2000), section 3.  None where no trial has a value.
    """
    valued = [trial for trial in trials if trial.told_value is not None]
    return min(valued, key=lambda trial: rank(trial, objective), default=None)


def rank(trial: Trial, objective: Objective) -> tuple[float, float]:
    """Return the sort key of a trial: the sum of its excesses over the limits, then its told value."""
    violation = sum(max(0.0, excess) for excess in constraints(trial, objective).values())
    return violation, math.inf if trial.told_value is None else trial.told_value
