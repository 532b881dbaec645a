"""Applications that nobody has measured, with twins: for comparing optimizers on shapes and sizes that are not at hand.

Shapes as traces of large deployments show them (Luo et al., SoCC 2021, "Characterizing Microservice Dependency and
Performance"): request kinds that touch a part of the services each, trees of calls that are mostly wide and shallow,
stores and caches that many services share.  Service types and their parameters are those of the knowledge base.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np

from framework.errors import InputError
from framework.model import Application, Objective, Service, Tracing, Workload
from framework.model.twin import Twin, TwinCache, TwinCall, TwinEdge, TwinHost, TwinOperation, TwinService
from framework.twin.visits import expected_visits

Shape = Literal["chain", "fan-out"]

IMAGES = {"nginx": "nginx:1.22", "go": "", "memcached": "memcached:1.6", "postgresql": "postgres:15"}
CORES = 8  # of a host
ON_A_HOST = 24  # services
A_KIND = 20  # services for each kind of request, at most
BUSY = 0.45  # of the busiest host with the default, without what switching and new connections cost
MISSES = 0.3  # with the default memory


def generated(seed: int, services: int, shape: Shape) -> tuple[Twin, Application]:
    """An application of so many services; the same arguments, the same application.  Raises InputError."""
    if services < 5:
        raise InputError(f"services: found {services}; allowed: at least 5")
    return _Making(seed, services, shape).made()


class _Making:
    """Draws an application; every number comes from ``seed``."""

    def __init__(self, seed: int, services: int, shape: Shape) -> None:
        self._rng = np.random.default_rng([31, seed, services, shape == "chain"])
        self._shape = shape
        self.name = f"made-{shape}-{services}-{seed}"
        pairs = max(1, services // 5)
        self.logic = [f"logic{i}" for i in range(services - 1 - 2 * pairs)]
        self.pairs = [(f"cache{i}", f"store{i}") for i in range(pairs)]
        # Shared: a few pairs belong to many services, most to few.
        popularity = (1.0 + np.arange(pairs)) ** -0.7
        owner = self._rng.choice(pairs, size=len(self.logic), p=popularity / popularity.sum())
        self.pair_of = {name: self.pairs[place] for name, place in zip(self.logic, owner.tolist(), strict=True)}
        self.demand_us = {name: 300.0 * float(self._rng.lognormal(0.0, 0.6)) for name in self.logic}
        self.operations: list[TwinOperation] = []
        self.edges: dict[tuple[str, str], TwinEdge] = {}

    def made(self) -> tuple[Twin, Application]:
        kinds = max(2, math.ceil(len(self.logic) / A_KIND))
        weights = self._rng.dirichlet(np.full(kinds, 2.0))
        classes = {}
        # Every logic service is in one kind.
        order = self._rng.permutation(self.logic).tolist()
        parts = [order[number::kinds] for number in range(kinds)]
        for number, part in enumerate(parts):
            kind = f"kind{number}"
            self._tree(part, kind)
            self._add("nginx", kind, [80.0, 40.0], [TwinCall(part[0], kind)], 0.4)
            classes[f"nginx {kind}"] = round(float(weights[number]), 6)
        for cache, store in self.pairs:
            self._add(cache, "get", [float(self._rng.uniform(30, 80))], [], 0.4)
            self._add(store, "query", [float(self._rng.lognormal(np.log(700), 0.5))], [], 0.8)
        twin = Twin(
            application=self.name,
            classes=classes,
            operations=tuple(self.operations),
            services=self._services(),
            edges=tuple(self.edges.values()),
            hosts=tuple(TwinHost(name, CORES, 0.02, memory_mib=32_768) for name in self._hosts()),
            run_spread=0.05,
        )
        return twin, self._application(self._rate(twin))

    def _tree(self, members: list[str], kind: str) -> None:
        """Calls among the services of a kind: in a row, or from each to a few below, side by side."""
        below: dict[str, list[str]] = {name: [] for name in members}
        for place, name in enumerate(members[1:], 1):
            above = place - 1 if self._shape == "chain" else int(self._rng.integers(max(0, place // 4), max(1, place)))
            below[members[above]].append(name)
        for name in members:
            cache, store = self.pair_of[name]
            calls = [
                TwinCall(cache, "get"),
                TwinCall(store, "query", probability=MISSES, miss=cache),
                *(TwinCall(one, kind, mode="parallel" if i else "wait") for i, one in enumerate(below[name])),
            ]
            parts = self._rng.dirichlet(np.full(len(calls) + 1, 1.0)) * self.demand_us[name]
            self._add(name, kind, parts.tolist(), calls, float(self._rng.uniform(0.3, 0.8)))

    def _add(self, service: str, operation: str, pieces: list[float], calls: list[TwinCall], spread: float) -> None:
        self.operations.append(TwinOperation(service, operation, tuple(pieces), spread, tuple(calls)))
        for call in calls:
            self.edges.setdefault((service, call.service), TwinEdge(service, call.service, 60.0, 120.0))

    def _hosts(self) -> list[str]:
        count = 1 + (len(self.logic) + 2 * len(self.pairs)) // ON_A_HOST
        return [f"host{number}" for number in range(count)]

    def _services(self) -> tuple[TwinService, ...]:
        hosts = self._hosts()
        stored = [name for pair in self.pairs for name in pair]
        found = []
        for number, name in enumerate(["nginx", *self.logic, *stored]):
            host = hosts[number % len(hosts)]
            if name.startswith("cache"):
                cache = TwinCache(int(self._rng.integers(50_000, 400_000)), 1.0, float(self._rng.uniform(0.6, 1.1)))
                found.append(TwinService(name, host, traced=False, cache=cache, cache_ratio=1.0 - MISSES))
            elif name.startswith("logic"):
                share = float(self._rng.uniform(0.5, 0.95))
                found.append(TwinService(name, host, share, gc_share=float(self._rng.uniform(0.05, 0.25))))
            else:
                found.append(TwinService(name, host, cpu_share=0.6 if name != "nginx" else 0.9, traced=False))
        return tuple(found)

    def _rate(self, twin: Twin) -> float:
        """So that the busiest host has its share of work."""
        visits = expected_visits(twin)
        service = {one.name: one for one in twin.services}
        busy: dict[str, float] = {}
        for one in twin.operations:
            about = service[one.service]
            work_s = visits[one.service, one.operation] * sum(one.pieces_us) / 1e6 * about.cpu_share
            busy[about.host] = busy.get(about.host, 0.0) + work_s
        return round(BUSY * CORES / max(busy.values()), 1)

    def _application(self, rate_rps: float) -> Application:
        kinds = {"n": "nginx", "l": "go", "c": "memcached", "s": "postgresql"}
        names = ["nginx", *self.logic, *(name for pair in self.pairs for name in pair)]
        services = tuple(Service(name, kinds[name[0]], "all") for name in names)
        compose = {"services": {one.name: {"image": IMAGES[one.type]} for one in services}}
        workload = Workload(rate_rps, "poisson", "nginx", {})
        return Application(
            self.name, Path(self.name), compose, services, ("all",), workload, Tracing(""), Objective(), entry="nginx"
        )
