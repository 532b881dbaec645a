"""The twin's models in SimPy, as SimPy's book has it: a process for each call, a Resource for all that is limited.

What the benchmark measures the simulator against; and a second opinion, since both must agree within their noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import simpy

from framework.twin.simulator.draws import EXPONENTIAL, LOGNORMAL
from framework.twin.simulator.program import AGAIN, BRANCH, CALL, CPU, DELAY, FORK, JOIN, LOOP, SPAWN, Program

Steps = Generator[simpy.Event, Any, None]


class Shared:
    """Processor sharing, which SimPy has no class for: at every arrival and departure all remaining demands are brought
    up to date and the next departure is planned anew.

    ``switching``, ``sharing``: as of ``Program``.
    """

    def __init__(self, environment: simpy.Environment, cores: float, switching: float = 0.0, sharing: float = 0.0):
        self._environment, self._cores, self._switching, self._sharing = environment, cores, switching, sharing
        self._left: dict[simpy.Event, float] = {}  # of a demand that is met -> seconds of a core that it still needs
        self._since, self._plan = 0.0, 0

    def compute(self, demand: float) -> simpy.Event:
        self._go_on()
        met = self._environment.event()
        self._left[met] = demand
        self._planned()
        return met

    def _rate(self) -> float:
        """Return the share of an unshared core that each thread gets."""
        count = len(self._left)
        busy = min(count, self._cores)
        rate = 1.0 / (1.0 + self._sharing * (busy - 1.0) / (self._cores - 1.0)) if busy > 1.0 else 1.0
        if count > self._cores:
            rate *= self._cores / count / (1.0 + self._switching * (count / self._cores - 1.0))
        return rate

    def _go_on(self) -> None:
        passed, self._since = self._environment.now - self._since, self._environment.now
        if self._left:
            done = passed * self._rate()
            for met in self._left:
                self._left[met] -= done

    def _planned(self) -> None:
        self._plan += 1
        if self._left:
            first = min(self._left, key=self._left.__getitem__)
            wait = self._environment.timeout(max(0.0, self._left[first] / self._rate()), (self._plan, first))
            wait.callbacks.append(self._departs)

    def _departs(self, wait: simpy.Event) -> None:
        plan, first = cast("tuple[int, simpy.Event]", wait.value)
        if plan == self._plan:
            self._go_on()
            del self._left[first]
            first.succeed()
            self._planned()


@dataclass
class Edge:
    """The connections between two services.  ``slots``: how many at once, None: no limit; ``open``: idle ones."""

    idle: int
    setup: float
    opening: float
    latency: float
    slots: simpy.Resource | None
    open: int = 0


@dataclass
class Frame:
    """A call.  ``extra``: seconds that it computes for a new connection; ``forks``: calls not yet waited for."""

    extra: float = 0.0
    forks: list[simpy.Event] = field(default_factory=list)


class Application:
    """A compiled twin.  Raises ValueError where it has what is not written here: quotas, limits of queues, timeouts,
    threads on several hosts.
    """

    def __init__(self, program: Program, seed: int) -> None:
        if program.quota.any() or program.queue.any() or program.timeout.any() or (program.reach.sum(axis=1) > 1).any():
            raise ValueError("a quota, a queue's limit, a timeout or a service on several hosts: not written for SimPy")
        self.environment = environment = simpy.Environment()
        self._random = random.Random(seed)
        self._code = list(zip(program.kind.tolist(), program.a.tolist(), program.b.tolist(), strict=True))
        self._first, self._owner = program.first.tolist(), program.service.tolist()
        self._scale, self._chance, self._root = program.scale.tolist(), program.chance.tolist(), program.root.tolist()
        columns = (program.dist_kind, program.dist_mean, program.dist_spread)
        self._distributions = list(zip(*(column.tolist() for column in columns), strict=True))
        hosts = zip(program.cores.tolist(), program.switching.tolist(), program.sharing.tolist(), strict=True)
        made = [Shared(environment, *host) for host in hosts]
        self._hosts = [made[number] for number in program.reach.argmax(axis=1)]
        self._workers = [self._limited(count) for count in program.workers.tolist()]
        self._threads = [self._limited(count) for count in program.threads.tolist()]
        self._edges = [
            Edge(idle, setup, opening, latency, self._limited(connections))
            for idle, setup, opening, latency, connections in zip(
                program.idle.tolist(), program.setup.tolist(), program.opening.tolist(), program.latency.tolist(),
                program.connections.tolist(), strict=True,
            )
        ]  # fmt: skip
        self.latency_s: list[float] = []

    def _limited(self, count: int) -> simpy.Resource | None:
        return simpy.Resource(self.environment, count) if count else None

    def run(self, due: Sequence[float], kinds: Sequence[int], until: float) -> None:
        """Requests of these classes at these times (ascending, s); ``latency_s`` of those that end by ``until``."""
        self.environment.process(self._source(due, kinds))
        self.environment.run(until)

    def _source(self, due: Sequence[float], kinds: Sequence[int]) -> Steps:
        for at, kind in zip(due, kinds, strict=True):
            yield self.environment.timeout(at - self.environment.now)
            self.environment.process(self._request(self._root[kind]))

    def _request(self, operation: int) -> Steps:
        began = self.environment.now
        yield from self._served(operation, Frame())
        self.latency_s.append(self.environment.now - began)

    def _call(self, operation: int, number: int) -> Steps:
        """Over a connection that is idle or new, there and back."""
        edge, frame = self._edges[number], Frame()
        slot = edge.slots.request() if edge.slots is not None else None
        if slot is not None:
            yield slot
        way = edge.latency
        if edge.open:
            edge.open -= 1
        else:
            frame.extra, way = edge.setup, way + edge.opening
        if way:
            yield self.environment.timeout(way)
        yield from self._served(operation, frame)
        if edge.latency:
            yield self.environment.timeout(edge.latency)
        if edge.open < edge.idle:
            edge.open += 1
        if slot is not None and edge.slots is not None:
            edge.slots.release(slot)

    def _served(self, operation: int, frame: Frame) -> Steps:
        """By a worker, where there is a limit of them."""
        workers = self._workers[self._owner[operation]]
        if workers is None:
            yield from self._carried_out(operation, frame)
            return
        with workers.request() as turn:
            yield turn
            yield from self._carried_out(operation, frame)

    def _carried_out(self, operation: int, frame: Frame) -> Steps:
        service, place, loops = self._owner[operation], self._first[operation], 0
        environment = self.environment
        while True:
            kind, a, b = self._code[place]
            place += 1
            if kind == CPU:
                demand = self._drawn(a) * self._scale[operation] + frame.extra
                frame.extra = 0.0
                yield from self._computed(service, demand)
            elif kind == CALL:
                yield environment.process(self._call(a, b))
            elif kind == FORK:
                frame.forks.append(environment.process(self._call(a, b)))
            elif kind == SPAWN:
                environment.process(self._call(a, b))
            elif kind == DELAY:
                yield environment.timeout(self._drawn(a))
            elif kind == BRANCH:
                place = place if self._random.random() < self._chance[a] else b
            elif kind == LOOP:
                loops = int(self._drawn(a) + 0.5)
                place = place if loops > 0 else b
            elif kind == AGAIN:
                loops -= 1
                place = b + 1 if loops > 0 else place
            else:  # JOIN or END
                if frame.forks:
                    yield environment.all_of(frame.forks)
                    frame.forks = []
                if kind != JOIN:
                    return

    def _computed(self, service: int, demand: float) -> Steps:
        threads = self._threads[service]
        if demand <= 0.0:
            return
        if threads is None:
            yield self._hosts[service].compute(demand)
            return
        with threads.request() as turn:
            yield turn
            yield self._hosts[service].compute(demand)

    def _drawn(self, number: int) -> float:
        kind, mean, spread = self._distributions[number]
        if kind == EXPONENTIAL:
            return self._random.expovariate(1.0 / mean)
        if kind == LOGNORMAL:
            return self._random.lognormvariate(math.log(mean) - 0.5 * spread * spread, spread)
        return float(mean)
