"""The changes of a configuration, parameter by parameter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from framework.model import Application, ServiceType
from optimizer.space import Configuration, Value


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter that the best configuration sets differently from the default.

    ``follows``: the text that its value follows from, so that it is no change of its own; empty where it was searched.
    ``proof``: "proven": the server told the value; "passed": it was seen in the container only.
    """

    service: str
    parameter: str
    default: Value
    value: Value
    unit: str
    description: str
    role: str
    follows: str = ""
    proof: Literal["proven", "passed"] = "proven"


def changes(
    default: Mapping[str, Value],
    other: Configuration,
    application: Application,
    types: Mapping[str, ServiceType],
    dependent: Mapping[str, str] = MappingProxyType({}),
    passed: Collection[str] = (),
) -> tuple[Change, ...]:
    """Return the parameters in which two configurations differ, in the order of the application.

    ``dependent``: parameters whose values follow from others -> from what (``Dependents.texts``).  ``passed``: those
    that no server told.
    """
    # Changes of a type that is not known here (TAILOR_SEARCH_SPACES of another shell) have no explanation.
    known = {
        f"{service.name}.{parameter.name}": parameter
        for service in application.services
        for parameter in (*(types[service.type].parameters if service.type in types else ()), *service.parameters)
    }
    changed = []
    for name, value in other.items():
        if value != default[name]:
            service, _, parameter = name.rpartition(".")
            definition = known.get(name)
            explanation = (definition.unit, definition.description, definition.role) if definition else ("", "", "")
            proof: Literal["proven", "passed"] = "passed" if name in passed else "proven"
            changed.append(
                Change(service, parameter, default[name], value, *explanation, dependent.get(name, ""), proof)
            )
    return tuple(changed)
