"""The service behind the routes: the use cases, the queue, access control, and the applications that may be tuned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from framework.api.access import Access, Caller
from framework.api.large_spaces import LargeSpaces
from framework.api.problems import Refused
from framework.api.readiness import Readiness
from framework.api.rendering import Rendering
from framework.api.scrubbing import detail_of, scrubbed
from framework.bench import Backends
from framework.capacity.records import PlanRecords
from framework.compose.gate import CLOSED, Gate
from framework.config.twin_file import twin_path
from framework.errors import IllegalTransition, NotFound, TailorError, UnknownName
from framework.guard.audit import Audits
from framework.model import EXTERNAL, Application, Study, StudyState, TrialState
from framework.model.job import IdempotencyKey, Job
from framework.ports.service import JobQueue
from framework.ports.store import LaunchStore, StudyStore
from framework.study.energy_records import EnergyRecords
from framework.study.export import StudyExport
from framework.study.external import External
from framework.study.runner import StudyRunner
from framework.use_cases.catalogue import Catalogue
from framework.use_cases.profile import Profiles
from framework.use_cases.results import Results
from framework.use_cases.studies import Studies


@dataclass(frozen=True)
class Service:
    """The use cases, adapters and shared state of one application.

    ``roots``: directories whose applications may be tuned; requests cannot name others.  ``gate``: checks what their
    compose files ask for.  ``rendering``: computes answers that take long.  ``large_spaces``: answers asks and tells of
    large spaces.  ``readiness``: checks disk and database.  ``audits``: of guards.  ``plans``: of machines.
    ``energies``: measurements of energy.
    """

    backends: Backends
    store: StudyStore
    catalogue: Catalogue
    studies: Studies
    results: Results
    profiles: Profiles
    runner: StudyRunner
    queue: JobQueue
    launches: LaunchStore
    access: Access
    external: External
    sharing: StudyExport
    rendering: Rendering
    large_spaces: LargeSpaces
    readiness: Readiness
    audits: Audits
    plans: PlanRecords
    energies: EnergyRecords
    roots: Sequence[Path]
    gate: Gate = CLOSED

    def applications(self) -> tuple[Mapping[str, Application], Mapping[str, str]]:
        """Return (application name -> application, directory name -> why its application cannot be used)."""
        usable: dict[str, Application] = {}
        broken: dict[str, str] = {}
        for path in (path for root in self.roots for path in sorted(root.glob("*/application.yaml"))):
            try:
                application = self.backends.application(path)
                usable.setdefault(application.name, application)
            except TailorError as error:
                broken[path.parent.name] = detail_of(error)
        return usable, broken

    def application(self, name: str) -> Application:
        """Return the application of this name.  Raises UnknownName."""
        usable, _ = self.applications()
        if name not in usable:
            raise UnknownName("application", name, usable)
        return usable[name]

    def launchable(self, name: str) -> Path:
        """Return the directory of an application that may be launched.

        Raises UnknownName, and InputError where its compose file asks for more than is allowed.
        """
        application = self.application(name)
        self.gate.application(application)
        return application.directory

    def resumable(self, name: str) -> Study:
        """Return the study, which may be resumed here.

        Raises NotFound, IllegalTransition for a study that is completed, MeasuredElsewhere, and FileError where its
        application is missing.  Raises InputError where the application was imported with the study, or its
        compose file asks for more than is allowed.
        """
        study = self.study(name)
        if study.state is StudyState.COMPLETED:
            raise IllegalTransition(f"study {study.id} is completed")
        self.runner.check_runnable(study)
        self.gate.application(self.backends.application(study.directory))
        return study

    def application_document(self, application: Application) -> dict[str, Any]:
        """Return an application as lists show it.  ``asks_for``: why it may not be launched here."""
        return {
            "name": application.name,
            "services": [service.name for service in application.services],
            "rate_rps": application.workload.rate_rps,
            "twin": twin_path(application.directory).exists(),
            "profile": self.profiles.path(application).is_file(),
            "asks_for": [scrubbed(refusal.place) for refusal in self.gate.admitted(application).refused],
        }

    def study(self, name: str) -> Study:
        """Return the study of this whole id; a prefix of an id is not enough.  Raises NotFound."""
        study = self.store.get(name)
        if study.id != name:
            raise NotFound(f"no study {name!r}")
        return study

    def tuned(self, name: str) -> Study:
        """Return a study that Tailor measures.  Raises NotFound, and Refused where clients measure it elsewhere."""
        study = self.study(name)
        if study.testbed == EXTERNAL:
            raise Refused(HTTPStatus.CONFLICT, "this study is measured elsewhere: it has trials, and nothing else")
        return study

    def is_default_measured(self, study: Study) -> bool:
        """Whether the default is measured: before that, no answer about the study takes long to compute."""
        return bool(self.store.trial_page(study.id, 0, 1, purpose="default", state=TrialState.COMPLETED))

    def compared(self, *names: str) -> list[Study]:
        """Return the studies of names such as "ID" and "ID:default".  Raises NotFound."""
        return [self.store.get(name.partition(":")[0]) for name in names]

    def enqueue(self, study: Study, caller: Caller, priority: int) -> None:
        """Put a study into the queue; a study that is in the queue already keeps its turn."""
        self.queue.put(study.id, priority=priority, owner=caller.name, resource=self.studies.resource(study))

    def create_once(
        self,
        caller: Caller,
        key: str | None,
        request: str,
        prepared: Callable[[], Study],
        priority: int | None = None,
    ) -> tuple[Study, bool]:
        """Return (the study, whether it is new): a new one, or the one that this ``request`` and ``key`` made before.

        ``priority``: of the job in the queue; None: no job.  Raises InputError where the key came with another request,
        and the errors of ``prepared``; then neither study nor key is recorded.
        """
        digest = hashlib.sha256(request.encode()).hexdigest()
        idempotency_key = None if key is None else IdempotencyKey(caller.name, key, digest)
        first = self.launches.made_by(idempotency_key) if idempotency_key is not None else None
        if first is None:  # only then is it prepared: its application may have changed since the first request
            study = prepared()
            job = None if priority is None else Job(study.id, priority, caller.name, self.studies.resource(study), 0)
            first = self.launches.launch(study, job, idempotency_key)
            if first == study.id:
                return study, True
        return self.store.get(first), False
