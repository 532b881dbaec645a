"""What the optimizer is told: a trial as an observation, and results that were measured elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from framework.critical_path.reduce import evidence_of, priors
from framework.model import Objective, StudyPlan, Trial, TrialState, cpu_us_per_request
from framework.model.documents import decode
from framework.objective import constraints, others
from optimizer.errors import NotOfThisSpace
from optimizer.models.simulator_prior import Modelled
from optimizer.space import Configuration, SearchSpace, Value
from optimizer.transfer import Known, carried, observed
from optimizer.trial import Observation, ObservationState

HISTORY = "history"
"""Where a plan keeps results from elsewhere: a list of {source, default, results: [Known as a document]}."""

EDITS = "edits"
"""Where a plan keeps edits of its space: a list of {after: the last trial before, default: of the space till then}."""

PRIOR = "prior"
"""Where a plan keeps what a model says: a list of {values: what differs from the default, log_ratio}."""

INERT = "inert"
"""Where a plan keeps the parameters that mean nothing to the model that its study runs on."""

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


def imported(plan: StudyPlan, space: SearchSpace, default_value: float) -> list[Observation]:
    """The plan's results from elsewhere that are points of ``space``, on the scale of the default measured here."""
    found: dict[Configuration, Observation] = {}
    for configuration, known in _carried(plan.extra, space, Counter()):
        found.setdefault(configuration, observed(configuration, known, default_value))
    return [one for configuration, one in found.items() if configuration != space.default()]


def believed(plan: StudyPlan, space: SearchSpace) -> list[Modelled]:
    """What a model said of configurations of ``space``, which may have been edited since.

    Nothing where fewer than two are left of which it said a number: one alone tells no configuration from another.
    """
    default = space.default()
    found = []
    for document in plan.extra.get(PRIOR, ()):
        with suppress(NotOfThisSpace):
            configuration = carried(space, {**default, **document["values"]}, default)
            if math.isfinite(ratio := float(document["log_ratio"])):
                found.append(Modelled(configuration, ratio))
    return found if len(found) > 1 else []


def in_space(trial: Trial, space: SearchSpace, plan: StudyPlan, default: Mapping[str, Value]) -> Configuration | None:
    """A trial's configuration in the space that is searched now; None where an edit of the space left it out.

    ``default``: of the whole space of now; a trial from before an edit has the default that was then.
    """
    edits = plan.extra.get(EDITS, ())
    then = next((one["default"] for one in edits if trial.number <= one["after"]), default)
    try:
        return carried(space, trial.configuration, then)
    except NotOfThisSpace:
        return None


def left_out(extra: Mapping[str, Any], space: SearchSpace) -> tuple[int, Counter[str]]:
    """How many results from elsewhere can be used, and why the others cannot: reason -> number."""
    reasons: Counter[str] = Counter()
    return len(list(_carried(extra, space, reasons))), reasons


def _carried(
    extra: Mapping[str, Any], space: SearchSpace, reasons: Counter[str]
) -> Iterator[tuple[Configuration, Known]]:
    for source in extra.get(HISTORY, ()):
        for document in source["results"]:
            known = decode(Known, document)
            try:
                yield carried(space, known.values, source["default"]), known
            except NotOfThisSpace as error:
                reasons[str(error)] += 1
