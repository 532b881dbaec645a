"""Importance of a study's parameters: effects of a screening design, else a forest over the finished trials."""

from __future__ import annotations

from collections.abc import Sequence

from framework.model import Study, Trial
from framework.study.observations import in_space
from optimizer.analysis.importance import Explained, effects, permutation
from optimizer.space import SearchSpace

SCREENING = "morris"


def importance(study: Study, trials: Sequence[Trial]) -> Explained | None:
    """Return the importance of a study's parameters and services; None where there are too few trials.

    Values are the drift-corrected ones that the optimizer was told.
    """
    space = SearchSpace.from_dict(study.space)
    finished = [t for t in trials if t.purpose in ("default", "search") and t.told_value is not None]
    points = [(in_space(trial, space, study.decisions.edits, space.default()), trial) for trial in finished]
    results = [(point, float(trial.told_value or 0.0)) for point, trial in points if point is not None]
    if study.plan.optimizer == SCREENING:
        groups = effects(space, results)
        return Explained(len(results), 1.0, (), groups) if groups else None
    return permutation(space, results, seed=study.plan.seed)
