"""Translation of a twin, a configuration and the roles of its parameters into a program to simulate.

search_spaces/ gives the role of each parameter (``role``, ``towards``); this module gives the effect of each role on
the model.  A parameter without an effect is listed by ``inert``.
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
    """Effects of a service's parameters.  ``idle`` and ``connections``: type of the callee ("" for all) -> limit.

    ``cpu_scale``: factor of its CPU time.  ``wait_scale``: factor of its own waiting.  Most of that is waiting for a
    wake-up, which takes longer where it costs more CPU time.
    """

    workers: int = 0
    threads: int = 0
    memory_mib: float | None = None
    cpu_scale: float = 1.0
    wait_scale: float = 1.0
    idle: dict[str, int] = field(default_factory=dict)
    connections: dict[str, int] = field(default_factory=dict)


def inert(twin: Twin, application: Application, types: Mapping[str, ServiceType]) -> list[str]:
    """Return the parameters that change nothing in the twin, as "service.parameter"."""
    services = {service.name: service for service in twin.services}
    exponents = _exponents(twin, application)
    return [
        f"{service}.{parameter.name}"
        for service, parameter in _parameters(application, types)
        if not _is_modelled(parameter, services.get(service)) and parameter.name not in exponents[service]
    ]


def _is_modelled(parameter: ParameterDefinition, service: TwinService | None) -> bool:
    """Return whether the parameter's role has an effect, given the data that the twin has on the service."""
    if service is None or isinstance(parameter.default, str):
        return False
    role = parameter.role
    if role == "connections":
        return bool(parameter.towards)  # limits on a service's own clients are never reached
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
    """Compile a twin under a configuration; return the program, and the operations in the order of its indices.

    ``placement``: service -> host, where it differs from the twin's own.  Raises InputError where the configuration
    names CPUs that a host does not have.
    """
    host_of = {service.name: service.host for service in twin.services} | dict(placement or {})
    places = places_of(twin, host_of, _cpus(twin, configuration))
    slower = dict(zip((service.name for service in twin.services), slowdowns(twin, places).tolist(), strict=True))
    host_named = {host.name: host for host in twin.hosts}
    effects = _effects(twin, application, types, configuration)
    type_of = {service.name: service.type for service in application.services}
    services = {service.name: service for service in twin.services}
    opened_us = {(edge.caller, edge.callee): edge.fresh * edge.setup_us for edge in twin.edges}
    build = Builder()
    for host, cores in zip(places.hosts, places.cores.tolist(), strict=True):
        build.host(cores, host_named[host].switching, host_named[host].sharing)
    for service, reach in zip(twin.services, places.reach, strict=True):
        limits = effects.get(service.name, Effects())
        build.add_service(
            service.name,
            np.flatnonzero(reach).tolist(),
            workers=limits.workers,
            queue=service.queue,
            threads=limits.threads,
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
    index = {(operation.service, operation.operation): number for number, operation in enumerate(twin.operations)}
    for operation in twin.operations:
        name = operation.service
        effect = effects.get(name, Effects())
        scale = effect.cpu_scale if name != BACKGROUND else _background_scale(twin, operation, effects)
        build.begin(name, operation.operation, scale * slower[name])
        _emit(build, operation, services[name], index, misses, effect.wait_scale, opened_us)
    for root, share in twin.classes.items():
        service_name, _, operation_name = root.partition(" ")
        build.request(index[service_name, operation_name], share)
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
    """Add the instructions of one operation: a piece of its own time, a group of calls, a piece, ...

    ``opened_us``: of each edge, the mean time per call that opening connections took at the calibration.  It is part of
    the measured piece before the call and is subtracted here, since the simulation adds it itself.
    """
    miss_factor = misses[service.name]
    for first, group in _groups(operation.calls):
        own_us = sum(operation.pieces_us[first : first + len(group)])
        own_us -= sum(call.probability * call.times * opened_us[operation.service, call.service] for call in group)
        _piece(build, operation, service, own_us, miss_factor, wait_scale)
        for call in group:
            kind = SPAWN if call.mode == "spawn" else CALL if len(group) == 1 else FORK
            _call(build, operation, call, kind, index, misses)
        if len(group) > 1:
            build.add(JOIN)
    _piece(build, operation, service, operation.pieces_us[-1], miss_factor, wait_scale)
    build.add(END)


def _groups(calls: Sequence[TwinCall]) -> list[tuple[int, list[TwinCall]]]:
    """Group calls that run in parallel, each with the index of its first: a parallel call joins the one before it."""
    groups: list[tuple[int, list[TwinCall]]] = []
    for number, call in enumerate(calls):
        if call.mode == "parallel" and groups and groups[-1][1][-1].mode != "spawn":
            groups[-1][1].append(call)
        else:
            groups.append((number, [call]))
    return groups


def _piece(
    build: Builder,
    operation: TwinOperation,
    service: TwinService,
    mean_us: float,
    miss_factor: float,
    wait_scale: float,
) -> None:
    """Add computing, then waiting; the time that reads cache misses from disk is multiplied by ``miss_factor``."""
    if mean_us <= 0:
        return
    computing = service.cpu_share * mean_us
    reading = min(service.io_share, 1.0 - service.cpu_share) * mean_us
    waiting = (mean_us - computing - reading) * wait_scale + reading * miss_factor
    if computing > 0:
        build.add(CPU, build.distribution(LOGNORMAL, computing / 1e6, operation.spread))
    if waiting > 0:
        build.add(DELAY, build.distribution(LOGNORMAL, waiting / 1e6, operation.spread))


def _background_scale(twin: Twin, background: TwinOperation, effects: Mapping[str, Effects]) -> float:
    """Return the factor of background computing, which follows the parameters of the services that cause it."""
    whole_us = sum(background.pieces_us) * expected_visits(twin)[background.service, background.operation]
    known = [service for service in twin.services if service.name in effects]
    more_us = sum(service.background_us * (effects[service.name].cpu_scale - 1) for service in known)
    return max(0.0, 1 + more_us / whole_us) if whole_us > 0 else 1.0


def _cpus(twin: Twin, configuration: Mapping[str, Value]) -> dict[str, str]:
    """Return service -> its CPU set, for the services that the configuration restricts to one."""
    sets = {service.name: str(configuration.get(f"{service.name}.{CPUSET}", ALL)) for service in twin.services}
    return {name: cpus for name, cpus in sets.items() if cpus != ALL}


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
    branch = build.add(BRANCH, build.chance(chance)) if chance < 1.0 else None
    if call.loop:
        loop = build.add(LOOP, build.distribution(EXPONENTIAL, call.times))
        build.add(kind, target, edge)
        build.add(AGAIN, 0, loop)
        build.land(loop)
    else:
        build.add(kind, target, edge)
    if branch is not None:
        build.land(branch)


# ---------------------------------------------------------------------- effects of parameters


def _parameters(
    application: Application, types: Mapping[str, ServiceType]
) -> Iterator[tuple[str, ParameterDefinition]]:
    for service in application.services:
        for parameter in parameters_of(application, types, service):
            yield service.name, parameter


def _effects(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], configuration: Mapping[str, Value]
) -> dict[str, Effects]:
    effects_of: dict[str, Effects] = {}
    services = {service.name: service for service in twin.services}
    exponents = _exponents(twin, application)
    fixed = {service.name: service.fixed for service in application.services}
    for service, parameter in _parameters(application, types):
        default = fixed[service].get(parameter.name, parameter.default)
        value = configuration.get(f"{service}.{parameter.name}", default)
        if isinstance(value, str) or isinstance(parameter.default, str):
            continue
        effects = effects_of.setdefault(service, Effects())
        if _is_modelled(parameter, services.get(service)):
            _apply(effects, parameter, float(value), services[service].gc_share)
        if parameter.name in exponents[service] and value > 0 and not isinstance(default, str) and default > 0:
            factor = (value / default) ** exponents[service][parameter.name]
            effects.cpu_scale *= factor
            effects.wait_scale *= factor
    return effects_of


def _exponents(twin: Twin, application: Application) -> dict[str, Mapping[str, float]]:
    """Return service -> parameter -> exponent of its CPU time."""
    known = {service.name for service in twin.services}
    return {s.name: twin.effects.get(s.type, {}) if s.name in known else {} for s in application.services}


def _apply(effects: Effects, parameter: ParameterDefinition, value: float, gc_share: float) -> None:
    """Apply the effect of one parameter's role to its service."""
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
    """Return the miss ratio with this configuration's memory over that at the calibration; 1 where it is not known."""
    if service.cache is None or effects is None or effects.memory_mib is None or effects.memory_mib <= 0:
        return 1.0
    at_calibration = max(1e-4, 1.0 - service.cache_ratio)
    return (1.0 - hit_ratio(service.cache, effects.memory_mib)) / at_calibration


def slowed(program: Program, factor: float) -> Program:
    """Return the program on a machine where everything takes ``factor`` times as long.

    Waiting is slowed as well: it is for a wake-up more often than for a disk.
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
