"""What the optimizer is told: a trial as an observation, and results that were measured elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from framework.critical_path.reduce import evidence_of, priors
from framework.model import Objective, Trial, TrialState, cpu_us_per_request
from framework.model.decisions import ImportedResults, ModelledPoint, SpaceEdit
from framework.objective import constraints, others
from optimizer.errors import NotOfThisSpace
from optimizer.models.simulator_prior import Modelled
from optimizer.space import Configuration, SearchSpace, Value
from optimizer.transfer import Known, carried, observed
from optimizer.trial import Observation, ObservationState

_OBSERVED = {
    TrialState.COMPLETED: ObservationState.COMPLETED,
    TrialState.FAILED: ObservationState.FAILED,
    TrialState.INFEASIBLE: ObservationState.INFEASIBLE,
}


def observation(
    trial: Trial, configuration: Configuration, space: SearchSpace, objective: Objective, *, guided: bool
) -> Observation:
    """A finished trial as of ``configuration`` (what the optimizer knows of it); ``guided``: and where time went."""
    if trial.told_value is None:
        return Observation(configuration, _OBSERVED[trial.state], ask=trial.ask, reason=trial.reason)
    beside = others(trial, objective)
    if len(beside) < len(objective.also):  # failed requests reach into a further objective
        reason = f"no finite value of {', '.join(name for name in objective.also if name not in beside)}"
        return Observation(configuration, ObservationState.INFEASIBLE, ask=trial.ask, reason=reason)
    windows = [m.services for m in trial.measurements if not m.invalid]
    return Observation(
        configuration,
        _OBSERVED[trial.state],
        trial.told_value,
        # Delta method: from log to value.
        None if trial.standard_error is None else abs(trial.told_value) * trial.standard_error,
        trial.ask,
        constraints=constraints(trial, objective),
        priors=priors(evidence_of(windows), space.groups) if guided else {},
        others=beside,
        costs=trial.costs or cpu_us_per_request([one for one in trial.measurements if not one.invalid]),
    )


def imported(history: Sequence[ImportedResults], space: SearchSpace, default_value: float) -> list[Observation]:
    """Results from elsewhere that are points of ``space``, on the scale of the default measured here."""
    observations: dict[Configuration, Observation] = {}
    for configuration, known in _carried(history, space, Counter()):
        observations.setdefault(configuration, observed(configuration, known, default_value))
    return [point for configuration, point in observations.items() if configuration != space.default()]


def believed(prior: Sequence[ModelledPoint], space: SearchSpace) -> list[Modelled]:
    """A model's predictions for configurations of ``space``, which may have been edited since.

    Empty where fewer than two finite predictions are left: one alone tells no configuration from another.
    """
    default = space.default()
    modelled = []
    for point in prior:
        with suppress(NotOfThisSpace):
            configuration = carried(space, {**default, **point.values}, default)
            if math.isfinite(point.log_ratio):
                modelled.append(Modelled(configuration, point.log_ratio))
    return modelled if len(modelled) > 1 else []


def in_space(
    trial: Trial, space: SearchSpace, edits: Sequence[SpaceEdit], default: Mapping[str, Value]
) -> Configuration | None:
    """A trial's configuration in the space that is searched now; None where an edit of the space left it out.

    ``default``: of the whole space of now; a trial from before an edit has the default that was then.
    """
    then = next((edit.default for edit in edits if trial.number <= edit.after), default)
    try:
        return carried(space, trial.configuration, then)
    except NotOfThisSpace:
        return None


def left_out(history: Sequence[ImportedResults], space: SearchSpace) -> tuple[int, Counter[str]]:
    """How many results from elsewhere can be used, and why the others cannot: reason -> number."""
    reasons: Counter[str] = Counter()
    return len(list(_carried(history, space, reasons))), reasons


def _carried(
    history: Sequence[ImportedResults], space: SearchSpace, reasons: Counter[str]
) -> Iterator[tuple[Configuration, Known]]:
    for source in history:
        for known in source.results:
            try:
                yield carried(space, known.values, source.default), known
            except NotOfThisSpace as error:
                reasons[str(error)] += 1
