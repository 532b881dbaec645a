"""Optimizers by name: plug-ins in the entry-point group ``tailor.optimizers``, also the built-in ones.

A plug-in is a class that some installed distribution names in its ``pyproject.toml``; nothing is imported until it
is asked for by name.  Two plug-ins of one name are an error; one that cannot be imported hides no other.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from optimizer.base import Optimizer
from optimizer.errors import InvalidOption, NameCollision, PluginBroken, UnknownOptimizer

GROUP = "tailor.optimizers"

# Errors that importing a plug-in's module may raise; requests to stop the interpreter are not among them.
_IMPORT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
)


@dataclass(frozen=True)
class Plugins:
    """Every installed plug-in: those that work, and for the others the reason why not."""

    working: dict[str, type[Optimizer]]
    broken: dict[str, PluginBroken]


def names(entries: Iterable[EntryPoint] | None = None) -> tuple[str, ...]:
    """Return the names of all plug-ins, sorted, without importing any.  Raises NameCollision.

    ``entries``: entry points to look through instead of the installed ones.
    """
    return tuple(sorted(_by_name(entries)))


def load(name: str, entries: Iterable[EntryPoint] | None = None) -> type[Optimizer]:
    """Return the optimizer of this name.  Raises UnknownOptimizer, NameCollision, PluginBroken."""
    known = _by_name(entries)
    if name not in known:
        raise UnknownOptimizer(name, known)
    return _load(known[name])


def load_all(entries: Iterable[EntryPoint] | None = None) -> Plugins:
    """Import all plug-ins and return them; a broken one is reported and hides no other.  Raises NameCollision."""
    working: dict[str, type[Optimizer]] = {}
    broken: dict[str, PluginBroken] = {}
    for name, entry in sorted(_by_name(entries).items()):
        try:
            working[name] = _load(entry)
        except PluginBroken as error:
            broken[name] = error
    return Plugins(working, broken)


def check_options(kind: type[Optimizer], names: Iterable[str]) -> None:
    """Raise InvalidOption for a name that is no option of the optimizer, even if its constructor takes it."""
    for name in names:
        if name not in kind.options_known:
            known = ", ".join(sorted(kind.options_known)) or "none"
            raise InvalidOption(f"{kind.name} has no option {name!r}; known: {known}")


def _by_name(entries: Iterable[EntryPoint] | None) -> dict[str, EntryPoint]:
    by_name: dict[str, EntryPoint] = {}
    installed = importlib.metadata.entry_points(group=GROUP) if entries is None else entries
    for entry in installed:
        other = by_name.get(entry.name)
        if other is not None:
            raise NameCollision(
                f"two plug-ins are called {entry.name!r}: {other.value} of {_distribution(other)} "
                f"and {entry.value} of {_distribution(entry)}; uninstall one of them"
            )
        by_name[entry.name] = entry
    return by_name


def _load(entry: EntryPoint) -> type[Optimizer]:
    loaded = load_entry(entry)
    if loaded.name != entry.name:
        raise PluginBroken(f"{_where(entry)} calls itself {loaded.name!r}")
    return loaded


def load_entry(entry: EntryPoint) -> type[Optimizer]:
    """Return the class that an entry names, whatever it calls itself.  Raises PluginBroken."""
    where = _where(entry)
    try:
        loaded = entry.load()
    except _IMPORT_ERRORS as error:
        raise PluginBroken(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(loaded, type) or not issubclass(loaded, Optimizer):
        raise PluginBroken(f"{where} is not a subclass of optimizer.base.Optimizer")
    if not isinstance(getattr(loaded, "name", None), str):
        raise PluginBroken(f"{where} has no name")
    return loaded


def _where(entry: EntryPoint) -> str:
    return f"plug-in {entry.name!r} ({entry.value}) of {_distribution(entry)}"


def _distribution(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
