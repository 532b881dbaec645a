"""The best configuration of an application's study, for whoever measures it again."""

from __future__ import annotations

from framework.errors import FieldError
from framework.model import Application
from framework.ports.store import StudyStore
from optimizer.space import SearchSpace, Value


def tuned(store: StudyStore, study_id: str, application: Application) -> dict[str, Value]:
    """Return what the best configuration of a study changes of the default.

    Raises NotFound, and FieldError for a study of another application, or one that has found nothing.
    """
    study = store.get(study_id)
    if study.directory.resolve() != application.directory.resolve():
        raise FieldError("from_study", study_id, f"a study of {application.name}, not of {study.application_name}")
    best = next((trial for trial in store.trials(study.id) if trial.number == study.best), None)
    if best is None:
        raise FieldError("from_study", study_id, "a study that has found a best configuration")
    default = SearchSpace.from_dict(study.space).default()
    return {name: value for name, value in best.configuration.items() if value != default.get(name)}
