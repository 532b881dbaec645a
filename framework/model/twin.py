"""The twin of an application: a queueing model as data, one ``twin.json``.  What comes from it is modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

BACKGROUND = "background"
"""The service and operation of the computing that no span explains, which nobody waits for."""


@dataclass(frozen=True, slots=True)
class TwinCall:
    """A call that an operation makes.

    ``probability``: per occurrence of the operation.  ``mode``: wait; parallel: together with the call before; spawn:
    nobody waits for the answer.  ``times``: how often on average, where ``loop`` says that this varies.  ``miss``: the
    cache whose misses lead to it; its probability is then that of the calibration, and follows the hit ratio.
    """

    service: str
    operation: str
    probability: float = 1.0
    mode: Literal["wait", "parallel", "spawn"] = "wait"
    times: float = 1.0
    loop: bool = False
    miss: str = ""


@dataclass(frozen=True, slots=True)
class TwinOperation:
    """A service's answer to one kind of call.

    ``pieces_us``: mean own time before, between and after its calls (one more than calls), at low load and with the
    calibration's configuration.  ``spread``: standard deviation of the logarithm of a piece.
    """

    service: str
    operation: str
    pieces_us: tuple[float, ...]
    spread: float
    calls: tuple[TwinCall, ...] = ()


@dataclass(frozen=True, slots=True)
class TwinCache:
    """What a cache holds: ``items`` of ``item_kib`` each, asked for by a Zipf law with this ``exponent``."""

    items: int
    item_kib: float
    exponent: float


@dataclass(frozen=True, slots=True)
class TwinService:
    """``cpu_share``: of its own time at low load that it computes; the rest it waits for a disk, a wake-up, a lock.

    ``io_share``: of its own time that it reads what its ``cache`` (a buffer pool) did not have; grows with the misses.
    ``queue``: requests that may wait for a worker, 0 any number.  ``quota``: cores that it may use, 0 all.
    ``pressure``, ``sensitivity``: resource (such as memory bandwidth) -> what it takes of it, and the log of the
    slowdown of its computing for each unit that neighbours take.
    ``traced``: it sends spans of its own; otherwise it is seen in its callers' only.  ``gc_share``: of its computing at
    the default that collects garbage, where no ``effects`` of the twin tell.  ``cache_ratio``: hits of its requests at
    the calibration, where it is a cache.  ``background_us``: CPU per request that no span explains; it is part of the
    background operation.
    """

    name: str
    host: str
    cpu_share: float = 1.0
    gc_share: float = 0.0
    traced: bool = True
    cache: TwinCache | None = None
    cache_ratio: float = 0.0
    io_share: float = 0.0
    background_us: float = 0.0
    queue: int = 0
    quota: float = 0.0
    pressure: Mapping[str, float] = field(default_factory=dict)
    sensitivity: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TwinEdge:
    """Calls from one service to another: ``way_us`` one way, ``timeout_ms`` that the caller waits (0: as long as it
    takes), and how often it ``retries`` then.

    ``setup_us``: what a new connection takes, computing as far as the caller's own time is computing.  ``fresh``: part
    of the calibration's calls that opened one, so that this much of it is in the caller's pieces.
    """

    caller: str
    callee: str
    way_us: float = 0.0
    setup_us: float = 0.0
    fresh: float = 0.0
    timeout_ms: float = 0.0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class TwinHost:
    """``switching``: slowdown per runnable thread and core beyond the first.  ``others``: cores that are not there.
    ``sharing``: slowdown of a core while all others compute too (they share its units, its caches or its clock).

    ``nodes``: of memory, each with a last-level cache and as many of the cores, in the order of their numbers.
    ``memory_mib``: what bounds and defaults in search_spaces/ refer to.
    """

    name: str
    cores: int
    switching: float = 0.0
    sharing: float = 0.0
    others: float = 0.0
    memory_mib: int = 4096
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Twin:
    """``network_us``: one way between two hosts, beside an edge's own.

    ``classes``: (service, operation) that requests begin with, as "service operation" -> share of the requests.

    ``effects``: type of service -> parameter -> exponent; the CPU time of such a service's calls goes with (value /
    default) to the power of it, beside what the parameter's role means.

    ``run_spread``: standard deviation of the logarithm between runs of one configuration, as measured.  ``fit``: what
    the calibration says of itself: sources, errors on what it used and on what it kept for validation.
    """

    application: str
    classes: Mapping[str, float]
    operations: tuple[TwinOperation, ...]
    services: tuple[TwinService, ...]
    edges: tuple[TwinEdge, ...]
    hosts: tuple[TwinHost, ...]
    network_us: float = 0.0
    effects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run_spread: float = 0.0
    fit: Mapping[str, float] = field(default_factory=dict)
