"""What a trial says beside its value: how far it keeps the limits on its outcome, and its further objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from framework.model import Measurement, Objective, Trial
from framework.objective.trial import trial_value

MOST = 100.0  # of a limit: failed requests make a quantile infinite, and models need numbers


def outcome(measurements: Iterable[Measurement], quantity: str) -> float | None:
    """A quantity over the repetitions that count, summarised as a trial's value is; None where none has it.

    Infinite where failed requests reach into the quantile.
    """
    found = [m.quantities[quantity].value for m in measurements if not m.invalid and quantity in m.quantities]
    if not found:
        return None
    return trial_value(found) if all(math.isfinite(value) for value in found) else math.inf


def measured(trial: Trial, quantity: str) -> float | None:
    """A quantity of a trial, as it was told or else from its repetitions; None where it has none."""
    told = trial.quantities.get(quantity)
    return outcome(trial.measurements, quantity) if told is None else told


def constraints(trial: Trial, objective: Objective) -> dict[str, float]:
    """Constraint, as text -> by how much a trial passes it, as a fraction of the limit; at most 0 where it is kept."""
    values = ((one, measured(trial, one.quantity)) for one in objective.subject_to)
    return {str(one): min(MOST, one.excess(value)) for one, value in values if value is not None}


def others(trial: Trial, objective: Objective) -> dict[str, float]:
    """The further objectives, minimised: throughput is wanted high, so that its negative stands here.

    One that is infinite or was not measured is missing.
    """
    values = ((name, measured(trial, name)) for name in objective.also)
    return {
        name: -value if name == "throughput" else value
        for name, value in values
        if value is not None and math.isfinite(value)
    }


def keeps(trial: Trial, objective: Objective) -> bool:
    """Whether a trial keeps every limit."""
    return all(excess <= 0 for excess in constraints(trial, objective).values())


def best_of(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """The trial with the lowest told value among those that keep the limits; where none does, what breaks them least.

    Deb, Computer Methods in Applied Mechanics and Engineering 186 (2000), section 3.  None where no trial has a value.
    """
    valued = [trial for trial in trials if trial.told_value is not None]
    return min(valued, key=lambda trial: rank(trial, objective), default=None)


def rank(trial: Trial, objective: Objective) -> tuple[float, float]:
    """What trials are ordered by: by how much the limits are broken in all, then the told value."""
    broken = sum(max(0.0, excess) for excess in constraints(trial, objective).values())
    return broken, math.inf if trial.told_value is None else trial.told_value
