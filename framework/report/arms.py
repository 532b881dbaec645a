"""The repetitions behind an arm of a study: of its default or of its best configuration."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from framework.errors import InputError
from framework.model import Estimate, Measurement, Study, Trial, TrialState, cpu_us_per_request
from framework.objective.verdict import hodges_lehmann
from framework.study.verdict import FULL, SMALL, WITHOUT


def fresh(trials: Sequence[Trial], best: Trial | None) -> list[Trial]:
    """Return the verdict's trials of the pairs with ``best``, whose arm is labelled "best" in what is returned.

    A smaller recommendation may have pairs of its own; one that was measured beside the full one takes its label.
    """
    verdict = [t for t in trials if t.purpose == "verdict"]
    if best is None:
        return verdict
    own = [t for t in verdict if t.configuration == best.configuration and _is_recommendation(t.label)]
    label = next((t.label for t in own if t.number == best.number), own[0].label if own else "best")
    # What the first pairs chose is judged by new ones, of which the study's best is the first.
    first = best.pair if best.purpose == "verdict" and best.pair is not None else 0
    pairs = {t.pair for t in own if t.label == label and (t.pair or 0) >= first}
    renamed = {} if label == "best" else {label: "best", "best": FULL}
    chosen_pairs = [t for t in verdict if not pairs or t.pair in pairs]
    return [replace(t, label=renamed.get(t.label, t.label)) for t in chosen_pairs]


def _is_recommendation(label: str) -> bool:
    return label in ("best", SMALL) or label.startswith(WITHOUT)


def arm(trials: Sequence[Trial], label: str, best: Trial | None) -> list[Measurement]:
    """Return the valid repetitions of one arm of the verdict."""
    return _valid(t for t in fresh(trials, best) if t.label == label)


def repetitions(study: Study, trials: Sequence[Trial], label: str) -> list[Measurement]:
    """Return an arm's valid repetitions, without a verdict its trial's.  Raises InputError for another ``label``."""
    if label not in ("default", "best"):
        raise InputError(f"study {study.id}: found {label!r}; allowed: default, best")
    best = chosen(study, trials)
    own = [t for t in trials if (t is best if label == "best" else t.purpose == "default")]
    return arm(trials, label, best) or _valid(own)


def chosen(study: Study, trials: Sequence[Trial]) -> Trial | None:
    """Return the trial of the study's best configuration; None before one is chosen."""
    return next((t for t in trials if t.number == study.best), None)


def cpu_ratio(study: Study, trials: Sequence[Trial], without: Collection[str] = ()) -> Estimate | None:
    """Return CPU time per request with the best configuration to that with the default, from the verdict's pairs.

    ``without``: services that do not count.  None without a pair whose CPU time is known.
    """
    taken: dict[str, dict[int, float]] = {"default": {}, "best": {}}
    for trial in fresh(trials, chosen(study, trials)):
        of_service = cpu_us_per_request(_valid([trial]))
        spent_us = math.fsum(us for name, us in of_service.items() if name not in without)
        if trial.label in taken and trial.pair is not None and spent_us > 0:
            taken[trial.label][trial.pair] = spent_us
    default, best = taken["default"], taken["best"]
    ratios = [math.log(best[pair] / default[pair]) for pair in sorted(default.keys() & best.keys())]
    if not ratios:
        return None
    logs = hodges_lehmann(ratios)
    return Estimate(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.count)


def _valid(trials: Iterable[Trial]) -> list[Measurement]:
    return [m for t in trials if t.state is TrialState.COMPLETED for m in t.measurements if not m.invalid]
