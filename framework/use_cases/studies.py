"""The use cases: create, run, resume, look, export, clean.  The command line calls these and nothing below them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from framework.bench import Backends, Bench, Watch
from framework.config.application import load_application
from framework.config.twin_file import twin_path
from framework.config.writing import write_text
from framework.critical_path.analysis import Analysis, View, analyse
from framework.critical_path.comparison import Groups, between, windows
from framework.errors import FieldName, InputError, UnknownName
from framework.model import (
    EXTERNAL,
    Application,
    Finding,
    Machine,
    ServiceType,
    Study,
    StudyState,
    Sweep,
    Trial,
    TuneRequest,
)
from framework.model.events import SpaceEdited, SweepFinished
from framework.model.job import ENGINE
from framework.model.study import display_name
from framework.report.arms import repetitions
from framework.report.export import export
from framework.report.page import page
from framework.report.plots import sweep_plot
from framework.report.summary import Summary, summarise
from framework.report.trace_page import trace_page
from framework.study.imported import needs_application, remove_description
from framework.study.new_optimizer import new_optimizer
from framework.study.planning import (
    check_request,
    edited,
    first_decisions,
    planned,
    quick_on_model,
    space_of,
    study_plan,
    versions,
)
from framework.study.procedure import Procedure
from framework.study.runner import StudyRunner
from framework.study.sweep import sweep
from framework.study.warm_start import history, service_importance
from framework.use_cases.catalogue import optimizers
from framework.use_cases.profile import Profiling
from framework.use_cases.twin import Modelling
from optimizer.space import SearchSpace


class Tailor:
    """The program, as its interfaces see it."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self.store = backends.store
        self.artefacts = backends.artefacts
        self.modelling = Modelling(backends)
        self.profiling = Profiling(backends)
        self.running = StudyRunner(backends)

    def close(self) -> None:
        self.store.close()

    # ------------------------------------------------------------------ knowledge

    def service_types(self) -> Mapping[str, ServiceType]:
        """The knowledge base, every bound and default as a number on this machine."""
        return self._backends.types_on(self.machine())

    def application(self, path: Path) -> Application:
        return load_application(path)

    def space(
        self, application: Application, request: TuneRequest | None = None, testbed: str | None = None
    ) -> SearchSpace:
        """The search space of an application on a testbed's machine.  Raises InputError."""
        asked = request or TuneRequest(application.directory)
        machine = self._backends.machine_of(testbed, application) if testbed else self.machine()
        types = self._backends.types_on(machine)
        topology = self._backends.kind(testbed).topology if testbed else self._backends.kinds[0].topology
        return space_of(application, asked, types, machine, partial(topology, application))

    def testbed_of(self, application: Application, request: TuneRequest) -> str:
        """Where a study of a request runs.  Raises UnknownName, MissingPrerequisite."""
        return self._backends.choose(request.testbed, application).name

    def testbeds(self) -> Mapping[str, bool]:
        """Names of testbeds, and whether each is a model; of another package's only the name is known (False)."""
        known = {kind.name: kind.modelled for kind in self._backends.kinds}
        return known | {name: False for name in sorted(self._backends.plugged_in) if name not in known}

    def resource(self, testbed: str) -> str:
        """What a study on a testbed needs for itself alone while it runs; empty where it needs nothing."""
        return ENGINE if self._backends.kind(testbed).exclusive else ""

    def machine(self) -> Machine:
        """What this process runs on."""
        return self._backends.machine()

    def has_twin(self, application: Application) -> bool:
        return twin_path(application.directory).exists()

    # ------------------------------------------------------------------ studies

    def create(self, request: TuneRequest) -> Study:
        """A new study, recorded but not started.  Raises InputError, MissingPrerequisite."""
        study = self.prepared(request)
        self.store.create(study)
        return study

    def prepared(self, request: TuneRequest) -> Study:
        """A new study, checked and not recorded yet.  Raises InputError, MissingPrerequisite."""
        application = self.application(request.application)
        check_request(request, application)
        kind = self._backends.choose(request.testbed, application)
        if request.quick and kind.modelled:
            request = quick_on_model(request)
        testbed = kind.open(application, {}).testbed
        testbed.check(application)
        space = self.space(application, request, kind.name)
        known = history(request.history, application.objective, space, self.store)
        inert = kind.inert(application, self._backends.types_on(testbed.machine()))
        decisions = first_decisions(request, space, known, inert)
        plan = study_plan(request, application, space, service_importance(request, self.store))
        new_optimizer(plan, decisions, space)
        now = datetime.fromtimestamp(self._backends.clock.now_ns() / 1e9, UTC)
        return Study(
            id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            created_at=now.isoformat(timespec="seconds"),
            state=StudyState.CREATED,
            plan=plan,
            application_hash=application.content_hash,
            space=space.to_dict(),
            machine=testbed.machine(),
            versions={**versions(), **kind.digest(application)},
            testbed=kind.name,
            modelled=kind.modelled,
            decisions=decisions,
        )

    def edit(self, study_id: str, request: TuneRequest) -> Study:
        """Tune other parameters from here on (``only``, ``without``, ``allow_weaker``); what was measured stays.

        Bounds and defaults come from the knowledge base as it is now.  Raises InputError, NotFound.
        """
        study = self.running.idle(self.store.get(study_id))
        application = self.application(study.directory)
        space = self.space(application, request, study.testbed)
        last = max((trial.number for trial in self.store.trials(study.id)), default=0)
        self.store.set_space(study.id, space.to_dict(), edited(study, space, request, last))
        self.store.add_event(study.id, SpaceEdited(last, len(space)))
        return self.store.get(study.id)

    def run(self, study_id: str, watch: Watch) -> Study:
        """Run or resume a study to its verdict.  Whatever happens, nothing of it is left running.

        Raises Interrupted after a stop (the study is paused then and can be resumed), TailorError otherwise.
        """
        study = self.store.get(study_id)
        if study.state is StudyState.COMPLETED:
            return study
        finished = self.running.on_bench(study, watch, lambda bench, space: Procedure(bench, study, space).run())
        return replace(finished, state=StudyState.COMPLETED)

    def delete(self, study_id: str) -> None:
        """Remove a study and all that it measured.  Raises InputError while somebody runs it, NotFound."""
        self.running.hold(study_id)
        self.store.delete(study_id)
        remove_description(self._backends.home, study_id)

    # ------------------------------------------------------------------ looking

    def page(self, study: Study) -> str:
        """The study's report, HTML."""
        trials = self.store.trials(study.id)
        return page(self.summary(study, trials), trials)

    def summary(self, study: Study, trials: Sequence[Trial] | None = None) -> Summary:
        """What a study found so far (``trials``: those at hand).  Raises InputError without its application."""
        application = planned(self.application(study.directory), study.plan)
        found = self.store.trials(study.id) if trials is None else trials
        return summarise(study, found, application, self.service_types())

    def summaries(self) -> Sequence[Summary]:
        return [self.summary(one) for one in self.store.studies() if one.testbed != EXTERNAL and one.directory.exists()]

    def write_report(self, study: Study, path: Path | None = None) -> Path:
        """Write the study's HTML page; by default below TAILOR_HOME.  Raises InputError when that cannot be written."""
        path = path or self._backends.home / "reports" / f"{study.id}.html"
        return write_text(path, self.page(study))

    def export_best(self, study_id: str, directory: Path) -> Sequence[str]:
        """Write the best configuration, ready to deploy; returns the files' names.  Raises InputError, NotFound."""
        study = self.store.get(study_id)
        needs_application(study, self._backends.home)
        summary = self.summary(study)
        if summary.best is None:
            raise InputError(f"study {study.id} has no finished trial yet")
        best = next(t for t in self.store.trials(study.id) if t.number == summary.best.trial)
        application = self.application(study.directory)
        default = SearchSpace.from_dict(study.space).default()
        return export(application, self.service_types(), default, best.configuration, display_name(study), directory)

    def optimizers(self) -> Sequence[Mapping[str, Any]]:
        """Name, summary, source, options and capabilities of every optimizer; a broken plug-in says why it is."""
        return optimizers()

    def service_types_named(self, name: str | None) -> Sequence[ServiceType]:
        """All service types, or the one of this name.  Raises UnknownName."""
        types = self.service_types()
        if name is not None and name not in types:
            raise UnknownName("service type", name, types)
        return [types[name]] if name else list(types.values())

    def applications(self, directory: Path) -> Sequence[Mapping[str, Any]]:
        """The applications below a directory."""
        found = [self.application(path) for path in sorted(directory.glob("**/application.yaml"))]
        return [
            {
                "name": a.name,
                "directory": str(a.directory),
                "services": len(a.services),
                "parameters": len(self.space(a)),
                "rate_rps": a.workload.rate_rps,
            }
            for a in found
        ]

    def examine(self, applications: Sequence[Path]) -> Sequence[Finding]:
        """What this machine can do for these applications and what is missing."""
        found = [self.application(path) for path in applications]
        findings = list(self._backends.manager(self.service_types()).examine(found))
        for application in found:
            for kind in self._backends.kinds[1:]:
                if kind.available(application):
                    findings += kind.open(application, {}).testbed.examine([application])
        return findings

    # ------------------------------------------------------------------ the rate

    def sweep(
        self,
        path: Path,
        watch: Watch,
        *,
        start_rps: float,
        factor: float,
        limit_ms: float,
        window_s: float,
        repetitions: int,
        maximum_rps: float,
        seed: int,
        limits: Mapping[str, float],
        testbed: str = "auto",
    ) -> Sweep:
        """Raise the rate on the default configuration; recorded as a study of its own.  Raises InputError."""
        if factor <= 1 or start_rps <= 0:
            raise InputError(
                FieldName("start_rps"), ", ", FieldName("factor"),
                f": found {start_rps:g}, {factor:g}; allowed: above 0, above 1",
            )  # fmt: skip
        request = TuneRequest(
            path,
            optimizer="random",
            iterations=1,
            repetitions=repetitions,
            window_s=window_s,
            rate_rps=start_rps,
            pairs=2,
            minimal=0,
            seed=seed,
            limits=limits,
            testbed=testbed,
        )
        study = self.create(request)

        def steps(bench: Bench, space: SearchSpace) -> Sweep:
            found = sweep(
                bench,
                study.id,
                study.plan,
                space.default(),
                start_rps=start_rps,
                factor=factor,
                limit_ms=limit_ms,
                maximum_rps=maximum_rps,
            )
            self.store.add_event(study.id, SweepFinished(found))
            return found

        return self.running.on_bench(study, watch, steps)

    def plot_sweep(self, found: Sweep, path: Path | None = None) -> Path:
        """Draw a sweep; by default below TAILOR_HOME."""
        path = path or self._backends.home / "reports" / f"sweep-{found.application}.svg"
        return write_text(path, sweep_plot(found))

    # ------------------------------------------------------------------ traces

    def analyse(self, sources: Sequence[str], view: View, form: str | None = None) -> Analysis:
        """What the traces of files, directories or addresses say.  Raises InputError where there is none to use."""
        return analyse(self._backends.traces(sources, form), view)

    def compare(self, first: str, second: str) -> Groups:
        """Service by service, the best configurations of two studies; "ID:default" names a study's default instead.

        From the repetitions of the verdict where there are some, else of the trial.  Raises InputError, NotFound.
        """
        sides = []
        for name in (first, second):
            identity, _, label = name.partition(":")
            study = self.store.get(identity)
            study.check_measured_here()
            found = repetitions(study, self.store.trials(study.id), label or "best")
            sides.append([m for m in found if m.services])
        return windows(*sides)

    def labelled(self, name: str) -> str:
        """A name of ``compare``, saying so where its study was modelled.  Raises NotFound."""
        return f"{name} (modelled)" if self.store.get(name.partition(":")[0]).modelled else name

    def write_analysis(self, found: Analysis, path: Path | None = None, other: Analysis | None = None) -> Path:
        """Write the HTML page of an analysis, against another one if given; by default below TAILOR_HOME."""
        path = path or self._backends.home / "reports" / "traces.html"
        compared = between(found.table, other.table) if other else None
        return write_text(path, trace_page(found, compared, ", ".join(other.traces.sources) if other else ""))

    # ------------------------------------------------------------------ leaving

    def clean(
        self, *, seeds: bool = False, projects: Sequence[str] = ()
    ) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """Remove what dead studies and profiles of this TAILOR_HOME left, and with ``seeds`` the kept data.

        ``projects``: of another TAILOR_HOME, removed too, whether they live there or not; others are left alone.
        Returns what was removed, the projects that were left alone, and those of which the engine keeps something.
        Raises InputError for a project that is not there, or is of this TAILOR_HOME.
        """
        testbed = self._backends.manager(self.service_types())
        strangers = self.running.strangers(testbed)
        for name in projects:
            if name not in strangers:
                allowed = ", ".join(strangers) or "none are there"
                raise InputError(f"{name!r} is not a project of another TAILOR_HOME; allowed: {allowed}")
        removed = self.running.clean_dead(testbed)
        removed += [one for name in projects for one in testbed.clean(name)]
        removed += testbed.clean_datasets() if seeds else []
        left = [name for name in strangers if name not in projects]
        return removed, left, self.running.kept(testbed, projects)
