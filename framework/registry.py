"""Registries of plug-ins (testbeds, load generators, trace formats) by name, so that a new one is one file.

Tailor's own files register theirs when they are imported.  Another package names its plug-ins in its
``pyproject.toml``, as entry points of the registry's group; none is imported until it is asked for by name.
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
    """Plug-ins of one kind.  ``what``: the kind, for messages.  ``group``: the entry points' group.

    ``package``: Tailor's own package whose modules register plug-ins; empty where the caller registers them.
    """

    def __init__(self, what: str, group: str, package: str = "") -> None:
        self._what, self._group, self._package = what, group, package
        self._own: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers a plug-in under this name."""

        def add(plugin: T) -> T:
            self._own[name] = plugin
            return plugin

        return add

    def own(self) -> dict[str, T]:
        """Return Tailor's own plug-ins by name, in the order of their files."""
        if self._package:
            _import_modules(self._package)
        return self._own

    def names(self) -> tuple[str, ...]:
        """Return all names, without importing the plug-ins of other packages."""
        others = {entry.name for entry in _entry_points(self._group, tuple(sys.path))}
        return (*self.own(), *sorted(others - self.own().keys()))

    def get(self, name: str) -> T:
        """Return the plug-in of this name.

        Raises UnknownName, and MissingPrerequisite where it cannot be loaded or several have this name.
        """
        own = self.own()
        entries = [entry for entry in _entry_points(self._group, tuple(sys.path)) if entry.name == name]
        if name not in own and not entries:
            raise UnknownName(self._what, name, self.names())
        if len(entries) + (name in own) > 1:
            others = ", ".join(entry.value for entry in entries)
            here = "Tailor's own and " if name in own else ""
            raise MissingPrerequisite(f"several have the name of {self._what} {name}: {here}{others}", REMEDY)
        return own[name] if name in own else self._load(entries[0])

    def _load(self, entry: EntryPoint) -> T:
        try:
            plugin: T = entry.load()
        except Exception as error:  # the import of someone else's module may raise anything
            said = f"{self._what} {entry.name} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise MissingPrerequisite(said, REMEDY) from error
        return plugin


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the group's entry points on the path; cached, since reading all installed packages takes milliseconds."""
    return tuple(entry_points(group=group))


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
