"""Things by name, so that a new one is one file: what a package's own files register, and what other packages bring.

Another package names its things in its ``pyproject.toml``, as entry points of the registry's group.  None of them is
imported until it is asked for by name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from framework.errors import MissingPrerequisite, UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """``what``: the kind of thing, for messages.  ``group``: of entry points.  ``package``: whose modules register."""

    def __init__(self, what: str, group: str, package: str = "") -> None:
        self._what, self._group, self._package = what, group, package
        self._own: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate what has this name from now on."""

        def keep(thing: T) -> T:
            self._own[name] = thing
            return thing

        return keep

    def own(self) -> dict[str, T]:
        """Those of the package, by name, in the order of its files."""
        if self._package:
            _import_modules(self._package)
        return self._own

    def names(self) -> tuple[str, ...]:
        """All names, without importing what other packages bring."""
        return (*self.own(), *sorted(self._plugged_in().keys() - self.own().keys()))

    def get(self, name: str) -> T:
        """Raises UnknownName, MissingPrerequisite where a package's thing cannot be loaded."""
        if name in self.own():
            return self._own[name]
        plugged_in = self._plugged_in()
        if name not in plugged_in:
            raise UnknownName(self._what, name, self.names())
        return self._loaded(plugged_in[name])

    def _plugged_in(self) -> dict[str, EntryPoint]:
        return {plugged.name: plugged for plugged in entry_points(group=self._group)}

    def _loaded(self, plugged: EntryPoint) -> T:
        try:
            thing: T = plugged.load()
        except Exception as error:  # the import of someone else's module may raise anything
            said = f"{self._what} {plugged.name} ({plugged.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise MissingPrerequisite(said, "repair or uninstall the package that has it") from error
        return thing


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
