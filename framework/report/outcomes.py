"""The outcomes of a study besides its objective: the limits, whether they were kept, and the Pareto set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.model import Objective, Trial
from framework.objective import keeps, measured, outcome, worst_at
from framework.report.arms import arm
from optimizer.pareto import undominated


@dataclass(frozen=True, slots=True)
class Outcome:
    """One quantity of the default and of the best configuration, from fresh runs where there are some.

    Of several rates, a limit shows the rate at which it is exceeded most, and a further objective the geometric mean.
    ``limit``: as text, empty for a further objective.  ``kept``: by the best; None where it was not measured.
    """

    quantity: str
    limit: str
    default: float | None
    best: float | None
    kept: bool | None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A trial of the Pareto set; ``others``: its further objectives, in the order of the plan."""

    trial: int
    purpose: str
    value: float
    others: tuple[float, ...]


def outcomes(trials: Sequence[Trial], default: Trial, best: Trial, objective: Objective) -> tuple[Outcome, ...]:
    """Compare default and best in every limit on the outcome and every further objective."""
    sides = []
    for label, trial in (("default", default), ("best", best)):
        sides.append(arm(trials, label, best) or [m for m in trial.measurements if not m.invalid])
    compared = []
    for limit in objective.subject_to:
        values = [worst_at(side, limit) for side in sides]
        kept = None if values[1] is None else limit.excess(values[1]) <= 0
        compared.append(Outcome(limit.quantity, str(limit), values[0], values[1], kept))
    for name in objective.also:
        compared.append(Outcome(name, "", outcome(sides[0], name), outcome(sides[1], name), None))
    return tuple(compared)


def front(trials: Sequence[Trial], objective: Objective) -> tuple[FrontPoint, ...]:
    """Return the Pareto set of the default's and the search's trials that keep the limits; empty with one objective."""
    if not objective.also:
        return ()
    points = []
    for trial in trials:
        others = [measured(trial, name) for name in objective.also]
        if trial.purpose in ("default", "search") and trial.told_value is not None and keeps(trial, objective):
            known = tuple(value for value in others if value is not None)
            if len(known) == len(others):
                points.append(FrontPoint(trial.number, trial.purpose, trial.told_value, known))
    if not points:
        return ()
    signs = np.array([1.0, *(-1.0 if name == "throughput" else 1.0 for name in objective.also)])
    unbeaten = undominated(signs * np.array([(point.value, *point.others) for point in points]))
    kept = [point for point, best in zip(points, unbeaten, strict=True) if best]
    return tuple(sorted(kept, key=lambda point: point.value))
