"""Warm start of a study from earlier results: which services mattered, and which configurations are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from framework.config.results_file import load_results
from framework.errors import FieldName, InputError
from framework.model import Objective, StudyId, Trial, TuneRequest
from framework.model.decisions import ImportedResults
from framework.model.study import display_name
from framework.objective import rates_of, trial_value
from framework.objective.evaluate import combine
from framework.objective.rates import Rates, value_over
from framework.ports.store import StudyStore
from framework.study.importance import importance
from framework.study.observations import left_out
from optimizer.space import SearchSpace
from optimizer.transfer import Known


def service_importance(request: TuneRequest, store: StudyStore) -> Mapping[str, float]:
    """Return each service's importance in an earlier study, for the reduction ``screening``.

    Raises InputError where the study has too few trials, NotFound.
    """
    if request.screening is None:
        return {}
    study = store.get(request.screening)
    explained = importance(study, store.trials(study.id))
    if explained is None or not explained.groups:
        raise InputError(
            FieldName("reduce"), f": study {study.id} says nothing of importance; it takes at least 8 trials"
        )
    return {group.name: max(0.0, group.value) for group in explained.groups}


def history(
    sources: Sequence[StudyId | Path], objective: Objective, space: SearchSpace, store: StudyStore
) -> tuple[ImportedResults, ...]:
    """Return results of studies (ids) and of files, as ratios to their defaults.

    A study's values are computed anew from its measurements, by this objective.  Raises InputError where no result is a
    point of ``space``, NotFound.
    """
    results = tuple(
        _of_file(source) if isinstance(source, Path) else results_of(source, objective, store) for source in sources
    )
    usable, reasons = left_out(results, space)
    if results and not usable:
        why = "; ".join(f"{count} times {reason}" for reason, count in reasons.most_common(3)) or "they have no results"
        raise InputError(FieldName("history"), f": nothing in {', '.join(map(str, sources))} can be used ({why})")
    return results


def _of_file(path: Path) -> ImportedResults:
    default, results = load_results(path)
    return ImportedResults(str(path), dict(default), tuple(results))


def results_of(
    name: StudyId, objective: Objective, store: StudyStore, field: Literal["history", "transfer"] = "history"
) -> ImportedResults:
    """Return the values of a study under an objective, as ratios to its default's.  ``field``: for messages.

    Raises InputError where its default has no value, NotFound.
    """
    study = store.get(name)
    trials = [t for t in store.trials(study.id) if t.purpose in ("default", "search")]
    rates = rates_of(study.plan)
    valued = [under for t in trials if (under := _under(t, objective, rates)) is not None]
    reference = next((t for t in valued if t.purpose == "default"), None)
    if reference is None:
        raise InputError(
            FieldName(field), f": study {study.id} has no default with a value above 0 under this objective"
        )
    default = SearchSpace.from_dict(study.space).default()
    measured = {trial.number: trial for trial in trials}
    results = []
    for trial in valued:
        # The study's own correction of its drift: the value it told over the value it measured.
        own = measured[trial.number]
        drift = own.told_value / own.value if own.told_value and own.value else 1.0
        error = math.sqrt(2) * (trial.standard_error or 0.0)  # of the trial and of its default
        ratio = _ratio(trial, reference, rates)
        results.append(Known({**default, **trial.configuration}, math.log(ratio * drift), error))
    return ImportedResults(display_name(study), default.to_dict(), tuple(results))


def _under(trial: Trial, objective: Objective, rates: Rates | None) -> Trial | None:
    """Return a trial with its values under an objective; None where it lacks a quantity of it.

    None also where its value, or one at any of several rates, is not above 0 and so has no ratio to the default's.
    """
    if trial.value is None:
        return None
    valid = [m for m in trial.measurements if not m.invalid]
    if any(term.quantity not in m.quantities for m in valid for term in objective.terms):
        return None
    windows = tuple(replace(m, value=combine(objective, m.quantities)) for m in valid)
    values = [window.value for window in windows if window.value is not None]
    if not values or len(values) < len(windows):
        return None
    value = trial_value(values)
    least = value if rates is None else min(values)
    return replace(trial, measurements=windows, value=value) if least > 0 else None


def _ratio(trial: Trial, reference: Trial, rates: Rates | None) -> float:
    """Return a trial's value over the reference's, both above 0; of several rates, combined as its study did."""
    if rates is not None:
        return value_over(rates, trial.measurements, reference.measurements)
    assert trial.value is not None
    assert reference.value is not None
    return trial.value / reference.value
