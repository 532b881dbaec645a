"""Application + knowledge base + host -> the search space of a study."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace

from framework.config.knowledge import available, resolved
from framework.errors import InputError, UnknownName
from framework.model import Application, ParameterDefinition, Service, ServiceTime, ServiceType
from optimizer.base import PATH_ORDER
from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space import Parameter, SearchSpace, Value

DEFAULT = "default"
"""In an application's ``fixed``: the parameter is left alone (not rendered, not read back, not tuned)."""


def image_of(application: Application, service: str) -> str:
    """The image that the compose file names for a service; empty where it is built."""
    return str(application.compose["services"][service].get("image") or "")


def parameters_of(
    application: Application, types: Mapping[str, ServiceType], service: Service
) -> tuple[ParameterDefinition, ...]:
    """The parameters that hold for a service: of its type, for the version of its image, not fixed at ``default``.

    Empty for a service without a type.  Raises UnknownName on a type or a fixed parameter that does not exist.
    """
    if not service.type:
        return ()
    if service.type not in types:
        raise UnknownName(f"service type of {application.name}'s {service.name}:", service.type, types)
    service_type = types[service.type]
    known = {parameter.name for parameter in service_type.parameters}
    for name in service.fixed:
        if name not in known:
            raise UnknownName(f"fixed parameter of {application.name}'s {service.name} ({service.type}):", name, known)
    holding = available(service_type, image_of(application, service.name))
    return tuple(parameter for parameter in holding if service.fixed.get(parameter.name) != DEFAULT)


def search_space(
    application: Application,
    types: Mapping[str, ServiceType],
    *,
    cores: int,
    memory_mib: int,
    only: Iterable[str] = (),
    allow_weaker: Iterable[str] = (),
    without: Iterable[str] = (),
) -> SearchSpace:
    """All parameters to tune, named ``service.parameter``, grouped by service, in the application's order.

    ``only``, ``without``: services or ``service.parameter`` names to keep or to leave out.  ``allow_weaker``:
    parameters (``service.parameter`` or ``parameter``) to tune although they weaken something.  What has one
    value left on this host is not tuned.  How bounds are resolved: ``framework.config.knowledge.resolved``.
    Conditions and the application's constraints also count parameters that are not tuned, at the values where they
    stand.  Raises UnknownName on a name that the application does not have, InputError when nothing is left to tune.
    """
    on_host = resolved(types, cores=cores, memory_mib=memory_mib)
    known = {
        f"{service.name}.{parameter.name}": (service, parameter)
        for service in application.services
        for parameter in parameters_of(application, on_host, service)
    }
    candidates = {
        name: (service, parameter)
        for name, (service, parameter) in known.items()
        if service.tuned and parameter.name not in service.fixed
    }
    only, without, allowed = set(only), set(without), set(allow_weaker)
    services = {service.name for service, _ in candidates.values()}
    for name in sorted(only | without):
        if name not in candidates and name not in services:
            raise UnknownName("service or parameter", name, services | candidates.keys())
    weaker = {name: p.name for name, (_, p) in candidates.items() if p.weakens != "nothing"}
    for name in sorted(allowed):
        if name not in weaker and name not in weaker.values():
            raise UnknownName("parameter that weakens something", name, weaker)
    chosen = []
    for name, (service, parameter) in candidates.items():
        if only and not {name, service.name} & only:
            continue
        if {name, service.name} & without or (name in weaker and not {name, parameter.name} & allowed):
            continue
        tunable = _tunable(name, service.name, parameter)
        if tunable.cardinality > 1:
            chosen.append(name)
    if not chosen:
        raise InputError(f"{application.name}: nothing is left to tune; name other services, or declare some as tuned")
    try:
        return _whole(application, known).subset(chosen)
    except InvalidSpace as error:
        raise InputError(f"{application.name}: {error}") from None


def _whole(application: Application, known: Mapping[str, tuple[Service, ParameterDefinition]]) -> SearchSpace:
    """Every parameter of the application, tuned or not, standing where it stands without tuning."""
    parameters = []
    for name, (service, definition) in known.items():
        tunable = _tunable(name, service.name, definition)
        held = service.fixed.get(definition.name)
        parameters.append(tunable if held is None else _held(tunable, held))
    for constraint in application.constraints:
        for name in sorted(constraint.names - known.keys()):
            raise UnknownName(f"parameter in the constraint {str(constraint)!r} of {application.name}:", name, known)
    return SearchSpace(parameters, application.constraints)


def along_the_path(space: SearchSpace, rows: Iterable[ServiceTime]) -> SearchSpace:
    """The space with each parameter's place on the path, from what traces say; untraced services come last."""
    depths: dict[str, list[float]] = {}
    for one in rows:
        depths.setdefault(one.service, []).append(one.depth)
    if not depths:
        return space
    places = {name: statistics.fmean(found) for name, found in depths.items()}
    last = max(places.values()) + 1
    placed = (
        replace(one, attributes={**one.attributes, PATH_ORDER: places.get(one.group, last)}) for one in space.parameters
    )
    return SearchSpace(placed, space.constraints)


def _held(parameter: Parameter, value: Value) -> Parameter:
    """The parameter at the value that the application holds it at, which may lie outside what is tuned."""
    try:
        return replace(parameter, default=parameter.validate(value))
    except InvalidValue:
        if parameter.ordered:
            return replace(parameter, default=value, special=(*parameter.special, value))
        return replace(parameter, default=value, choices=(*parameter.choices, value))


def _tunable(name: str, group: str, parameter: ParameterDefinition) -> Parameter:
    low, high = parameter.low, parameter.high
    if isinstance(low, str) or isinstance(high, str):
        raise InputError(f"{name}: bounds that are not resolved")
    condition = parameter.condition
    if condition is not None:
        condition = replace(condition, on=f"{group}.{condition.on}")
    try:
        return Parameter(
            name=name,
            kind=parameter.kind,
            default=parameter.default,
            low=low,
            high=high,
            step=parameter.step,
            choices=parameter.choices,
            special=parameter.special,
            condition=condition,
            scale=parameter.scale,
            group=group,
        )
    except InvalidSpace as error:
        raise InputError(str(error)) from None
