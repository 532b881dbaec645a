"""Studies: create, edit, run, delete."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime

from framework.bench import Backends, Watch
from framework.model import Study, StudyState, TuneRequest
from framework.model.events import SpaceEdited
from framework.model.job import ENGINE
from framework.study.imported import remove_description
from framework.study.new_optimizer import new_optimizer
from framework.study.objective import power_of, refuse_cost, with_objective
from framework.study.planning import (
    check_request,
    check_testbeds,
    edited,
    first_decisions,
    quick_on_model,
    study_plan,
    versions,
)
from framework.study.runner import StudyRunner
from framework.study.side_by_side import procedure_of
from framework.study.transferred import transferred
from framework.study.warm_start import history, service_importance
from framework.use_cases.catalogue import Catalogue


class Studies:
    """The life of a study, from its request to its verdict."""

    def __init__(self, backends: Backends, catalogue: Catalogue, runner: StudyRunner) -> None:
        self._backends = backends
        self._store = backends.store
        self._catalogue = catalogue
        self._runner = runner

    def create(self, request: TuneRequest) -> Study:
        """Record a new study without starting it.  Raises InputError, MissingPrerequisite."""
        study = self.prepared(request)
        self._store.create(study)
        return study

    def prepared(self, request: TuneRequest) -> Study:
        """Return a new study, checked and not recorded yet.  Raises InputError, MissingPrerequisite."""
        application = self._backends.application(request.application)
        if request.objective == "throughput" and application.loop != "closed" and application.closed_loop is not None:
            request = replace(request, application=application.closed_loop)
            application = self._backends.application(request.application)
        check_request(request, application)
        application = with_objective(application, request.objective or "")
        kind = self._backends.choose(request.testbeds[0] if request.testbeds else request.testbed, application)
        others = [self._backends.kind(name) for name in request.testbeds[1:]]
        check_testbeds(request, [kind, *others], application)
        if not kind.memory:
            refuse_cost(request, application.objective, kind.name)
        if request.quick and kind.modelled:
            request = quick_on_model(request)
        testbed = kind.open(application, {}).testbed
        testbed.check(application)
        for other in others:
            other.open(application, {}).testbed.check(application)
        application = self._backends.application(request.application)  # its images are here now, and say more
        application = with_objective(application, request.objective or "")
        space = self._catalogue.space(application, request, kind.name)
        known = history(request.history, application.objective, space, self._store)
        transfer = transferred(request.transfer, application, space, self._store, self._backends.application)
        inert = kind.inert(application, self._backends.types_on(testbed.machine()))
        decisions = first_decisions(request, space, known, transfer, inert)
        plan = study_plan(request, application, space, service_importance(request, self._store))
        plan = replace(plan, power=power_of(request, application.objective, testbed.machine(), kind.energy))
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
            versions={
                **versions(),
                **{file: digest for used in (kind, *others) for file, digest in used.digest(application).items()},
            },
            testbed=kind.name,
            modelled=kind.modelled,
            decisions=decisions,
        )

    def edit(self, study_id: str, request: TuneRequest) -> Study:
        """Tune other parameters from here on (``only``, ``without``, ``allow_weaker``); what was measured stays.

        Bounds and defaults come from the knowledge base as it is now.  Raises InputError, NotFound.
        """
        study = self._runner.idle(self._store.get(study_id))
        space = self._catalogue.space(self._backends.application(study.directory), request, study.testbed)
        last = max((trial.number for trial in self._store.trials(study.id)), default=0)
        self._store.set_space(study.id, space.to_dict(), edited(study, space, request, last))
        self._store.add_event(study.id, SpaceEdited(last, len(space)))
        return self._store.get(study.id)

    def run(self, study_id: str, watch: Watch) -> Study:
        """Run or resume a study to its verdict.  Whatever happens, nothing of it is left running.

        Raises Interrupted after a stop (the study is paused then and can be resumed), TailorError otherwise.
        """
        study = self._store.get(study_id)
        if study.state is StudyState.COMPLETED:
            return study
        finished = self._runner.on_bench(study, watch, lambda bench, space: procedure_of(bench, study, space).run())
        return replace(finished, state=StudyState.COMPLETED)

    def delete(self, study_id: str) -> None:
        """Remove a study and all that it measured.  Raises InputError while somebody runs it, NotFound."""
        self._runner.hold(study_id)
        self._store.delete(study_id)
        remove_description(self._backends.home, study_id)

    def resource(self, study: Study) -> str:
        """Return the resource that a study needs for itself alone while it runs; empty where it needs none."""
        names = study.plan.testbeds or (study.testbed,)
        return ENGINE if any(self._backends.kind(name).exclusive for name in names) else ""
