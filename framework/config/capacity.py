"""The capacity of a host, which what compose gives containers has to keep to: CPUs and memory, in limits of services.

A limit above the host's is refused by the engine.  The sum of all limits may not exceed the host either, unless it does
so today: then the user relies on services not needing all of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from framework.config.resource_names import bytes_of, is_memory_unit
from framework.model import ParameterDefinition
from optimizer.space import Constraint, LinearConstraint, Predicate

_MIB = 1 << 20


def within_capacity(parameter: ParameterDefinition, cores: int, memory_mib: int) -> ParameterDefinition:
    """Return a parameter whose range ends at the host's capacity, where it is CPUs or memory of a container."""
    most = _most(parameter, cores, memory_mib)
    if most is None or not isinstance(parameter.high, int | float) or parameter.high <= most:
        return parameter
    lowest = max(value for value in (parameter.low, parameter.default) if isinstance(value, int | float))
    return replace(parameter, high=max(most, lowest))


def totals_of(parameters: Mapping[str, ParameterDefinition], cores: int, memory_mib: int) -> list[Constraint]:
    """Return constraints by which the limits of all containers fit on the host; ``parameters``: by service.parameter.

    A resource that only one service has as a parameter needs none.
    """
    replicas = {
        name.rpartition(".")[0]: name for name, parameter in parameters.items() if _resource(parameter) == "replicas"
    }
    totals: list[Constraint] = []
    for resource in ("cpus", "memory"):
        limited = {
            name: most
            for name, parameter in parameters.items()
            if _resource(parameter) == resource and (most := _most(parameter, cores, memory_mib)) is not None
        }
        counts = {name: count for name in limited if (count := replicas.get(name.rpartition(".")[0])) is not None}
        if counts:
            terms = [
                f"{{{name}}} / {most}" + (f" * {{{counts[name]}}}" if name in counts else "")
                for name, most in limited.items()
            ]
            totals.append(Predicate(f"{' + '.join(terms)} <= 1"))
        elif len(limited) > 1:
            shares = {name: 1 / most for name, most in limited.items()}
            totals.append(LinearConstraint(shares, 1.0, f"{resource} of the host"))
    return totals


def _resource(parameter: ParameterDefinition) -> str:
    return parameter.apply.name if parameter.apply.kind == "resource" else ""


def _most(parameter: ParameterDefinition, cores: int, memory_mib: int) -> int | None:
    """Return the host's capacity in the parameter's unit; None where it limits neither CPUs nor memory."""
    resource = _resource(parameter)
    if resource == "cpus":
        return cores
    if resource == "memory" and is_memory_unit(parameter.unit):
        return memory_mib * _MIB // bytes_of(parameter.unit)
    return None
