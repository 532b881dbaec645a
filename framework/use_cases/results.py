"""The results of studies: summaries, reports, and the best configuration as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.bench import Backends
from framework.config.writing import write_text
from framework.errors import FieldError, InputError
from framework.kubernetes.manifests import STORAGE
from framework.model import EXTERNAL, Estimate, Study, Trial
from framework.model.study import display_name
from framework.report.arms import cpu_ratio
from framework.report.export import BestOfStudy, export
from framework.report.manifests import export_manifests
from framework.report.page import page
from framework.report.recommendation import lines_as_text
from framework.report.summary import Summary, summarise
from framework.study.imported import needs_application
from framework.study.objective import planned
from framework.use_cases.catalogue import Catalogue
from optimizer.space import SearchSpace


class Results:
    """Measured results of the studies in a store."""

    def __init__(self, backends: Backends, catalogue: Catalogue) -> None:
        self._backends = backends
        self._store = backends.store
        self._home = backends.home
        self._catalogue = catalogue

    def summary(self, study: Study, trials: Sequence[Trial] | None = None, *, with_model: bool = True) -> Summary:
        """Summarise a study so far (``trials``: those at hand).  Raises InputError without its application."""
        application = planned(self._backends.application(study.directory), study.plan)
        trials = self._store.trials(study.id) if trials is None else trials
        types, events = self._catalogue.service_types(), self._store.events(study.id)
        return summarise(study, trials, application, types, events=events, with_model=with_model)

    def summaries(self) -> Sequence[Summary]:
        """Summarise all studies that are measured here and whose applications are still there, without models."""
        studies = self._store.studies()
        return [
            self.summary(study, with_model=False)
            for study in studies
            if study.testbed != EXTERNAL and study.directory.exists()
        ]

    def cpu_ratio(self, study_id: str) -> Estimate:
        """Return the CPU time per request with the best configuration to that with the default, from fresh pairs.

        Raises InputError where the study has none, NotFound.
        """
        study = self._store.get(study_id)
        tracing = self._backends.application(study.directory).tracing
        ratio = cpu_ratio(study, self._store.trials(study.id), () if tracing is None else (tracing.service,))
        if ratio is None:
            raise FieldError("from_study", study_id, "a study with a verdict, whose pairs tell what requests take")
        return ratio

    def page(self, study: Study) -> str:
        """Return the study's report, HTML.  Raises InputError without its application."""
        trials = self._store.trials(study.id)
        return page(self.summary(study, trials), trials)

    def write_report(self, study: Study, path: Path | None = None) -> Path:
        """Write the study's HTML page; by default below TAILOR_HOME.  Raises InputError when that cannot be written."""
        path = path or self._home / "reports" / f"{study.id}.html"
        return write_text(path, self.page(study))

    def export_best(self, study_id: str, directory: Path, *, whole: bool = True) -> Sequence[str]:
        """Write the best configuration, ready to deploy; returns the files' names.  Raises InputError, NotFound.

        ``whole``: with copies of the application's own files that it needs.
        """
        of = self._best(study_id)
        return export(
            of.application, of.types, of.default, of.best, of.study, directory, of.dependent, of.changed, whole=whole
        )

    def export_kubernetes(
        self, study_id: str, directory: Path, *, storage: str = STORAGE, leave_out: bool = False
    ) -> Sequence[str]:
        """Write the best configuration as Kubernetes manifests; return the files' names.  Raises InputError, NotFound.

        ``storage``: size of each volume's claim.  ``leave_out``: what has no counterpart is left out, and said, where
        it is refused otherwise.
        """
        return export_manifests(self._best(study_id), directory, storage=storage, leave_out=leave_out)

    def _best(self, study_id: str) -> BestOfStudy:
        """Return a study's best configuration with what its files are made of.  Raises InputError, NotFound."""
        study = self._store.get(study_id)
        needs_application(study, self._home)
        summary = self.summary(study, with_model=False)
        if summary.best is None:
            raise InputError(f"study {study.id} has no finished trial yet")
        best = next(trial for trial in self._store.trials(study.id) if trial.number == summary.best.trial)
        application = self._backends.application(study.directory)
        space = SearchSpace.from_dict(study.space)
        return BestOfStudy(
            application=application,
            types=self._catalogue.service_types(),
            default=space.default(),
            best=best.configuration,
            study=display_name(study),
            dependent=space.dependents.texts,
            changed=lines_as_text(summary.recommended),
        )
