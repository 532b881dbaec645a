"""A registry of adapters by name: those that a package's own modules register, and plug-ins of other packages.

A plug-in is an entry point of the registry's group in the other package's ``pyproject.toml``.  It is imported only when
its name is requested.
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
    """Name -> object.  ``what``: the kind of object, for messages.  ``group``: of entry points.

    ``package``: the one whose modules register objects; empty for none.
    """

    def __init__(self, what: str, group: str, package: str = "") -> None:
        self._what, self._group, self._package = what, group, package
        self._own: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an object under this name."""

        def keep(thing: T) -> T:
            self._own[name] = thing
            return thing

        return keep

    def own(self) -> dict[str, T]:
        """Return name -> object of the package's own objects, in the order of its modules."""
        if self._package:
            _import_modules(self._package)
        return self._own

    def names(self) -> tuple[str, ...]:
        """Return all names, without importing plug-ins."""
        others = {plugged.name for plugged in _plugged_in(self._group, tuple(sys.path))}
        return (*self.own(), *sorted(others - self.own().keys()))

    def get(self, name: str) -> T:
        """Return the object of a name.

        Raises UnknownName, and MissingPrerequisite where a plug-in cannot be loaded or several objects have the name.
        """
        own = self.own()
        plugged_in = [plugged for plugged in _plugged_in(self._group, tuple(sys.path)) if plugged.name == name]
        if name not in own and not plugged_in:
            raise UnknownName(self._what, name, self.names())
        if len(plugged_in) + (name in own) > 1:
            others = ", ".join(plugged.value for plugged in plugged_in)
            own_name = "Tailor's own and " if name in own else ""
            raise MissingPrerequisite(f"several have the name of {self._what} {name}: {own_name}{others}", REMEDY)
        return own[name] if name in own else self._loaded(plugged_in[0])

    def _loaded(self, plugged: EntryPoint) -> T:
        try:
            thing: T = plugged.load()
        except Exception as error:  # the import of someone else's module may raise anything
            problem = f"{self._what} {plugged.name} ({plugged.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise MissingPrerequisite(problem, REMEDY) from error
        return thing


@cache
def _plugged_in(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group on ``path``; cached, because reading all installed packages takes long."""
    return tuple(entry_points(group=group))


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
