"""The twin of an application: a queueing model as data, one ``twin.json``.  Its results are modelled, not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

BACKGROUND = "background"
"""Name of a service and operation: computing that no span explains, and that no request waits for."""


@dataclass(frozen=True, slots=True)
class TwinCall:
    """A call that an operation makes.

    ``probability``: per occurrence of the operation.  ``mode``: wait; parallel: at the same time as the call before;
    spawn: nobody waits for the answer.  ``times``: number of calls, the mean where ``loop`` says that it varies.
    ``miss``: the cache whose misses cause the call; ``probability`` is then the calibration's, and follows the hit
    ratio.
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
    """The contents of a cache: ``items`` of ``item_kib`` each, requested by a Zipf law with this ``exponent``."""

    items: int
    item_kib: float
    exponent: float


@dataclass(frozen=True, slots=True)
class TwinService:
    """A service of the model.  Its "own time" is its self time at low load.

    ``cpu_share``: fraction of its own time in which it computes; in the rest it waits for a disk, a wake-up, a lock.
    ``io_share``: fraction of its own time in which it reads what its ``cache`` (a buffer pool) lacks; grows with
    misses.  ``queue``: requests that may wait for a worker, 0 for any number.  ``quota``: cores that it may use, 0 for
    all.  ``pressure``: resource (such as memory bandwidth) -> the units that it takes.  ``sensitivity``: resource ->
    log of the slowdown of its computing per unit that neighbours take.  ``traced``: whether it sends spans; otherwise
    only its callers' spans show it.  ``gc_share``: fraction of its computing that collects garbage at the default, for
    types without ``effects``.  ``cache_ratio``: hit ratio at the calibration, where it is a cache.  ``background_us``:
    CPU time per request that no span explains, part of the background operation.
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
    """Calls from one service to another: ``way_us`` one way, ``timeout_ms`` of the caller (0 for none), and its number
    of ``retries`` after a timeout.

    ``setup_us``: time to open a connection; the caller's ``cpu_share`` of it is computing.  ``fresh``: fraction of the
    calibration's calls that opened a connection, so that the caller's pieces contain this much of ``setup_us``.
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
    """A host of the model.

    ``switching``: slowdown per runnable thread and core beyond the first.  ``others``: cores that other programs keep
    busy.  ``sharing``: slowdown of a core while all others compute too (they share its units, its caches or its clock).

    ``nodes``: number of memory nodes; each has a last-level cache and an equal part of the cores, in their order.
    ``memory_mib``: the memory that bounds and defaults in search_spaces/ refer to.
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
    """A whole application as a queueing model.

    ``network_us``: one way between two hosts, in addition to an edge's ``way_us``.

    ``classes``: first operation of a request, as "service operation" -> share of the requests.

    ``effects``: type of service -> parameter -> exponent: the CPU time of such a service's calls is multiplied by
    (value / default) ** exponent, in addition to the effect of the parameter's role.

    ``run_spread``: measured standard deviation of the logarithm between runs of one configuration.  ``fit``: quality of
    the calibration: its sources, and its errors on the data that it used and on the data kept for validation.
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
