"""Traces and counters of the real application -> its twin.

What calls what, and how long its own part takes, comes from traces at low load.  How much of that is computing comes
from the services' CPU counters: the rest is waiting (a disk, a wake-up, a lock).  CPU time that no span explains
(exporting spans, collecting garbage between requests, the load generator and the trace store on the same host) is a
background operation of each request; what is spent without requests is missing from the host's cores.  Queueing is not
learnt: it is what the simulation makes of the rest.
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
from framework.twin.calibration.structure import Key, Learnt, Structure

SURE = 0.98  # a call that happens this often is no consequence of a miss
SETUP_US = 300.0  # a new connection on loopback until it is used, both sides: to be fitted
SWITCHING = 0.02  # to be fitted
SHARING = 0.15  # to be fitted
GC_SHARE = 0.1  # where no counters tell


@dataclass(frozen=True, slots=True)
class CacheEvidence:
    """A cache's own counters in the window: fraction of hits, and what it held."""

    hit_ratio: float
    items: int
    item_kib: float
    memory_mib: float
    catalogue: int  # how many different items there are to ask for


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured beside the traces, in windows of the default configuration while the machine was not crowded.

    ``cpu_us``: what a request adds, of each service and the trace store.  ``others_us``: of generator and Tailor.
    ``idle``: cores that all of them use together when there are no requests.  ``tick_us``: of the machine on average
    over all of the evidence; 0: not counted.  ``slowness``: of the machine while the traces were taken, against that.
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
    learnt: Structure,
    evidence: Evidence,
    effects: Mapping[str, Mapping[str, float]],
) -> Twin:
    """The twin on one host; what has to be fitted has its first guess.  ``effects``: as of ``learnt_effects``."""
    learnt = _at_usual_speed(learnt, evidence.slowness)
    own_us = _own_us(learnt)
    operations = [_operation(one, application, types, evidence) for one in learnt.operations]
    names = list(dict.fromkeys(one.service for one in operations))
    explained = {name: min(own_us[name], evidence.cpu_us.get(name, own_us[name])) for name in names}
    left = {name: max(0.0, cpu - explained.get(name, 0.0)) for name, cpu in evidence.cpu_us.items()}
    known = {one.name: one.type for one in application.services}
    services = [
        TwinService(
            name=name,
            host="local",
            cpu_share=round(explained[name] / own_us[name], 4) if own_us[name] > 0 else 1.0,
            gc_share=GC_SHARE if _has_role(application, types, name, "gc") and known.get(name) not in effects else 0.0,
            background_us=round(left.get(name, 0.0), 2),
            traced=_is_traced(learnt, name),
            cache=_cache(evidence.caches[name]) if name in evidence.caches else None,
            cache_ratio=evidence.caches[name].hit_ratio if name in evidence.caches else 0.0,
        )
        for name in names
    ]
    services.append(TwinService(BACKGROUND, "local", traced=False))
    edges = _edges(learnt, application, types)
    operations = [
        _with_background(one) if f"{one.service} {one.operation}" in learnt.classes else one for one in operations
    ]
    edges += [TwinEdge(service, BACKGROUND) for service in sorted({name.partition(" ")[0] for name in learnt.classes})]
    left_us = sum(left.values()) + evidence.others_us
    operations.append(TwinOperation(BACKGROUND, BACKGROUND, (round(left_us, 2),), 0.5))
    return Twin(
        application=application.name,
        classes={name: round(share, 6) for name, share in learnt.classes.items()},
        operations=tuple(operations),
        services=tuple(services),
        edges=tuple(edges),
        hosts=(TwinHost("local", evidence.cores, SWITCHING, SHARING, round(evidence.idle, 4), evidence.memory_mib),),
        effects=effects,
        run_spread=round(evidence.run_spread, 4),
    )


def _at_usual_speed(learnt: Structure, slowness: float) -> Structure:
    """What the traces would say of the machine as fast as in all of the evidence."""
    return replace(
        learnt,
        operations=tuple(
            replace(
                one,
                own=replace(one.own, mean_us=one.own.mean_us / slowness),
                pieces_us=tuple(piece / slowness for piece in one.pieces_us),
                slots=tuple(replace(slot, way_us=slot.way_us / slowness) for slot in one.slots),
            )
            for one in learnt.operations
        ),
    )


def _own_us(learnt: Structure) -> dict[str, float]:
    """Service -> its own time per request."""
    found: dict[str, float] = {}
    for one in learnt.operations:
        service = one.key[0]
        found[service] = found.get(service, 0.0) + one.occurrences * one.own.mean_us / learnt.traces
    return found


def _operation(
    one: Learnt, application: Application, types: Mapping[str, ServiceType], evidence: Evidence
) -> TwinOperation:
    """An operation with its calls; those that follow a cache's misses name it."""
    calls, cache, asked = [], "", 0.0
    for slot in one.slots:
        service, operation = slot.callee
        follows = cache and slot.probability < SURE * asked
        mode = slot.mode if slot.mode in ("parallel", "spawn") else "wait"
        calls.append(
            TwinCall(
                service, operation, round(slot.probability, 5), mode, round(slot.times, 4), slot.loop,  # type: ignore[arg-type]  # one of the three
                miss=cache if follows else "",
            )
        )  # fmt: skip
        if service in evidence.caches and _has_role(application, types, service, "cache_bytes"):
            cache, asked = service, slot.probability
    service, operation = one.key
    pieces = tuple(round(piece, 2) for piece in one.pieces_us)
    return TwinOperation(service, operation, pieces, round(min(2.0, one.own.spread), 4), tuple(calls))


def _with_background(one: TwinOperation) -> TwinOperation:
    """A root that sets off the work that no request waits for."""
    call = TwinCall(BACKGROUND, BACKGROUND, mode="spawn")
    return TwinOperation(one.service, one.operation, (0.0, *one.pieces_us), one.spread, (call, *one.calls))


def _edges(learnt: Structure, application: Application, types: Mapping[str, ServiceType]) -> list[TwinEdge]:
    """One for each pair of services, with the mean way of its calls."""
    kind = {one.name: one.type for one in application.services}
    ways: dict[Key, list[tuple[float, float]]] = {}
    for one in learnt.operations:
        for slot in one.slots:
            calls = one.occurrences * slot.probability * slot.times
            ways.setdefault((one.key[0], slot.callee[0]), []).append((slot.way_us, calls))
    return [
        TwinEdge(
            caller,
            callee,
            round(sum(way * n for way, n in rows) / (2 * sum(n for _, n in rows)), 2),
            SETUP_US,
            fresh=float(_keeps_none(application, types, caller, kind.get(callee, ""))),
        )
        for (caller, callee), rows in ways.items()
    ]


def _keeps_none(application: Application, types: Mapping[str, ServiceType], caller: str, callee_type: str) -> bool:
    """Whether a service opens a connection for every call to such a service, by the configuration that was traced."""
    service = next((one for one in application.services if one.name == caller), None)
    return service is not None and any(
        parameter.role == "keepalive"
        and parameter.towards in ("", callee_type)
        and service.fixed.get(parameter.name, parameter.default) == 0
        for parameter in parameters_of(application, types, service)
    )


def _is_traced(learnt: Structure, service: str) -> bool:
    """Whether it sends spans: its calls are seen from both sides, or it makes calls itself below the root."""
    roots = {name.partition(" ")[0] for name in learnt.classes}
    if service in roots:
        return False
    seen = [slot.way_us for one in learnt.operations for slot in one.slots if slot.callee[0] == service]
    makes = any(one.slots for one in learnt.operations if one.key[0] == service)
    return makes or any(way > 0 for way in seen)


def _has_role(application: Application, types: Mapping[str, ServiceType], name: str, role: str) -> bool:
    service = next((one for one in application.services if one.name == name), None)
    kind = types.get(service.type) if service is not None else None
    return kind is not None and any(parameter.role == role for parameter in kind.parameters)


def _cache(found: CacheEvidence) -> TwinCache:
    return fitted(found.memory_mib, found.hit_ratio, found.catalogue, found.item_kib)
