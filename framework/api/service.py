"""What the routes stand on: the use cases, the queue, who may do what, and which applications there are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from framework.api.access import Access, Caller
from framework.api.asking import Asking
from framework.api.problems import Refused
from framework.api.readiness import Readiness
from framework.api.rendering import Rendering
from framework.api.scrubbing import detail_of, scrubbed
from framework.bench import Backends
from framework.compose.gate import CLOSED, Gate
from framework.config.application import load_application
from framework.config.twin_file import twin_path
from framework.errors import IllegalTransition, NotFound, TailorError, UnknownName
from framework.model import EXTERNAL, Application, Study, StudyState, TrialState
from framework.model.job import IdempotencyKey, Job
from framework.ports.service import JobQueue
from framework.ports.store import LaunchStore, StudyStore
from framework.study.export import StudyExport
from framework.study.external import External
from framework.study.runner import StudyRunner
from framework.use_cases.catalogue import Catalogue
from framework.use_cases.profile import Profiles
from framework.use_cases.results import Results
from framework.use_cases.studies import Studies


@dataclass(frozen=True)
class Service:
    """``roots``: directories whose applications may be tuned; nothing outside of them can be named.

    ``gate``: what their compose files may ask for.  ``rendering``: of answers that take long; ``asking``: of asks of
    large spaces.  ``readiness``: whether disk and database can be used.
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
    asking: Asking
    readiness: Readiness
    roots: Sequence[Path]
    gate: Gate = CLOSED

    def applications(self) -> tuple[Mapping[str, Application], Mapping[str, str]]:
        """(those of the folders by name, directory name -> why what is there cannot be used)."""
        found: dict[str, Application] = {}
        broken: dict[str, str] = {}
        for path in (path for root in self.roots for path in sorted(root.glob("*/application.yaml"))):
            try:
                one = load_application(path)
                found.setdefault(one.name, one)
            except TailorError as error:
                broken[path.parent.name] = detail_of(error)
        return found, broken

    def application(self, name: str) -> Application:
        """Raises UnknownName."""
        known, _ = self.applications()
        if name not in known:
            raise UnknownName("application", name, known)
        return known[name]

    def launchable(self, name: str) -> Path:
        """Its directory.  Raises UnknownName, InputError where its compose file asks for more than is allowed."""
        found = self.application(name)
        self.gate.application(found)
        return found.directory

    def resumable(self, name: str) -> Study:
        """The study, where it may go on here.

        Raises NotFound, IllegalTransition for one that is completed, MeasuredElsewhere, FileError without its
        application, InputError where that came with the study from elsewhere, or its compose file asks for more than
        is allowed.
        """
        study = self.study(name)
        if study.state is StudyState.COMPLETED:
            raise IllegalTransition(f"study {study.id} is completed")
        self.runner.check_runnable(study)
        self.gate.application(load_application(study.directory))
        return study

    def about(self, application: Application) -> dict[str, Any]:
        """An application in a list.  ``asks_for``: why it may not be launched here."""
        return {
            "name": application.name,
            "services": [one.name for one in application.services],
            "rate_rps": application.workload.rate_rps,
            "twin": twin_path(application.directory).exists(),
            "profile": self.profiles.path(application).is_file(),
            "asks_for": [scrubbed(refusal.place) for refusal in self.gate.admitted(application).refused],
        }

    def study(self, name: str) -> Study:
        """The study of this whole id: a beginning would be a guess.  Raises NotFound."""
        found = self.store.get(name)
        if found.id != name:
            raise NotFound(f"no study {name!r}")
        return found

    def tuned(self, name: str) -> Study:
        """As ``study``, of an application.  Raises NotFound, and Refused where it is measured elsewhere."""
        found = self.study(name)
        if found.testbed == EXTERNAL:
            raise Refused(HTTPStatus.CONFLICT, "this study is measured elsewhere: it has trials, and nothing else")
        return found

    def has_value(self, study: Study) -> bool:
        """Whether the default is measured: before, there is nothing that would take long to compute."""
        return bool(self.store.trial_page(study.id, 0, 1, purpose="default", state=TrialState.COMPLETED))

    def compared(self, *names: str) -> list[Study]:
        """The studies of names such as "ID" and "ID:default".  Raises NotFound."""
        return [self.store.get(name.partition(":")[0]) for name in names]

    def wait(self, study: Study, caller: Caller, priority: int) -> None:
        """Let a study wait for a worker; one that waits already keeps its turn."""
        self.queue.put(study.id, priority=priority, owner=caller.name, resource=self.studies.resource(study))

    def once(
        self,
        caller: Caller,
        key: str | None,
        request: str,
        prepared: Callable[[], Study],
        priority: int | None = None,
    ) -> tuple[Study, bool]:
        """Make a study, or find the one that the same ``request`` made with the same ``key``; whether it is new.

        ``priority``: of the job that it waits with; None: it waits for no worker.  Raises InputError where the key came
        with another request, and what ``prepared`` raises: then nothing is recorded, the key neither.
        """
        found = None if key is None else IdempotencyKey(caller.name, key, hashlib.sha256(request.encode()).hexdigest())
        first = self.launches.made_by(found) if found is not None else None
        if first is None:  # else what it was made of may have changed since
            study = prepared()
            job = None if priority is None else Job(study.id, priority, caller.name, self.studies.resource(study), 0)
            first = self.launches.launch(study, job, found)
            if first == study.id:
                return study, True
        return self.store.get(first), False
