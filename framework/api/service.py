"""What the routes stand on: Tailor, the queue, who may do what, and which applications there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.api.access import Access, Caller
from framework.compose.gate import CLOSED, Gate
from framework.errors import NotFound, TailorError, UnknownName
from framework.model import Application, Study
from framework.ports import JobQueue, KeyStore
from framework.service import Tailor
from framework.study.external import External
from framework.study.sharing import Sharing
from framework.worker import needs


@dataclass(frozen=True)
class Service:
    """``roots``: directories whose applications may be tuned; nothing outside of them can be named.

    ``gate``: what their compose files may ask for.
    """

    tailor: Tailor
    queue: JobQueue
    keys: KeyStore
    access: Access
    external: External
    sharing: Sharing
    roots: Sequence[Path]
    gate: Gate = CLOSED

    def applications(self) -> tuple[Mapping[str, Application], Mapping[str, str]]:
        """(those of the folders by name, directory name -> why what is there cannot be used)."""
        found: dict[str, Application] = {}
        broken: dict[str, str] = {}
        for path in (path for root in self.roots for path in sorted(root.glob("*/application.yaml"))):
            try:
                one = self.tailor.application(path)
                found.setdefault(one.name, one)
            except TailorError as error:
                broken[path.parent.name] = str(error).replace(str(path.parent), path.parent.name)
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

    def about(self, application: Application) -> dict[str, Any]:
        """An application in a list.  ``asks_for``: why it may not be launched here."""
        return {
            "name": application.name,
            "services": [one.name for one in application.services],
            "rate_rps": application.workload.rate_rps,
            "twin": self.tailor.has_twin(application),
            "profile": self.tailor.profiling.path(application).is_file(),
            "asks_for": [refusal.place for refusal in self.gate.admitted(application).refused],
        }

    def study(self, name: str) -> Study:
        """The study of this whole id: a beginning would be a guess.  Raises NotFound."""
        found = self.tailor.store.get(name)
        if found.id != name:
            raise NotFound(f"no study {name!r}")
        return found

    def wait(self, study: Study, caller: Caller, priority: int) -> None:
        """Let a study wait for a worker; one that waits already keeps its turn."""
        self.queue.put(study.id, priority=priority, owner=caller.name, place=needs(study.testbed))
