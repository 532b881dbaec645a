"""The verdict's comparisons, corrected to a machine that is equally fast in every window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.model import Objective, Study, Trial, TrialState, Verdict
from framework.objective import compare_trials
from framework.objective.speed import Sensitivity, at_speed, sensitivity, typical
from framework.report.arms import chosen, fresh


@dataclass(frozen=True, slots=True)
class EqualSpeed:
    """The comparisons at equal speed.  ``verdict``: default to best, None where they were not compared.

    ``rivals``: those of ``Study.rivals`` that were measured in the same groups as the chosen best.
    """

    sensitivity: Sensitivity
    verdict: Verdict | None
    rivals: Mapping[str, Verdict]


def equal_speed(study: Study, trials: Sequence[Trial], objective: Objective) -> EqualSpeed | None:
    """Compare at equal speed; None where it was not measured, or the objective has other quantities than latencies.

    None on several testbeds too: machines differ, and one sensitivity over all of them would be nobody's.
    """
    if study.plan.testbeds:
        return None
    valued = [t for t in trials if t.state is TrialState.COMPLETED and t.value is not None]
    effect, reference = sensitivity(valued, objective), typical(valued)
    if effect is None or reference is None:
        return None
    arms: dict[str, dict[int, Trial]] = {}
    for trial in fresh(valued, chosen(study, trials)):
        if trial.pair is not None:
            arms.setdefault(trial.label, {})[trial.pair] = at_speed(trial, effect, reference)

    def compared(first: str, second: str) -> Verdict | None:
        return compare_trials(study.plan, arms.get(first, {}), arms.get(second, {}))

    rivals = {f"default to {name}": compared("default", name) for name in study.plan.rivals}
    rivals |= {name: compared(name, "best") for name in study.plan.rivals}
    known = {name: verdict for name, verdict in rivals.items() if verdict is not None}
    return EqualSpeed(effect, compared("default", "best"), known)
