"""Warm start of a study from earlier results: which services mattered, and which configurations are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.config.results_file import load_results
from framework.errors import FieldName, InputError
from framework.model import Objective, StudyId, Trial, TuneRequest
from framework.model.decisions import ImportedResults
from framework.model.study import display_name
from framework.objective import trial_value
from framework.objective.evaluate import combine
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
        _of_file(source) if isinstance(source, Path) else _of_study(source, objective, store) for source in sources
    )
    usable, reasons = left_out(results, space)
    if results and not usable:
        why = "; ".join(f"{count} times {reason}" for reason, count in reasons.most_common(3)) or "they have no results"
        raise InputError(FieldName("history"), f": nothing in {', '.join(map(str, sources))} can be used ({why})")
    return results


def _of_file(path: Path) -> ImportedResults:
    default, results = load_results(path)
    return ImportedResults(str(path), dict(default), tuple(results))


def _of_study(name: StudyId, objective: Objective, store: StudyStore) -> ImportedResults:
    study = store.get(name)
    trials = [t for t in store.trials(study.id) if t.purpose in ("default", "search")]
    valued = [(t, value) for t in trials if (value := _value(t, objective)) is not None and value > 0]
    level = next((value for t, value in valued if t.purpose == "default"), None)
    if level is None:
        raise InputError(
            FieldName("history"), f": study {study.id} has no default with a value above 0 under this objective"
        )
    default = SearchSpace.from_dict(study.space).default()
    results = []
    for trial, value in valued:
        # The study's own correction of its drift: the value it told over the value it measured.
        drift = trial.told_value / trial.value if trial.told_value and trial.value else 1.0
        error = math.sqrt(2) * (trial.standard_error or 0.0)  # of the trial and of its default
        values = {**default, **trial.configuration}
        results.append(Known(values, math.log(value * drift / level), error))
    return ImportedResults(display_name(study), default.to_dict(), tuple(results))


def _value(trial: Trial, objective: Objective) -> float | None:
    """Return a trial's value under an objective; None where it has none, or lacks a quantity of the objective."""
    if trial.value is None:
        return None
    valid = [m for m in trial.measurements if not m.invalid]
    if any(term.quantity not in m.quantities for m in valid for term in objective.terms):
        return None
    values = [combine(objective, m.quantities) for m in valid]
    known = [value for value in values if value is not None]
    return trial_value(known) if known and len(known) == len(values) else None
