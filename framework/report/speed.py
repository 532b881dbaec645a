"""The verdict's comparisons as they would be had the machine been equally fast in every window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.model import Objective, Study, Trial, TrialState, Verdict
from framework.objective import compare_groups
from framework.objective.speed import Sensitivity, at_speed, sensitivity, typical
from framework.report.arms import chosen, fresh


@dataclass(frozen=True, slots=True)
class EqualSpeed:
    """``verdict``: default to best, None where they were not compared; ``rivals``: those of ``Study.rivals``
    that were measured in the same groups as the best that was taken.
    """

    sensitivity: Sensitivity
    verdict: Verdict | None
    rivals: Mapping[str, Verdict]


def equal_speed(study: Study, trials: Sequence[Trial], objective: Objective) -> EqualSpeed | None:
    """None where the machine's speed was not measured, or the objective is of something else than latencies."""
    valued = [t for t in trials if t.state is TrialState.COMPLETED and t.value is not None]
    found, reference = sensitivity(valued, objective), typical(valued)
    if found is None or reference is None:
        return None
    arms: dict[str, dict[int, float]] = {}
    for trial in fresh(valued, chosen(study, trials)):
        value = at_speed(trial, found, reference).value
        if value is not None and trial.pair is not None:
            arms.setdefault(trial.label, {})[trial.pair] = value
    default, best = arms.get("default", {}), arms.get("best", {})
    rivals = {f"default to {name}": compare_groups(default, arms.get(name, {})) for name in study.plan.rivals}
    rivals |= {name: compare_groups(arms.get(name, {}), best) for name in study.plan.rivals}
    known = {name: verdict for name, verdict in rivals.items() if verdict is not None}
    return EqualSpeed(found, compare_groups(default, best), known)
