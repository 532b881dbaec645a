"""Programs: the compiled form of a twin, instructions for the simulator.

An operation (a service's answer to one kind of call) is a sequence of instructions.  Columns are numpy arrays that
refer to each other by index: an instruction's ``a`` and ``b`` are a distribution, an operation, a connection pool
(edge) or an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CPU, CALL, FORK, JOIN, DELAY, BRANCH, LOOP, AGAIN, END, SPAWN = range(10)
"""Kinds of instruction.

CPU: compute for a draw of distribution a.  CALL: call operation a over edge b and wait.  FORK: call without waiting.
JOIN: wait for all forks.  DELAY: wait for a draw of distribution a without using the CPU (a disk).  BRANCH: with
probability ``chance[a]`` go on, else go to instruction b.  LOOP: draw a number of rounds up to AGAIN from distribution
a, go to b if it is 0 (loops do not nest).  AGAIN: the end of a loop that began at b.  END: answer, once all forks have
answered.  SPAWN: call operation a over edge b, and never wait for it.
"""

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Program(NamedTuple):
    """Arrays of a compiled twin; a NamedTuple, which numba accepts as an argument.

    Instructions, shape (i,): ``kind``, ``a``, ``b``.
    Operations, (o,): ``first`` instruction, ``service``, ``scale`` of CPU demands.
    Distributions, (d,): ``dist_kind``, ``dist_mean`` (s), ``dist_spread``.  ``chance``: (c,).
    Services, (s,): ``reach`` (the hosts that its threads may run on, (s, h)), ``workers`` (requests at once), ``queue``
    (that may wait for a worker), ``threads`` (that compute at once), ``quota`` (cores that it may use, counted in
    periods of 100 ms as the kernel does).
    Edges, (e,): ``connections`` (at once), ``idle`` (kept open), ``setup`` (s of CPU for a new one, charged to the
    call), ``opening`` (s that a new one takes beside that), ``latency`` (s, one way), ``timeout`` (s), ``retries``.
    Hosts, (h,): ``cores`` (of a host, or of the part of one that a CPU set names), ``switching`` (slowdown per runnable
    thread and core beyond the first), ``sharing`` (slowdown of a core while all others compute).
    Classes, (k,): ``root`` operation, ``weight``.
    A limit or a timeout of 0 is none.
    """

    kind: Ints
    a: Ints
    b: Ints
    first: Ints
    service: Ints
    scale: Floats
    dist_kind: Ints
    dist_mean: Floats
    dist_spread: Floats
    chance: Floats
    reach: NDArray[np.bool_]
    workers: Ints
    queue: Ints
    threads: Ints
    quota: Floats
    connections: Ints
    idle: Ints
    setup: Floats
    opening: Floats
    latency: Floats
    timeout: Floats
    retries: Ints
    cores: Floats
    switching: Floats
    sharing: Floats
    root: Ints
    weight: Floats


@dataclass
class Builder:
    """Builder of a program; maps the names of services, operations and edges to their indices."""

    def __post_init__(self) -> None:
        self.services: dict[str, int] = {}
        self.operations: dict[tuple[str, str], int] = {}
        self.edges: dict[tuple[str, str], int] = {}
        self._code: list[tuple[int, int, int]] = []
        self._first: list[int] = []
        self._owner: list[int] = []
        self._scale: list[float] = []
        self._dist: list[tuple[int, float, float]] = []
        self._chance: list[float] = []
        self._reach: list[Sequence[int]] = []
        self._service: list[tuple[int, int, int, float]] = []
        self._edge: list[tuple[int, int, float, float, float, float, int]] = []
        self._host: list[tuple[float, float, float]] = []
        self._class: list[tuple[int, float]] = []

    def host(self, cores: float, switching: float = 0.0, sharing: float = 0.0) -> int:
        """Add a host and return its index."""
        self._host.append((cores, switching, sharing))
        return len(self._host) - 1

    def add_service(
        self,
        name: str,
        hosts: Sequence[int] = (0,),
        *,
        workers: int = 0,
        queue: int = 0,
        threads: int = 0,
        quota: float = 0.0,
    ) -> int:
        """Add a service and return its index.  ``hosts``: indices of the hosts where its threads may run."""
        self.services[name] = len(self._service)
        self._reach.append(hosts)
        self._service.append((workers, queue, threads, quota))
        return self.services[name]

    def edge(
        self,
        caller: str,
        callee: str,
        *,
        connections: int = 0,
        idle: int = 1 << 30,
        setup: float = 0.0,
        opening: float = 0.0,
        latency: float = 0.0,
        timeout: float = 0.0,
        retries: int = 0,
    ) -> int:
        """Add a connection pool and return its index.  ``setup``, ``opening``, ``latency``, ``timeout``: in seconds."""
        self.edges[caller, callee] = len(self._edge)
        self._edge.append((connections, idle, setup, opening, latency, timeout, retries))
        return self.edges[caller, callee]

    def distribution(self, kind: int, mean: float, spread: float = 0.0) -> int:
        """Add a distribution with this mean in seconds and return its index."""
        self._dist.append((kind, mean, spread))
        return len(self._dist) - 1

    def chance(self, probability: float) -> int:
        """Add a probability and return its index."""
        self._chance.append(probability)
        return len(self._chance) - 1

    def begin(self, service: str, operation: str, scale: float = 1.0) -> int:
        """Begin an operation: instructions follow with ``add``, the last one is END."""
        self.operations[service, operation] = len(self._first)
        self._first.append(len(self._code))
        self._owner.append(self.services[service])
        self._scale.append(scale)
        return self.operations[service, operation]

    def add(self, kind: int, a: int = 0, b: int = 0) -> int:
        """Append an instruction; return its index, for ``land``."""
        self._code.append((kind, a, b))
        return len(self._code) - 1

    def land(self, place: int) -> None:
        """Let the BRANCH or LOOP at ``place`` jump to the next instruction that is added."""
        kind, a, _ = self._code[place]
        self._code[place] = (kind, a, len(self._code))

    def request(self, operation: int, weight: float) -> None:
        """Add a class of requests that begins with an operation."""
        self._class.append((operation, weight))

    def program(self) -> Program:
        """Return the program built so far."""
        code, dist = np.array(self._code).reshape(-1, 3), np.array(self._dist, float).reshape(-1, 3)
        service, edge = np.array(self._service, float).reshape(-1, 4), np.array(self._edge, float).reshape(-1, 7)
        host, request = np.array(self._host, float).reshape(-1, 3), np.array(self._class, float).reshape(-1, 2)
        reach = np.zeros((len(service), len(host)), np.bool_)
        for number, hosts in enumerate(self._reach):
            reach[number, hosts] = True
        return Program(
            kind=_int32(code[:, 0]),
            a=_int32(code[:, 1]),
            b=_int32(code[:, 2]),
            first=_int32(np.array(self._first)),
            service=_int32(np.array(self._owner)),
            scale=np.array(self._scale, float),
            dist_kind=_int32(dist[:, 0]),
            dist_mean=dist[:, 1].copy(),
            dist_spread=dist[:, 2].copy(),
            chance=np.array(self._chance or [1.0], float),
            reach=reach,
            workers=_int32(service[:, 0]),
            queue=_int32(service[:, 1]),
            threads=_int32(service[:, 2]),
            quota=service[:, 3].copy(),
            connections=_int32(edge[:, 0]),
            idle=_int32(edge[:, 1]),
            setup=edge[:, 2].copy(),
            opening=edge[:, 3].copy(),
            latency=edge[:, 4].copy(),
            timeout=edge[:, 5].copy(),
            retries=_int32(edge[:, 6]),
            cores=host[:, 0].copy(),
            switching=host[:, 1].copy(),
            sharing=host[:, 2].copy(),
            root=_int32(request[:, 0]),
            weight=request[:, 1].copy(),
        )


def _int32(values: NDArray[Any]) -> Ints:
    return np.ascontiguousarray(values, dtype=np.int32)
