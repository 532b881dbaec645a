"""Application + knowledge base + host -> the search space of a study."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from framework.config.capacity import totals_of, within_capacity
from framework.config.knowledge import for_version, resolved, resolved_like
from framework.errors import InputError, UnknownName
from framework.model import Application, ParameterDefinition, Present, Service, ServiceTime, ServiceType
from optimizer.analysis.changes import RISK, RISKS
from optimizer.base import PATH_ORDER
from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space import (
    Constraint,
    Derived,
    LinearEquality,
    Parameter,
    Predicate,
    SearchSpace,
    Value,
    arithmetic_names,
)

DEFAULT = "default"
"""Value in an application's ``fixed`` that leaves the parameter alone: not rendered, not read back, not tuned."""


def image_of(application: Application, service: str) -> str:
    """Return the image that the compose file names for a service; empty where it is built."""
    return str(application.compose["services"][service].get("image") or "")


def parameters_of(
    application: Application, types: Mapping[str, ServiceType], service: Service
) -> tuple[ParameterDefinition, ...]:
    """Return the parameters of a service: of its type, for the version of its image, settable and not ``default``.

    The default of one that the user's files set is what they set (``application.present``).  Parameters of its own
    follow those of its type; one of the same name takes the other's place.
    Raises UnknownName on a type or a fixed parameter that does not exist.
    """
    every = definitions_of(application, types, service)
    candidates = for_version(every, image_of(application, service.name))
    return tuple(
        _with_present(parameter, application.present.get(f"{service.name}.{parameter.name}"))
        for parameter in candidates
        if service.fixed.get(parameter.name) != DEFAULT
        and f"{service.name}.{parameter.name}" not in application.unsettable
    )


def definitions_of(
    application: Application, types: Mapping[str, ServiceType], service: Service
) -> tuple[ParameterDefinition, ...]:
    """Return all parameters of a service, of any version: of its type, and its own.

    Raises UnknownName on a type or a fixed parameter that does not exist.
    """
    if service.type and service.type not in types:
        raise UnknownName(f"service type of {application.name}'s {service.name}:", service.type, types)
    own = resolved_like(service.parameters, types, f"{application.name}: {service.name}")
    names = {parameter.name for parameter in own}
    of_type = types[service.type].parameters if service.type else ()
    every = (*(parameter for parameter in of_type if parameter.name not in names), *own)
    known = {parameter.name for parameter in every}
    for name in service.fixed:
        if name not in known:
            of = f" ({service.type})" if service.type else ""
            raise UnknownName(f"fixed parameter of {application.name}'s {service.name}{of}:", name, known)
    return every


def _with_present(parameter: ParameterDefinition, present: Present | None) -> ParameterDefinition:
    """Return a parameter whose default is the value that the user's deployment has, which its range then includes."""
    if present is None:
        return parameter
    value = present.value
    if parameter.kind == "categorical":
        choices = parameter.choices if value in parameter.choices else (*parameter.choices, value)
        return replace(parameter, default=value, choices=choices)
    if isinstance(parameter.low, str) or isinstance(parameter.high, str) or isinstance(value, str):
        return replace(parameter, default=value)  # not resolved for a host: nobody asks for its range
    if parameter.low is None or parameter.high is None or value in parameter.special:
        return replace(parameter, default=value)
    return replace(parameter, default=value, low=min(parameter.low, value), high=max(parameter.high, value))


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
    """Return all parameters to tune, named ``service.parameter``, grouped by service, in the application's order.

    ``only``, ``without``: services or ``service.parameter`` names to keep or to leave out.  ``allow_weaker``:
    parameters (``service.parameter`` or ``parameter``) to tune although they weaken something.  A parameter that has
    a single value on this host is not tuned.  ``framework.config.knowledge.resolved`` says how bounds are resolved.
    Conditions, the application's constraints and derived parameters also read parameters that are not tuned, at their
    present values.
    Raises UnknownName on a name that the application does not have, InputError when nothing is left to tune.
    """
    on_host = resolved(types, cores=cores, memory_mib=memory_mib)
    known = {
        f"{service.name}.{parameter.name}": (service, within_capacity(parameter, cores, memory_mib))
        for service in application.services
        for parameter in parameters_of(application, on_host, service)
    }
    derived = _derived(application, known)
    candidates = {
        name: (service, parameter)
        for name, (service, parameter) in known.items()
        if service.tuned and parameter.name not in service.fixed and name not in derived
    }
    only, without, allowed = set(only), set(without), set(allow_weaker)
    services = {service.name for service, _ in candidates.values()}
    for name in sorted(only | without):
        if name in derived:
            raise InputError(f"{name} follows from {derived[name]}; name what it follows from instead")
        if name not in candidates and name not in services:
            field = "only" if name in only else "without"
            raise UnknownName("service or parameter", name, services | candidates.keys(), field=field)
    weaker = {name: p.name for name, (_, p) in candidates.items() if p.weakens != "nothing"}
    for name in sorted(allowed):
        if name not in weaker and name not in weaker.values():
            raise UnknownName("parameter that weakens something", name, weaker, field="allow_weaker")
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
    definitions = {name: definition for name, (_, definition) in known.items()}
    totals = totals_of(definitions, cores, memory_mib)
    try:
        return _whole(application, known, derived, totals).subset(chosen)
    except InvalidSpace as error:
        raise InputError(f"{application.name}: {error}") from None


def _derived(application: Application, known: Mapping[str, tuple[Service, ParameterDefinition]]) -> dict[str, str]:
    """Return the derived parameters with the text that each follows from: the application's, then the service types'.

    What an application fixes is not derived, nor what a service has that is not tuned.  Raises UnknownName, InputError.
    """
    derived = {
        name: definition.derived.replace("{", f"{{{service.name}.")
        for name, (service, definition) in known.items()
        if definition.derived and service.tuned and definition.name not in service.fixed
    }
    for name, text in application.derived.items():
        for source in (name, *arithmetic_names(text)):
            if source not in known:
                raise UnknownName(f"parameter in derived.{name} of {application.name}:", source, known)
        service, definition = known[name]
        if not service.tuned or definition.name in service.fixed:
            why = f"{service.name} is not tuned" if not service.tuned else "it is fixed"
            raise InputError(f"{application.name}: derived.{name}: {why}, so that its value would not be set")
        if definition.weakens != "nothing":
            weakens = f"it weakens {definition.weakens}, which only --allow-weaker permits"
            raise InputError(f"{application.name}: derived.{name}: {weakens}")
    return derived | dict(application.derived)


def _whole(
    application: Application,
    known: Mapping[str, tuple[Service, ParameterDefinition]],
    derived: Mapping[str, str],
    totals: Sequence[Constraint],
) -> SearchSpace:
    """Return the space of every parameter of the application, tuned or not, with today's values as defaults.

    ``totals``: further constraints.
    """
    parameters, fixed = {}, {}
    for name, (service, definition) in known.items():
        tunable = _tunable(name, service.name, definition)
        if definition.name in service.fixed:
            tunable = _fixed_at(tunable, service.fixed[definition.name])
            fixed[name] = tunable.default
        parameters[name] = tunable
    constraints: list[Constraint] = []
    for constraint in application.constraints:
        for name in sorted(constraint.names - known.keys()):
            raise UnknownName(f"parameter in the constraint {str(constraint)!r} of {application.name}:", name, known)
        constraints.append(_solvable(constraint, parameters, fixed))
    constraints += [total for total in totals if total.holds({name: p.default for name, p in parameters.items()})]
    return SearchSpace(
        [parameter for name, parameter in parameters.items() if name not in derived],
        constraints,
        [Derived(replace(parameters[name], step=None), text) for name, text in derived.items()],
    )


def _solvable(constraint: Predicate, parameters: Mapping[str, Parameter], fixed: Mapping[str, Value]) -> Constraint:
    """Return a constraint that is a linear equation of at least two numbers as one that can be solved, else itself."""
    if not all(parameters[name].ordered for name in constraint.names):
        return constraint
    equation = LinearEquality.parse(constraint.text)
    if equation is None or len(equation.names - fixed.keys()) < 2:
        return constraint
    return equation.without({name: value for name, value in fixed.items() if name in equation.names})


def along_the_path(space: SearchSpace, rows: Iterable[ServiceTime]) -> SearchSpace:
    """Add each parameter's order on the request path: the mean depth of its service in traces; untraced ones last."""
    depths: dict[str, list[float]] = {}
    for row in rows:
        depths.setdefault(row.service, []).append(row.depth)
    if not depths:
        return space
    order = {name: statistics.fmean(values) for name, values in depths.items()}
    last = max(order.values()) + 1
    parameters = (
        replace(parameter, attributes={**parameter.attributes, PATH_ORDER: order.get(parameter.group, last)})
        for parameter in space.tuned
    )
    return SearchSpace(parameters, space.constraints, space.dependents.derived)


def _fixed_at(parameter: Parameter, value: Value) -> Parameter:
    """Return the parameter with the value that the application fixes as default; it may lie outside the range."""
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
            attributes={RISK: float(RISKS.index(parameter.risk))} if parameter.risk != "none" else {},
        )
    except InvalidSpace as error:
        raise InputError(str(error)) from None
