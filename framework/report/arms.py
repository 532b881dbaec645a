"""The repetitions behind an arm of a study: of its default or of its best configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from framework.errors import InputError
from framework.model import Measurement, Study, Trial, TrialState


def arm(trials: Sequence[Trial], label: str) -> list[Measurement]:
    """Valid repetitions of one arm of the verdict."""
    return _valid(t for t in trials if t.purpose == "verdict" and t.label == label)


def repetitions(study: Study, trials: Sequence[Trial], label: str) -> list[Measurement]:
    """The same, or where there was no verdict, of the trial itself.  ``label``: default or best.  Raises InputError."""
    if label not in ("default", "best"):
        raise InputError(f"study {study.id}: found {label!r}; allowed: default, best")
    own = [t for t in trials if (t.number == study.best if label == "best" else t.purpose == "default")]
    return arm(trials, label) or _valid(own)


def _valid(trials: Iterable[Trial]) -> list[Measurement]:
    return [m for t in trials if t.state is TrialState.COMPLETED for m in t.measurements if not m.invalid]
