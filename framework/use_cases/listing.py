"""The list of studies: from the store alone, without their applications and the measurements of each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.config.outcomes import outcome_constraint
from framework.model import EXTERNAL, Objective, Study, Trial
from framework.ports.store import StudyStore
from framework.report.headline import default_and_best, headline

MOST_TRIALS = 1_000_000  # of a study that is measured here: all of them


@dataclass(frozen=True, slots=True)
class Listed:
    """A study in the list.  ``trials``: their number."""

    study: Study
    trials: int
    headline: str


def listed(store: StudyStore) -> Sequence[Listed]:
    """List the studies that are measured here and whose applications are still there, the oldest first."""
    studies = [study for study in store.studies() if study.testbed != EXTERNAL and study.directory.exists()]
    return [_listed(store, study) for study in studies]


def _listed(store: StudyStore, study: Study) -> Listed:
    # A study is judged by the limits of its plan, whatever its application says.
    objective = Objective(subject_to=tuple(outcome_constraint(text) for text in study.plan.subject_to))
    default, best = default_and_best(study, _trials(store, study), objective)
    return Listed(study, store.trial_count(study.id), headline(study, default, best))


def _trials(store: StudyStore, study: Study) -> Sequence[Trial]:
    """Return trials, the default's and the best among them; with measurements only where the choice needs them."""
    if study.best is not None:
        defaults = store.trial_page(study.id, 0, MOST_TRIALS, purpose="default")
        return [*defaults, *store.numbered(study.id, [study.best])]
    if study.plan.subject_to:
        return store.trials(study.id)
    return store.trial_page(study.id, 0, MOST_TRIALS)
