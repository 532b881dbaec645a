"""Generated applications with twins, to compare optimizers on shapes and sizes of which no real application is at hand.

Shapes follow traces of large deployments (Luo et al., SoCC 2021, "Characterizing Microservice Dependency and
Performance"): each kind of request uses a part of the services, trees of calls are mostly wide and shallow, and many
services share stores and caches.  Service types and their parameters are those of the knowledge base.
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

FIXED = {"go-service": {"memory_limit_mib": "default"}}  # a limit has no effect that the twin knows
IMAGES = {"nginx": "nginx:1.22", "go-service": "", "memcached": "memcached:1.6", "postgresql": "postgres:15"}
CORES = 8  # of a host
PER_HOST = 24  # services
PER_KIND = 20  # services for each kind of request, at most
BUSY = 0.45  # utilisation of the busiest host with the default, without the cost of switching and new connections
MISSES = 0.3  # miss ratio with the default memory


def generated(seed: int, services: int, shape: Shape) -> tuple[Twin, Application]:
    """Generate an application of ``services`` services with its twin; equal arguments give equal applications.

    Raises InputError for fewer than 5 services.
    """
    if services < 5:
        raise InputError(f"services: found {services}; allowed: at least 5")
    return _Generator(seed, services, shape).generate()


class _Generator:
    """Generator of one application; every number comes from ``seed``."""

    def __init__(self, seed: int, services: int, shape: Shape) -> None:
        self._rng = np.random.default_rng([31, seed, services, shape == "chain"])
        self._shape = shape
        self.name = f"made-{shape}-{services}-{seed}"
        pairs = max(1, services // 5)
        self.logic = [f"logic{i}" for i in range(services - 1 - 2 * pairs)]
        self.pairs = [(f"cache{i}", f"store{i}") for i in range(pairs)]
        # Many services share a few of the pairs; few services share each of the others.
        popularity = (1.0 + np.arange(pairs)) ** -0.7
        owner = self._rng.choice(pairs, size=len(self.logic), p=popularity / popularity.sum())
        self.pair_of = {name: self.pairs[place] for name, place in zip(self.logic, owner.tolist(), strict=True)}
        self.demand_us = {name: 300.0 * float(self._rng.lognormal(0.0, 0.6)) for name in self.logic}
        self.operations: list[TwinOperation] = []
        self.edges: dict[tuple[str, str], TwinEdge] = {}

    def generate(self) -> tuple[Twin, Application]:
        kinds = max(2, math.ceil(len(self.logic) / PER_KIND))
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
        """Add the calls among the services of a kind: a chain, or from each service to a few others in parallel."""
        below: dict[str, list[str]] = {name: [] for name in members}
        for place, name in enumerate(members[1:], 1):
            above = place - 1 if self._shape == "chain" else int(self._rng.integers(max(0, place // 4), max(1, place)))
            below[members[above]].append(name)
        for name in members:
            cache, store = self.pair_of[name]
            calls = [
                TwinCall(cache, "get"),
                TwinCall(store, "query", probability=MISSES, miss=cache),
                *(TwinCall(callee, kind, mode="parallel" if i else "wait") for i, callee in enumerate(below[name])),
            ]
            parts = self._rng.dirichlet(np.full(len(calls) + 1, 1.0)) * self.demand_us[name]
            self._add(name, kind, parts.tolist(), calls, float(self._rng.uniform(0.3, 0.8)))

    def _add(self, service: str, operation: str, pieces: list[float], calls: list[TwinCall], spread: float) -> None:
        self.operations.append(TwinOperation(service, operation, tuple(pieces), spread, tuple(calls)))
        for call in calls:
            self.edges.setdefault((service, call.service), TwinEdge(service, call.service, 60.0, 120.0))

    def _hosts(self) -> list[str]:
        count = 1 + (len(self.logic) + 2 * len(self.pairs)) // PER_HOST
        return [f"host{number}" for number in range(count)]

    def _services(self) -> tuple[TwinService, ...]:
        hosts = self._hosts()
        stored = [name for pair in self.pairs for name in pair]
        services = []
        for number, name in enumerate(["nginx", *self.logic, *stored]):
            host = hosts[number % len(hosts)]
            if name.startswith("cache"):
                cache = TwinCache(int(self._rng.integers(50_000, 400_000)), 1.0, float(self._rng.uniform(0.6, 1.1)))
                services.append(TwinService(name, host, traced=False, cache=cache, cache_ratio=1.0 - MISSES))
            elif name.startswith("logic"):
                share = float(self._rng.uniform(0.5, 0.95))
                services.append(TwinService(name, host, share, gc_share=float(self._rng.uniform(0.05, 0.25))))
            else:
                services.append(TwinService(name, host, cpu_share=0.6 if name != "nginx" else 0.9, traced=False))
        return tuple(services)

    def _rate(self, twin: Twin) -> float:
        """Return the rate in requests/s at which the busiest host has the utilisation ``BUSY``."""
        visits = expected_visits(twin)
        service_of = {service.name: service for service in twin.services}
        busy: dict[str, float] = {}
        for operation in twin.operations:
            service = service_of[operation.service]
            visited = visits[operation.service, operation.operation]
            work_s = visited * sum(operation.pieces_us) / 1e6 * service.cpu_share
            busy[service.host] = busy.get(service.host, 0.0) + work_s
        return round(BUSY * CORES / max(busy.values()), 1)

    def _application(self, rate_rps: float) -> Application:
        kinds = {"n": "nginx", "l": "go-service", "c": "memcached", "s": "postgresql"}
        names = ["nginx", *self.logic, *(name for pair in self.pairs for name in pair)]
        services = tuple(Service(name, kinds[name[0]], "all", True, FIXED.get(kinds[name[0]], {})) for name in names)
        compose = {"services": {service.name: {"image": IMAGES[service.type]} for service in services}}
        workload = Workload(rate_rps, "poisson", "nginx", {})
        return Application(
            self.name, Path(self.name), compose, services, ("all",), workload, Tracing(""), Objective(), entry="nginx"
        )
