"""Running a study on a testbed: leased to one process, from a clean start, cleaned up whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from framework.bench import Backends, Bench, Watch
from framework.controller import Controller
from framework.critical_path.service_time import compile_once
from framework.errors import (
    InputError,
    Interrupted,
    MissingPrerequisite,
    StoreBusy,
    StoreError,
    TailorError,
    Transient,
)
from framework.model import EXTERNAL, Application, Study, StudyState, Trial, TrialState
from framework.model.events import DatasetStepStarted, NotesGiven, TestbedLost
from framework.model.study import project_name
from framework.ports.testbed import Testbed
from framework.study.imported import needs_application
from framework.study.lease import Lease
from framework.study.locks import known_projects, process_lock
from framework.study.objective import planned
from optimizer.space import SearchSpace

T = TypeVar("T")


class StudyRunner:
    """Runs studies in this process, and cleans up after processes that were killed."""

    def __init__(self, backends: Backends) -> None:
        self._backends, self._store, self._lease = backends, backends.store, Lease(backends.store)

    @property
    def holder(self) -> str:
        """This process, as leases name it."""
        return self._lease.holder

    def release_dead(self) -> None:
        """End the leases of killed processes of this machine, so that others can go on with their studies at once."""
        self._lease.release_dead()

    def hold(self, study: str) -> None:
        """Take the lease of a study.  Raises InputError where any process runs it, this one included."""
        self._lease.take_alone(study)

    def idle(self, study: Study) -> Study:
        """Return the study, set to paused where its process was killed.  Raises InputError where a process runs it."""
        if study.state is not StudyState.RUNNING or study.testbed == EXTERNAL:
            return study
        self._lease.take_alone(study.id)
        try:
            self._store.set_state(study.id, StudyState.PAUSED, "its process ended")
        finally:
            self._lease.release(study.id)
        return self._store.get(study.id)

    def check_runnable(self, study: Study) -> None:
        """Raise InputError where the study's application was imported with it: nobody here vouches for its containers.

        Raise MeasuredElsewhere where the study has no application.
        """
        needs_application(study, self._backends.home)

    def on_bench(self, study: Study, watch: Watch, work: Callable[[Bench, SearchSpace], T]) -> T:
        """Do ``work`` for a study: with its lease, on a clean testbed with seeded data; record the study's states.

        Raises InputError where the study cannot go on, Interrupted, Transient, StoreError, and what ``work`` raises.
        """
        self.check_runnable(study)
        application = self._backends.application(study.directory)
        if application.content_hash != study.application_hash:
            raise InputError(f"{application.directory} changed since study {study.id} began; start a new study")
        if any(
            self._backends.kind(name).digest(application).items() - study.versions.items() for name in _names(study)
        ):
            raise InputError(
                f"the {study.testbed} of {application.name} changed since study {study.id} began; start a new study"
            )
        application = planned(application, study.plan)
        self._lease.take(study.id)
        with self._backends.observed(study, self._lease.renewing(study.id, watch)) as observed:
            return self._leased(study, application, observed, work)

    def _leased(
        self, study: Study, application: Application, watch: Watch, work: Callable[[Bench, SearchSpace], T]
    ) -> T:
        # Several testbeds are deployed to alike, for the machine of the first, which may be away when a study goes on.
        machine = study.machine if study.plan.testbeds else self._backends.machine_of(study.testbed, application)
        types = self._backends.types_on(machine)
        benches = [self._backends.bench(name, application, types, watch) for name in _names(study)]
        done = False
        try:
            there = self._there(study, benches, lambda bench: bench.testbed.check(application))
            said = self._give_notes(there[0], study.id, ())
            self._store.set_state(study.id, StudyState.RUNNING)
            there = self._there(study, there, lambda bench: self.clean_dead(bench.testbed))
            self._abort_unfinished(study.id)
            space = SearchSpace.from_dict(study.space)
            watch(DatasetStepStarted("compiling (the first time)"))
            compile_once()
            there = self._there(study, there, lambda bench: self._dataset(bench, study, space))
            bench = replace(there[0], team=tuple(there) if study.plan.testbeds else ())
            self._give_notes(bench, study.id, said)
            result = work(bench, space)
            self._store.set_state(study.id, StudyState.COMPLETED)
            done = True
            return result
        except (KeyboardInterrupt, Interrupted) as error:
            self._stopped(study.id, StudyState.PAUSED, "interrupted")
            raise Interrupted(f"study {study.id} is paused; continue with: tailor resume {study.id}") from error
        except (Transient, StoreError) as error:
            self._stopped(study.id, StudyState.PAUSED, str(error))
            raise
        except TailorError as error:
            self._stopped(study.id, StudyState.FAILED, str(error))
            raise
        finally:
            try:
                self._clean(study, benches, data=done)  # a study that is resumed needs the same data
            finally:
                self._lease.release(study.id)

    def _there(self, study: Study, benches: Sequence[Bench], work: Callable[[Bench], object]) -> Sequence[Bench]:
        """Do ``work`` on each bench; return those that are there.

        Of several testbeds, one that is away is left out; raises what it raised where all are away.
        """
        there, away = [], []
        for bench in benches:
            try:
                work(bench)
                there.append(bench)
            except StoreBusy:
                raise
            except (Transient, MissingPrerequisite) as error:
                away.append((bench, error))
        if not there:
            raise away[0][1]
        for bench, reason in away:
            lost = TestbedLost(bench.name, str(reason))
            self._store.add_event(study.id, lost)
            bench.watch(lost)
        return there

    def _clean(self, study: Study, benches: Sequence[Bench], *, data: bool) -> None:
        """Clean every testbed of a study, whatever happens on another; raise the first error of one that is there."""
        errors = []
        for bench in benches:
            try:
                bench.testbed.clean(project_name(study.id), data=data)
            except TailorError as error:
                errors.append(error)
        lost = len(benches) > 1 and all(isinstance(error, Transient | MissingPrerequisite) for error in errors)
        if errors and not lost:  # what is left on one that is away, the next study there or `tailor clean` removes
            raise errors[0]

    def _stopped(self, study: str, state: StudyState, message: str) -> None:
        """Record why a study stopped; where the store cannot be written it stays "running" until it is resumed."""
        with suppress(StoreError, StoreBusy):
            self._store.set_state(study, state, message)

    def _give_notes(self, bench: Bench, study: str, said: Collection[str]) -> Collection[str]:
        """Record and return the testbed's notes on the application; those ``said`` before are not repeated."""
        notes = bench.testbed.notes(bench.application)
        if new := tuple(note for note in notes if note not in said):
            given = NotesGiven(new)
            bench.watch(given)
            self._store.add_event(study, given)
        return notes

    def _dataset(self, bench: Bench, study: Study, space: SearchSpace) -> None:
        trial = Trial(study.id, 0, "default", space.default(), TrialState.RUNNING)
        deployment = Controller(bench, study.id, study.effective_plan).render(trial, 0)
        bench.testbed.load_dataset(bench.application, deployment, lambda step: bench.watch(DatasetStepStarted(step)))

    def _abort_unfinished(self, study: str) -> None:
        """Mark trials that a killed process left running as aborted."""
        for trial in self._store.trials(study, [TrialState.RUNNING]):
            self._store.finish_trial(replace(trial, state=TrialState.ABORTED, reason="the process ended"))

    def clean_dead(self, testbed: Testbed) -> list[str]:
        """Remove what studies and profiles of this TAILOR_HOME left behind and nobody runs; return what was removed."""
        self._lease.release_dead()
        alive = {study for study, _ in self._store.leased()}
        ours = {project_name(study.id) for study in self._store.studies() if study.id not in alive}
        present = set(testbed.projects())
        removed = [name for project in sorted(ours & present) for name in testbed.clean(project)]
        for project in sorted(present.intersection(known_projects(self._backends.home))):
            with suppress(InputError), process_lock(self._backends.home, project):
                removed += testbed.clean(project)
        return removed

    def kept(self, testbed: Testbed, cleaned: Collection[str]) -> list[str]:
        """Return the projects that nobody runs, or that were ``cleaned``, and that are still on the testbed."""
        alive = {project_name(study) for study, _ in self._store.leased()}
        ours = {project_name(study.id) for study in self._store.studies()} - alive
        return sorted(set(testbed.projects()) & (ours | set(cleaned)))

    def strangers(self, testbed: Testbed) -> list[str]:
        """Return the projects on the testbed that belong to another TAILOR_HOME, running or not."""
        ours = {project_name(study.id) for study in self._store.studies()}.union(known_projects(self._backends.home))
        return sorted(set(testbed.projects()) - ours)


def _names(study: Study) -> tuple[str, ...]:
    """Return the names of the testbeds that a study runs on, the reference first."""
    return study.plan.testbeds or (study.testbed,)
