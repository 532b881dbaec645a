"""Things by name, so that a new one is one file: what a package's own files register, and what other packages bring.

Another package names its things in its ``pyproject.toml``, as entry points of the registry's group.  None of them is
imported until it is asked for by name.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from framework.errors import MissingPrerequisite, UnknownName

REMEDY = "repair or uninstall the package that has it"

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
        others = {plugged.name for plugged in _plugged_in(self._group, tuple(sys.path))}
        return (*self.own(), *sorted(others - self.own().keys()))

    def get(self, name: str) -> T:
        """Raises UnknownName, MissingPrerequisite where what has the name cannot be loaded, or is not the only one."""
        own = self.own()
        plugged_in = [one for one in _plugged_in(self._group, tuple(sys.path)) if one.name == name]
        if name not in own and not plugged_in:
            raise UnknownName(self._what, name, self.names())
        if len(plugged_in) + (name in own) > 1:
            others = ", ".join(plugged.value for plugged in plugged_in)
            here = "Tailor's own and " if name in own else ""
            raise MissingPrerequisite(f"several have the name of {self._what} {name}: {here}{others}", REMEDY)
        return own[name] if name in own else self._loaded(plugged_in[0])

    def _loaded(self, plugged: EntryPoint) -> T:
        try:
            thing: T = plugged.load()
        except Exception as error:  # the import of someone else's module may raise anything
            said = f"{self._what} {plugged.name} ({plugged.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise MissingPrerequisite(said, REMEDY) from error
        return thing


@cache
def _plugged_in(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Of the packages along the path; kept, because a look through all installed packages takes milliseconds."""
    return tuple(entry_points(group=group))


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
