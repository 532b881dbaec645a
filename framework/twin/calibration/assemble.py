"""Assembly of a twin from traces and counters of the real application.

The calls of operations and their own times come from traces at low load.  The services' CPU counters tell how much of
the own time is computing; the rest is waiting (a disk, a wake-up, a lock).  CPU time that no span explains (exporting
spans, collecting garbage between requests, the load generator and the trace store on the same host) is a background
operation of each request.  CPU time spent without requests is subtracted from the host's cores.  Queueing is not
measured: it results from the simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from framework.config.space import parameters_of
from framework.model import Application, ServiceType
from framework.model.twin import (
    BACKGROUND,
    Twin,
    TwinCache,
    TwinCall,
    TwinEdge,
    TwinHost,
    TwinOperation,
    TwinService,
)
from framework.twin.cache import fitted
from framework.twin.calibration.structure import Key, ObservedOperation, Structure

SURE = 0.98  # a call that follows a cache look-up more often than this does not depend on a miss
SETUP_US = 300.0  # to open a connection on loopback, both sides: first guess of the fit
SWITCHING = 0.02  # first guess of the fit
SHARING = 0.15  # first guess of the fit
GC_SHARE = 0.1  # where no exponents were learnt from counters


@dataclass(frozen=True, slots=True)
class CacheEvidence:
    """A cache's own counters in the window: fraction of hits, and its content."""

    hit_ratio: float
    items: int
    item_kib: float
    memory_mib: float
    catalogue: int  # number of different items that requests ask for


@dataclass(frozen=True, slots=True)
class Evidence:
    """Measurements besides the traces, in windows of the default configuration while the machine was not crowded.

    ``cpu_us``: CPU time that a request adds to each service and the trace store.  ``others_us``: that it adds to
    generator and Tailor.  ``idle``: cores that all of these use in total without requests.  ``tick_us``: mean duration
    of the machine's tick over all of the evidence; 0: not measured.  ``slowness``: duration of a tick while the traces
    were taken, over ``tick_us``.
    """

    cores: int
    cpu_us: Mapping[str, float]
    others_us: float
    idle: float = 0.0
    tick_us: float = 0.0
    slowness: float = 1.0
    caches: Mapping[str, CacheEvidence] = field(default_factory=dict)
    run_spread: float = 0.0
    memory_mib: int = 4096


def calibrated(
    application: Application,
    types: Mapping[str, ServiceType],
    structure: Structure,
    evidence: Evidence,
    effects: Mapping[str, Mapping[str, float]],
) -> Twin:
    """Assemble the twin on one host, with first guesses of the numbers to fit.  ``effects``: of ``learnt_effects``."""
    structure = _at_usual_speed(structure, evidence.slowness)
    own_us = _own_us(structure)
    operations = [_operation(observed, application, types, evidence) for observed in structure.operations]
    names = list(dict.fromkeys(operation.service for operation in operations))
    explained = {name: min(own_us[name], evidence.cpu_us.get(name, own_us[name])) for name in names}
    left = {name: max(0.0, cpu - explained.get(name, 0.0)) for name, cpu in evidence.cpu_us.items()}
    type_of = {service.name: service.type for service in application.services}
    services = [
        TwinService(
            name=name,
            host="local",
            cpu_share=round(explained[name] / own_us[name], 4) if own_us[name] > 0 else 1.0,
            gc_share=GC_SHARE
            if _has_role(application, types, name, "gc") and type_of.get(name) not in effects
            else 0.0,
            background_us=round(left.get(name, 0.0), 2),
            traced=_is_traced(structure, name),
            cache=_cache(evidence.caches[name]) if name in evidence.caches else None,
            cache_ratio=evidence.caches[name].hit_ratio if name in evidence.caches else 0.0,
        )
        for name in names
    ]
    services.append(TwinService(BACKGROUND, "local", traced=False))
    edges = _edges(structure, application, types)
    operations = [_with_background(o) if f"{o.service} {o.operation}" in structure.classes else o for o in operations]
    edges += [
        TwinEdge(service, BACKGROUND) for service in sorted({name.partition(" ")[0] for name in structure.classes})
    ]
    left_us = sum(left.values()) + evidence.others_us
    operations.append(TwinOperation(BACKGROUND, BACKGROUND, (round(left_us, 2),), 0.5))
    return Twin(
        application=application.name,
        classes={name: round(share, 6) for name, share in structure.classes.items()},
        operations=tuple(operations),
        services=tuple(services),
        edges=tuple(edges),
        hosts=(TwinHost("local", evidence.cores, SWITCHING, SHARING, round(evidence.idle, 4), evidence.memory_mib),),
        effects=effects,
        run_spread=round(evidence.run_spread, 4),
    )


def _at_usual_speed(structure: Structure, slowness: float) -> Structure:
    """Rescale the times of the traces to the machine's mean speed over all of the evidence."""
    return replace(
        structure,
        operations=tuple(
            replace(
                operation,
                own=replace(operation.own, mean_us=operation.own.mean_us / slowness),
                pieces_us=tuple(piece / slowness for piece in operation.pieces_us),
                slots=tuple(replace(slot, way_us=slot.way_us / slowness) for slot in operation.slots),
            )
            for operation in structure.operations
        ),
    )


def _own_us(structure: Structure) -> dict[str, float]:
    """Return service -> its own time per request in microseconds."""
    own_us: dict[str, float] = {}
    for operation in structure.operations:
        service = operation.key[0]
        own_us[service] = own_us.get(service, 0.0) + operation.occurrences * operation.own.mean_us / structure.traces
    return own_us


def _operation(
    observed: ObservedOperation, application: Application, types: Mapping[str, ServiceType], evidence: Evidence
) -> TwinOperation:
    """Return an operation with its calls; a call that follows the misses of a cache names the cache."""
    calls, cache, lookups = [], "", 0.0
    for slot in observed.slots:
        service, operation = slot.callee
        follows = cache and slot.probability < SURE * lookups
        mode = slot.mode if slot.mode in ("parallel", "spawn") else "wait"
        calls.append(
            TwinCall(
                service, operation, round(slot.probability, 5), mode, round(slot.times, 4), slot.loop,  # type: ignore[arg-type]  # one of the three
                miss=cache if follows else "",
            )
        )  # fmt: skip
        if service in evidence.caches and _has_role(application, types, service, "cache_bytes"):
            cache, lookups = service, slot.probability
    service, operation = observed.key
    pieces = tuple(round(piece, 2) for piece in observed.pieces_us)
    return TwinOperation(service, operation, pieces, round(min(2.0, observed.own.spread), 4), tuple(calls))


def _with_background(root: TwinOperation) -> TwinOperation:
    """Return a root operation that also spawns the background operation."""
    call = TwinCall(BACKGROUND, BACKGROUND, mode="spawn")
    return TwinOperation(root.service, root.operation, (0.0, *root.pieces_us), root.spread, (call, *root.calls))


def _edges(structure: Structure, application: Application, types: Mapping[str, ServiceType]) -> list[TwinEdge]:
    """Return an edge for each pair of services with calls, with the mean one-way latency of its calls."""
    type_of = {service.name: service.type for service in application.services}
    ways: dict[Key, list[tuple[float, float]]] = {}
    for operation in structure.operations:
        for slot in operation.slots:
            calls = operation.occurrences * slot.probability * slot.times
            ways.setdefault((operation.key[0], slot.callee[0]), []).append((slot.way_us, calls))
    return [
        TwinEdge(
            caller,
            callee,
            round(sum(way * n for way, n in rows) / (2 * sum(n for _, n in rows)), 2),
            SETUP_US,
            fresh=float(_keeps_none(application, types, caller, type_of.get(callee, ""))),
        )
        for (caller, callee), rows in ways.items()
    ]


def _keeps_none(application: Application, types: Mapping[str, ServiceType], caller: str, callee_type: str) -> bool:
    """Return whether, as traced, a service opens a connection for every call to a service of this type."""
    service = next((service for service in application.services if service.name == caller), None)
    return service is not None and any(
        parameter.role == "keepalive"
        and parameter.towards in ("", callee_type)
        and service.fixed.get(parameter.name, parameter.default) == 0
        for parameter in parameters_of(application, types, service)
    )


def _is_traced(structure: Structure, service: str) -> bool:
    """Return whether a service sends spans: calls to it are seen from both sides, or it makes calls below the root."""
    roots = {name.partition(" ")[0] for name in structure.classes}
    if service in roots:
        return False
    ways = [slot.way_us for operation in structure.operations for slot in operation.slots if slot.callee[0] == service]
    calls = any(operation.slots for operation in structure.operations if operation.key[0] == service)
    return calls or any(way > 0 for way in ways)


def _has_role(application: Application, types: Mapping[str, ServiceType], name: str, role: str) -> bool:
    service = next((service for service in application.services if service.name == name), None)
    service_type = types.get(service.type) if service is not None else None
    return service_type is not None and any(parameter.role == role for parameter in service_type.parameters)


def _cache(evidence: CacheEvidence) -> TwinCache:
    return fitted(evidence.memory_mib, evidence.hit_ratio, evidence.catalogue, evidence.item_kib)
