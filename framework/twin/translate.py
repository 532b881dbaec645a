"""A twin, a configuration and the roles of its parameters -> a program to simulate.

What a parameter means stands beside it in search_spaces/ (``role``, ``towards``); here is what each role does to the
model.  A role without an effect here is inert in the twin, and ``inert`` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.compose.placed import ALL, CPUSET
from framework.config.space import parameters_of
from framework.model import Application, ParameterDefinition, ServiceType
from framework.model.twin import BACKGROUND, Twin, TwinCall, TwinOperation, TwinService
from framework.twin.cache import hit_ratio
from framework.twin.cpu_sets import places_of, slowdowns
from framework.twin.simulator.draws import EXPONENTIAL, LOGNORMAL
from framework.twin.simulator.program import (
    AGAIN,
    BRANCH,
    CALL,
    CPU,
    DELAY,
    END,
    FORK,
    JOIN,
    LOOP,
    SPAWN,
    Builder,
    Program,
)
from framework.twin.visits import expected_visits
from optimizer.space import Value


@dataclass(slots=True)
class Effects:
    """What a service's parameters make of it.  ``idle`` and ``connections``: by the type of the callee, "" for all.

    ``cpu_scale`` is of its computing; ``wait_scale`` of its own waiting, which is for the most part to be woken up:
    what makes that take more CPU time makes it take longer.
    """

    workers: int = 0
    threads: int = 0
    memory_mib: float | None = None
    cpu_scale: float = 1.0
    wait_scale: float = 1.0
    idle: dict[str, int] = field(default_factory=dict)
    connections: dict[str, int] = field(default_factory=dict)


def inert(twin: Twin, application: Application, types: Mapping[str, ServiceType]) -> list[str]:
    """The parameters that change nothing in the twin."""
    services = {service.name: service for service in twin.services}
    exponents = _exponents(twin, application)
    return [
        f"{service}.{parameter.name}"
        for service, parameter in _parameters(application, types)
        if not _is_modelled(parameter, services.get(service)) and parameter.name not in exponents[service]
    ]


def _is_modelled(parameter: ParameterDefinition, service: TwinService | None) -> bool:
    """Whether a role does something, with what the twin knows of the service."""
    if service is None or isinstance(parameter.default, str):
        return False
    role = parameter.role
    if role == "connections":
        return bool(parameter.towards)  # of its own clients: nobody comes near such limits
    if role == "cache_bytes":
        return parameter.unit == "MiB" and service.cache is not None
    return role in ("workers", "cores", "keepalive") or (role == "gc" and service.gc_share > 0)


def compiled(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    configuration: Mapping[str, Value],
    placement: Mapping[str, str] | None = None,
) -> tuple[Program, Sequence[TwinOperation]]:
    """The program of a twin under a configuration, and its operations in the order of the program's indices.

    ``placement``: service -> host, where it differs from the twin's own.  Raises InputError where the configuration
    wants CPUs that a host does not have.
    """
    host_of = {service.name: service.host for service in twin.services} | dict(placement or {})
    places = places_of(twin, host_of, _cpus(twin, configuration))
    slower = dict(zip((service.name for service in twin.services), slowdowns(twin, places).tolist(), strict=True))
    host_named = {host.name: host for host in twin.hosts}
    effects = _effects(twin, application, types, configuration)
    type_of = {service.name: service.type for service in application.services}
    services = {service.name: service for service in twin.services}
    opened_us = {(one.caller, one.callee): one.fresh * one.setup_us for one in twin.edges}
    build = Builder()
    for host, cores in zip(places.hosts, places.cores.tolist(), strict=True):
        build.host(cores, host_named[host].switching, host_named[host].sharing)
    for service, reach in zip(twin.services, places.reach, strict=True):
        found = effects.get(service.name, Effects())
        build.add_service(
            service.name,
            np.flatnonzero(reach).tolist(),
            workers=found.workers,
            queue=service.queue,
            threads=found.threads,
            quota=service.quota,
        )
    for edge in twin.edges:
        caller, callee = effects.get(edge.caller, Effects()), type_of.get(edge.callee, "")
        build.edge(
            edge.caller,
            edge.callee,
            connections=caller.connections.get(callee, 0),
            idle=caller.idle.get(callee, caller.idle.get("", 1 << 30)),
            setup=services[edge.caller].cpu_share * edge.setup_us / 1e6,
            opening=(1.0 - services[edge.caller].cpu_share) * edge.setup_us / 1e6,
            latency=(edge.way_us + twin.network_us * (host_of[edge.caller] != host_of[edge.callee])) / 1e6,
            timeout=edge.timeout_ms / 1e3,
            retries=edge.retries,
        )
    misses = {name: _miss_factor(service, effects.get(name)) for name, service in services.items()}
    index = {(one.service, one.operation): number for number, one in enumerate(twin.operations)}
    for one in twin.operations:
        made = effects.get(one.service, Effects())
        scale = made.cpu_scale if one.service != BACKGROUND else _background_scale(twin, one, effects)
        build.begin(one.service, one.operation, scale * slower[one.service])
        _emit(build, one, services[one.service], index, misses, made.wait_scale, opened_us)
    for name, share in twin.classes.items():
        service_name, _, operation = name.partition(" ")
        build.request(index[service_name, operation], share)
    return build.program(), twin.operations


def _emit(
    build: Builder,
    operation: TwinOperation,
    service: TwinService,
    index: Mapping[tuple[str, str], int],
    misses: Mapping[str, float],
    wait_scale: float,
    opened_us: Mapping[tuple[str, str], float],
) -> None:
    """The instructions of one operation: a piece of its own, a group of calls, a piece, ...

    ``opened_us``: of each edge, what its connections took of the piece before a call, and now take by themselves.
    """
    again = misses[service.name]
    for first, group in _groups(operation.calls):
        own_us = sum(operation.pieces_us[first : first + len(group)])
        own_us -= sum(call.probability * call.times * opened_us[operation.service, call.service] for call in group)
        _piece(build, operation, service, own_us, again, wait_scale)
        for call in group:
            kind = SPAWN if call.mode == "spawn" else CALL if len(group) == 1 else FORK
            _call(build, operation, call, kind, index, misses)
        if len(group) > 1:
            build.add(JOIN)
    _piece(build, operation, service, operation.pieces_us[-1], again, wait_scale)
    build.add(END)


def _groups(calls: Sequence[TwinCall]) -> list[tuple[int, list[TwinCall]]]:
    """Calls that run together, with the number of the first: a parallel call belongs to the one before it."""
    found: list[tuple[int, list[TwinCall]]] = []
    for number, call in enumerate(calls):
        if call.mode == "parallel" and found and found[-1][1][-1].mode != "spawn":
            found[-1][1].append(call)
        else:
            found.append((number, [call]))
    return found


def _piece(
    build: Builder, operation: TwinOperation, service: TwinService, mean_us: float, misses: float, wait_scale: float
) -> None:
    """Computing, then waiting; the part that reads what the service's own cache did not have grows with ``misses``."""
    if mean_us <= 0:
        return
    computing = service.cpu_share * mean_us
    reading = min(service.io_share, 1.0 - service.cpu_share) * mean_us
    waiting = (mean_us - computing - reading) * wait_scale + reading * misses
    if computing > 0:
        build.add(CPU, build.distribution(LOGNORMAL, computing / 1e6, operation.spread))
    if waiting > 0:
        build.add(DELAY, build.distribution(LOGNORMAL, waiting / 1e6, operation.spread))


def _background_scale(twin: Twin, background: TwinOperation, effects: Mapping[str, Effects]) -> float:
    """What services compute in the background follows their parameters as well."""
    whole_us = sum(background.pieces_us) * expected_visits(twin)[background.service, background.operation]
    more_us = sum(one.background_us * (effects[one.name].cpu_scale - 1) for one in twin.services if one.name in effects)
    return max(0.0, 1 + more_us / whole_us) if whole_us > 0 else 1.0


def _cpus(twin: Twin, configuration: Mapping[str, Value]) -> dict[str, str]:
    """Service -> its CPUs, of those that a configuration does not leave on all."""
    given = {one.name: str(configuration.get(f"{one.name}.{CPUSET}", ALL)) for one in twin.services}
    return {name: cpus for name, cpus in given.items() if cpus != ALL}


def _call(
    build: Builder,
    operation: TwinOperation,
    call: TwinCall,
    kind: int,
    index: Mapping[tuple[str, str], int],
    misses: Mapping[str, float],
) -> None:
    target, edge = index[call.service, call.operation], build.edges[operation.service, call.service]
    chance = min(1.0, call.probability * (misses.get(call.miss, 1.0) if call.miss else 1.0))
    place = build.add(BRANCH, build.chance(chance)) if chance < 1.0 else None
    if call.loop:
        again = build.add(LOOP, build.distribution(EXPONENTIAL, call.times))
        build.add(kind, target, edge)
        build.add(AGAIN, 0, again)
        build.land(again)
    else:
        build.add(kind, target, edge)
    if place is not None:
        build.land(place)


# ---------------------------------------------------------------------- what parameters do


def _parameters(
    application: Application, types: Mapping[str, ServiceType]
) -> Iterator[tuple[str, ParameterDefinition]]:
    for service in application.services:
        for parameter in parameters_of(application, types, service):
            yield service.name, parameter


def _effects(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], configuration: Mapping[str, Value]
) -> dict[str, Effects]:
    found: dict[str, Effects] = {}
    services = {service.name: service for service in twin.services}
    exponents = _exponents(twin, application)
    fixed = {service.name: service.fixed for service in application.services}
    for service, parameter in _parameters(application, types):
        held = fixed[service].get(parameter.name, parameter.default)
        value = configuration.get(f"{service}.{parameter.name}", held)
        if isinstance(value, str) or isinstance(parameter.default, str):
            continue
        effects = found.setdefault(service, Effects())
        if _is_modelled(parameter, services.get(service)):
            _apply(effects, parameter, float(value), services[service].gc_share)
        if parameter.name in exponents[service] and value > 0 and not isinstance(held, str) and held > 0:
            factor = (value / held) ** exponents[service][parameter.name]
            effects.cpu_scale *= factor
            effects.wait_scale *= factor
    return found


def _exponents(twin: Twin, application: Application) -> dict[str, Mapping[str, float]]:
    """Service -> parameter -> how its CPU time follows it."""
    known = {one.name for one in twin.services}
    return {one.name: twin.effects.get(one.type, {}) if one.name in known else {} for one in application.services}


def _apply(effects: Effects, parameter: ParameterDefinition, value: float, gc_share: float) -> None:
    """What one parameter of a role does to its service."""
    role, towards = parameter.role, parameter.towards
    if role == "workers":
        effects.workers = int(value)
    elif role == "cores":
        effects.threads = int(value)
    elif role == "connections" and towards:
        effects.connections[towards] = int(value)
    elif role == "keepalive":
        effects.idle[towards] = int(value)
    elif role == "cache_bytes" and effects.memory_mib is None and parameter.unit == "MiB":
        effects.memory_mib = value
    elif role == "gc" and isinstance(parameter.default, int | float) and value > 0:
        # Half as many collections where the heap may grow twice as far (Go's guide to its collector: GOGC).
        effects.cpu_scale *= 1.0 - gc_share + gc_share * float(parameter.default) / value


def _miss_factor(service: TwinService, effects: Effects | None) -> float:
    """Misses with this configuration's memory over those at the calibration; 1 where nothing is known of it."""
    if service.cache is None or effects is None or effects.memory_mib is None or effects.memory_mib <= 0:
        return 1.0
    at_calibration = max(1e-4, 1.0 - service.cache_ratio)
    return (1.0 - hit_ratio(service.cache, effects.memory_mib)) / at_calibration


def slowed(program: Program, factor: float) -> Program:
    """The same program on a machine where everything takes ``factor`` times as long.

    Waiting too: it is for a wake-up more often than for a disk.
    """
    mean = program.dist_mean.copy()
    mean[np.unique(program.a[program.kind == DELAY])] *= factor
    return program._replace(
        scale=program.scale * factor,
        dist_mean=mean,
        setup=program.setup * factor,
        opening=program.opening * factor,
        latency=program.latency * factor,
    )
