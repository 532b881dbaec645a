"""The repetitions behind an arm of a study: of its default or of its best configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from framework.errors import InputError
from framework.model import Measurement, Study, Trial, TrialState
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


def _valid(trials: Iterable[Trial]) -> list[Measurement]:
    return [m for t in trials if t.state is TrialState.COMPLETED for m in t.measurements if not m.invalid]
