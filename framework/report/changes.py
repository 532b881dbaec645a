"""The changes of a configuration: parameter by parameter, and those of one name in several services together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.model import Application, ServiceType
from optimizer.space import Configuration, Value


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter that the best configuration sets differently from the default."""

    service: str
    parameter: str
    default: Value
    value: Value
    unit: str
    description: str
    role: str


@dataclass(frozen=True, slots=True)
class Changed:
    """Changes of parameters of one name and one default, in one service or many; values with their unit."""

    parameter: str
    default: str
    description: str
    values: Mapping[str, Sequence[str]]  # value -> services that have it now; what most have comes first

    @property
    def said(self) -> str:
        """``1: text, media; 3: user``."""
        return "; ".join(f"{value}: {', '.join(services)}" for value, services in self.values.items())


def changes(
    default: Mapping[str, Value], other: Configuration, application: Application, types: Mapping[str, ServiceType]
) -> tuple[Change, ...]:
    """The parameters in which two configurations differ, in the order of the application."""
    # A type that is not known here (TAILOR_SEARCH_SPACES of another shell) leaves its changes unexplained.
    known = {
        f"{service.name}.{parameter.name}": parameter
        for service in application.services
        if service.type in types
        for parameter in types[service.type].parameters
    }
    found = []
    for name, value in other.items():
        if value != default[name]:
            service, _, parameter = name.rpartition(".")
            about = known.get(name)
            said = (about.unit, about.description, about.role) if about else ("", "", "")
            found.append(Change(service, parameter, default[name], value, *said))
    return tuple(found)


def by_name(found: Sequence[Change]) -> tuple[Changed, ...]:
    """The changes of parameters of one name together, those of most services first."""
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for one in found:
        key = (one.parameter, _text(one.default, one.unit), one.description)
        groups.setdefault(key, {}).setdefault(_text(one.value, one.unit), []).append(one.service)
    many = sorted(groups.items(), key=lambda group: -sum(map(len, group[1].values())))
    return tuple(
        Changed(*key, values=dict(sorted(values.items(), key=lambda value: -len(value[1])))) for key, values in many
    )


def _text(value: Value, unit: str) -> str:
    return f"{value} {unit}".rstrip()
