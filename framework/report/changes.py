"""The changes of a configuration, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping
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


def changes(
    default: Mapping[str, Value], other: Configuration, application: Application, types: Mapping[str, ServiceType]
) -> tuple[Change, ...]:
    """Return the parameters in which two configurations differ, in the order of the application."""
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
            changed.append(Change(service, parameter, default[name], value, *explanation))
    return tuple(changed)
