"""What the routes stand on: Tailor, the queue, who may do what, and which applications there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from framework.api.access import Access, Caller
from framework.api.problems import Refused
from framework.api.rendering import Rendering
from framework.api.scrubbing import detail_of
from framework.compose.safety import unsafe
from framework.errors import InputError, NotFound, TailorError, UnknownName
from framework.model import EXTERNAL, Application, Study, TrialState
from framework.ports import JobQueue, KeyStore
from framework.service import Tailor
from framework.study.external import External
from framework.study.sharing import Sharing
from framework.worker import needs


@dataclass(frozen=True)
class Service:
    """``roots``: directories whose applications may be tuned; nothing outside of them can be named.

    ``allowed``: "application:place" of what a compose file may ask for though it leads out of its containers.
    ``rendering``: of answers that take long.  ``check`` raises StoreError where the database cannot be used.
    """

    tailor: Tailor
    queue: JobQueue
    keys: KeyStore
    access: Access
    external: External
    sharing: Sharing
    rendering: Rendering
    roots: Sequence[Path]
    allowed: Collection[str] = ()
    check: Callable[[], None] = lambda: None

    def applications(self) -> tuple[Mapping[str, Application], Mapping[str, str]]:
        """(those of the folders by name, directory name -> why what is there cannot be used)."""
        found: dict[str, Application] = {}
        broken: dict[str, str] = {}
        for path in (path for root in self.roots for path in sorted(root.glob("*/application.yaml"))):
            try:
                one = self.tailor.application(path)
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
        wanted = self._wanted(found)
        if wanted:
            raise InputError(
                f"{name} asks for {', '.join(wanted)}, which leads out of its containers; "
                f"the operator can allow it: TAILOR_ALLOW='{name}:{wanted[0]}'"
            )
        return found.directory

    def _wanted(self, application: Application) -> list[str]:
        """What its compose file asks for that nobody allowed."""
        asked = unsafe(application.compose, application.directory)
        return [what for what in asked if f"{application.name}:{what}" not in self.allowed]

    def about(self, application: Application) -> dict[str, Any]:
        """An application in a list.  ``asks_for``: why it may not be launched here."""
        return {
            "name": application.name,
            "services": [one.name for one in application.services],
            "rate_rps": application.workload.rate_rps,
            "twin": self.tailor.has_twin(application),
            "profile": self.tailor.profiling.path(application).is_file(),
            "asks_for": self._wanted(application),
        }

    def study(self, name: str) -> Study:
        """The study of this whole id: a beginning would be a guess.  Raises NotFound."""
        found = self.tailor.store.get(name)
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
        return bool(self.tailor.store.trial_page(study.id, 0, 1, purpose="default", state=TrialState.COMPLETED))

    def compared(self, *names: str) -> list[Study]:
        """The studies of names such as "ID" and "ID:default".  Raises NotFound."""
        return [self.tailor.store.get(name.partition(":")[0]) for name in names]

    def wait(self, study: Study, caller: Caller, priority: int) -> None:
        """Let a study wait for a worker; one that waits already keeps its turn."""
        self.queue.put(study.id, priority=priority, owner=caller.name, place=needs(study.testbed))
