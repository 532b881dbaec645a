"""Observations for the optimizer: of a study's own trials, of imported results, of a model's predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from framework.critical_path.reduce import evidence_of, priors
from framework.model import Objective, Study, Trial, TrialState, cpu_us_per_request
from framework.model.decisions import ImportedResults, ModelledPoint, Reduction, SpaceEdit, Transfer
from framework.objective import constraints, others
from optimizer.errors import NotOfThisSpace
from optimizer.models.simulator_prior import Modelled
from optimizer.models.transfer_prior import TransferPrior
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
    """Return the observation of a finished trial.

    ``configuration``: the trial's, as a point of ``space``.  ``guided``: add priors of the services from the traces.
    """
    if trial.told_value is None:
        return Observation(configuration, _OBSERVED[trial.state], ask=trial.ask, reason=trial.reason)
    secondary = others(trial, objective)
    if len(secondary) < len(objective.also):  # failed requests made a further objective infinite
        reason = f"no finite value of {', '.join(name for name in objective.also if name not in secondary)}"
        return Observation(configuration, ObservationState.INFEASIBLE, ask=trial.ask, reason=reason)
    valid = [measurement for measurement in trial.measurements if not measurement.invalid]
    return Observation(
        configuration,
        _OBSERVED[trial.state],
        trial.told_value,
        # Delta method: from log to value.
        None if trial.standard_error is None else abs(trial.told_value) * trial.standard_error,
        trial.ask,
        constraints=constraints(trial, objective),
        priors=priors(evidence_of([measurement.services for measurement in valid]), space.groups) if guided else {},
        others=secondary,
        costs=trial.costs or cpu_us_per_request(valid),
    )


def imported_observations(
    history: Sequence[ImportedResults], space: SearchSpace, default_value: float
) -> list[Observation]:
    """Return the results from elsewhere that are points of ``space``, scaled to the default's value measured here."""
    observations: dict[Configuration, Observation] = {}
    for configuration, result in _in_this_space(history, space, Counter()):
        observations.setdefault(configuration, observed(configuration, result, default_value))
    return [point for configuration, point in observations.items() if configuration != space.default()]


def modelled_points(prior: Sequence[ModelledPoint], space: SearchSpace) -> list[Modelled]:
    """Return a model's predictions for configurations of ``space``, which may have been edited since.

    Empty where fewer than two finite predictions are left: a single one cannot rank configurations.
    """
    default = space.default()
    modelled = []
    for point in prior:
        with suppress(NotOfThisSpace):
            configuration = carried(space, {**default, **point.values}, default)
            if math.isfinite(point.log_ratio):
                modelled.append(Modelled(configuration, point.log_ratio))
    return modelled if len(modelled) > 1 else []


def valued_observations(study: Study, trials: Sequence[Trial], space: SearchSpace) -> list[tuple[Trial, Observation]]:
    """Return the trials of default and search that have a value, as far as they are points of ``space``.

    Values are the drift-corrected ones that the optimizer was told.
    """
    default = SearchSpace.from_dict(study.space).default()
    valued = []
    for trial in trials:
        value = trial.told_value if trial.purpose in ("default", "search") else None
        point = None if value is None else in_space(trial, space, study.decisions.edits, default)
        if value is not None and point is not None:
            error = None if trial.standard_error is None else abs(value) * trial.standard_error
            valued.append((trial, Observation(point, ObservationState.COMPLETED, value, error, trial.ask)))
    return valued


def searched_space(space: SearchSpace, reduction: Reduction | None) -> SearchSpace:
    """Return the part of a study's space that it searches: the services that its reduction kept."""
    if reduction is None:
        return space
    kept = set(reduction.kept)
    return space.subset(parameter.name for parameter in space.tuned if parameter.group in kept)


def transfer_prior(transfer: Transfer | None, space: SearchSpace) -> TransferPrior | None:
    """Return what other applications tell of ``space``, which may have been edited since; None where it is nothing."""
    if transfer is None:
        return None
    effects = [effect for source in transfer.sources for effect in source.effects]
    prior = TransferPrior(space, transfer.types, effects)
    return prior if prior.best(1) else None


def in_space(
    trial: Trial, space: SearchSpace, edits: Sequence[SpaceEdit], default: Mapping[str, Value]
) -> Configuration | None:
    """Return a trial's configuration in the space that is searched now; None where it is no point of that space.

    ``default``: the default of the whole current space.  A trial from before an edit had the default of its own time.
    """
    then = next((edit.default for edit in edits if trial.number <= edit.after), default)
    try:
        return carried(space, trial.configuration, then)
    except NotOfThisSpace:
        return None


def left_out(history: Sequence[ImportedResults], space: SearchSpace) -> tuple[int, Counter[str]]:
    """Return how many results from elsewhere can be used, and why the others cannot: reason -> number."""
    reasons: Counter[str] = Counter()
    return len(list(_in_this_space(history, space, reasons))), reasons


def _in_this_space(
    history: Sequence[ImportedResults], space: SearchSpace, reasons: Counter[str]
) -> Iterator[tuple[Configuration, Known]]:
    for source in history:
        for result in source.results:
            try:
                yield carried(space, result.values, source.default), result
            except NotOfThisSpace as error:
                reasons[str(error)] += 1
