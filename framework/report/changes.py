"""The changes of a configuration: parameter by parameter, and grouped by the parameter's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from framework.model import Application, ServiceType
from optimizer.space import Configuration, Value


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter that the best configuration sets differently from the default.

    ``follows``: the text that its value follows from, so that it is no change of its own; empty where it was searched.
    """

    service: str
    parameter: str
    default: Value
    value: Value
    unit: str
    description: str
    role: str
    follows: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes of parameters with one name and one default, in one service or many; values with their unit.

    ``derived``: their values follow from other parameters.
    """

    parameter: str
    default: str
    description: str
    derived: bool
    values: Mapping[str, Sequence[str]]  # value -> services that have it now; the most frequent first

    @property
    def label(self) -> str:
        """The parameter's name, marked where it is derived."""
        return f"{self.parameter} (derived)" if self.derived else self.parameter

    @property
    def text(self) -> str:
        """The values with their services, such as ``1: text, media; 3: user``."""
        return "; ".join(f"{value}: {', '.join(services)}" for value, services in self.values.items())


def changes(
    default: Mapping[str, Value],
    other: Configuration,
    application: Application,
    types: Mapping[str, ServiceType],
    dependent: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Change, ...]:
    """Return the parameters in which two configurations differ, in the order of the application.

    ``dependent``: parameters whose values follow from others -> from what (``Dependents.texts``).
    """
    # Changes of a type that is not known here (TAILOR_SEARCH_SPACES of another shell) have no explanation.
    known = {
        f"{service.name}.{parameter.name}": parameter
        for service in application.services
        if service.type in types
        for parameter in types[service.type].parameters
    }
    changed = []
    for name, value in other.items():
        if value != default[name]:
            service, _, parameter = name.rpartition(".")
            definition = known.get(name)
            explanation = (definition.unit, definition.description, definition.role) if definition else ("", "", "")
            changed.append(Change(service, parameter, default[name], value, *explanation, dependent.get(name, "")))
    return tuple(changed)


def by_name(changes: Sequence[Change]) -> tuple[Changed, ...]:
    """Group changes by the parameter's name, those of most services first."""
    groups: dict[tuple[str, str, str, bool], dict[str, list[str]]] = {}
    for change in changes:
        key = (change.parameter, _text(change.default, change.unit), change.description, bool(change.follows))
        groups.setdefault(key, {}).setdefault(_text(change.value, change.unit), []).append(change.service)
    ordered = sorted(groups.items(), key=lambda group: -sum(map(len, group[1].values())))
    return tuple(
        Changed(*key, values=dict(sorted(values.items(), key=lambda value: -len(value[1])))) for key, values in ordered
    )


def _text(value: Value, unit: str) -> str:
    return f"{value} {unit}".rstrip()
