"""What the routes stand on: Tailor, the queue, who may do what, and which applications there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.api.access import Access
from framework.compose.safety import unsafe
from framework.errors import InputError, TailorError, UnknownName
from framework.external import External
from framework.ports import JobQueue, KeyStore
from framework.service import Tailor
from framework.worker import place_of


@dataclass(frozen=True)
class Service:
    """``roots``: directories whose applications may be tuned; nothing outside of them can be named.

    ``allowed``: "application:place" of what a compose file may ask for though it leads out of its containers.
    """

    tailor: Tailor
    queue: JobQueue
    keys: KeyStore
    access: Access
    external: External
    roots: Sequence[Path]
    allowed: Collection[str] = ()

    def applications(self) -> Mapping[str, Path]:
        """Name -> directory; one that cannot be read is left out, and ``broken`` says why."""
        found: dict[str, Path] = {}
        for path in self._files():
            try:
                found.setdefault(self.tailor.application(path).name, path.parent)
            except TailorError:
                continue
        return found

    def broken(self) -> Mapping[str, str]:
        """Directory name -> why its application cannot be used."""
        found = {}
        for path in self._files():
            try:
                self.tailor.application(path)
            except TailorError as error:
                found[path.parent.name] = str(error).replace(str(path.parent), path.parent.name)
        return found

    def application(self, name: str) -> Path:
        """Raises UnknownName, InputError where its compose file asks for more than the operator allows."""
        known = self.applications()
        if name not in known:
            raise UnknownName("application", name, known)
        found = self.tailor.application(known[name])
        wanted = [what for what in unsafe(found.compose, found.directory) if f"{name}:{what}" not in self.allowed]
        if wanted:
            raise InputError(
                f"{name} asks for {', '.join(wanted)}, which leads out of its containers; "
                f"the operator can allow it: TAILOR_ALLOW='{name}:{wanted[0]}'"
            )
        return known[name]

    def place(self, testbed: str) -> str:
        """What a study needs for itself alone: the engine of a machine; a model needs nothing."""
        return place_of(testbed, self.tailor.machine().hostname)

    def _files(self) -> list[Path]:
        return [path for root in self.roots for path in sorted(root.glob("*/application.yaml"))]
