"""Traces: the critical path of requests, from files or Jaeger, and compared between studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework.bench import Backends
from framework.config.writing import write_text
from framework.critical_path.analysis import Analysis, View, analyse
from framework.critical_path.comparison import Groups, between, windows
from framework.report.arms import repetitions
from framework.report.trace_page import trace_page


class Traces:
    """Analyses of traces that were read, and of those that studies measured."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._store = backends.store

    def analyse(self, sources: Sequence[str], view: View, form: str | None = None) -> Analysis:
        """Analyse the traces of files, directories or addresses.  Raises InputError where there is none to use."""
        return analyse(self._backends.traces(sources, form), view)

    def write_analysis(self, analysis: Analysis, path: Path | None = None, other: Analysis | None = None) -> Path:
        """Write the HTML page of an analysis, against another one if given; by default below TAILOR_HOME."""
        path = path or self._backends.home / "reports" / "traces.html"
        compared = between(analysis.table, other.table) if other else None
        return write_text(path, trace_page(analysis, compared, ", ".join(other.traces.sources) if other else ""))

    def compare(self, first: str, second: str) -> Groups:
        """Compare the best configurations of two studies service by service; "ID:default" names a study's default.

        From the repetitions of the verdict where there are some, else of the trial.  Raises InputError, NotFound.
        """
        sides = []
        for name in (first, second):
            identity, _, label = name.partition(":")
            study = self._store.get(identity)
            study.check_measured_here()
            measurements = repetitions(study, self._store.trials(study.id), label or "best")
            sides.append([measurement for measurement in measurements if measurement.services])
        return windows(*sides)

    def labelled(self, name: str) -> str:
        """Return a name of ``compare``, marked where its study was modelled.  Raises NotFound."""
        return f"{name} (modelled)" if self._store.get(name.partition(":")[0]).modelled else name
