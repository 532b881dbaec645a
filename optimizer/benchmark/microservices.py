"""Synthetic microservice applications: p95 latency by queueing formulas over chains and fan-outs.

They have features of real applications that test functions lack: parameters of little effect, optima at defaults,
saturation, cliffs (memory that runs out), pools that must match, unordered policies, noise that grows with load,
failures.

Sources: waiting time in M/M/c: Sakasegawa, Annals of the Institute of Statistical Mathematics 29 (1977); hit ratio of a
cache under Zipf popularity: the power law of Che, Tung & Wang, IEEE JSAC 20(7) (2002), simplified.  The rest is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimizer.space import Configuration, Parameter, SearchSpace

FULL = 0.97  # utilisation above which a queue is taken to grow without end
TAIL = 1.645  # standard deviations from the mean to the 95 % quantile of a normal distribution
THRASHING = 1.15  # memory over its limit by this factor: the kernel kills processes


@dataclass(frozen=True)
class _Time:
    """Mean (ms) and variance (ms^2) of a response time."""

    mean: float
    variance: float

    def __add__(self, other: _Time) -> _Time:
        return _Time(self.mean + other.mean, self.variance + other.variance)


class _Saturated(Exception):
    """A queue that grows without end."""


@dataclass(frozen=True)
class _Service:
    """One service.  ``demand``: ms of CPU per visit; ``visits``: per request; ``calls``: the services that it calls."""

    name: str
    kind: str
    demand: float
    visits: float
    calls: tuple[str, ...]
    parallel: bool
    character: Mapping[str, float]  # hidden coefficients


class Microservices:
    """One synthetic application; ``seed`` draws its hidden coefficients, so that another seed is another problem.

    ``services``: at least 3.  ``shape``: "chain" or "fan-out".  ``dimensions``: number of parameters; those that the
    services do not have are inert.
    """

    family = "microservices"

    def __init__(self, seed: int, services: int, shape: str, dimensions: int) -> None:
        self.name = f"microservices-{shape}-{services}x{dimensions}-seed{seed}"
        self._rng = np.random.default_rng([20_26, seed, services, dimensions])
        self._shape = shape
        self.rate = 0.0  # requests per second; see _set_rate
        self.cores = int(self._rng.integers(4, 17))
        self.services = {service.name: service for service in self._build(services)}
        parameters = [
            parameter for service in self.services.values() for parameter in _PARAMETERS[service.kind](service)
        ]
        if len(parameters) > dimensions:
            parameters = parameters[:dimensions]
        # Own bounds for each application: otherwise the middle of the space would be good in all of them.
        parameters = [self._bounded(parameter) for parameter in parameters]
        parameters += [self._inert(index) for index in range(dimensions - len(parameters))]
        self.space = SearchSpace(parameters)
        self._defaults = self.space.default().to_dict()
        self.memory_mib = memory(self.services.values(), self._defaults) * float(self._rng.uniform(3, 8))
        self._last: tuple[Configuration, _Evaluation] | None = None
        self._set_rate()

    # ------------------------------------------------------------------ construction

    def _build(self, count: int) -> list[_Service]:
        """Return the services: a proxy, logic, and each a quarter caches and stores; each cache calls a store."""
        rng = self._rng
        pairs = max(1, count // 4)
        logic = max(1, count - 1 - 2 * pairs)
        names = [f"logic{i}" for i in range(logic)]
        services = [self._service("proxy", "proxy", 1.0, (names[0],), False)]
        owners = [int(i) for i in rng.integers(logic, size=pairs)]
        for index, name in enumerate(names):
            below: tuple[str, ...]
            stores = tuple(f"cache{j}" for j in range(pairs) if owners[j] == index)
            if self._shape == "chain":
                below = (names[index + 1],) if index + 1 < logic else ()
            else:
                below = tuple(names[1:]) if index == 0 else ()
            services.append(
                self._service(name, "logic", float(rng.uniform(0.5, 1.5)), below + stores, self._shape != "chain")
            )
        for j in range(pairs):
            services.append(self._service(f"cache{j}", "cache", float(rng.uniform(1, 4)), (f"store{j}",), False))
            services.append(self._service(f"store{j}", "store", 1.0, (), False))
        return services

    def _service(self, name: str, kind: str, visits: float, calls: tuple[str, ...], parallel: bool) -> _Service:
        demand = {"proxy": 0.1, "logic": 0.6, "cache": 0.03, "store": 0.5}[kind] * float(self._rng.lognormal(0.0, 0.5))
        character = {key: float(self._rng.random()) for key in ("a", "b", "c", "d", "e", "f")}
        return _Service(name, kind, demand, visits, calls, parallel, character)

    def _bounded(self, parameter: Parameter) -> Parameter:
        """Return the parameter with random bounds, each up to half of the way (in its scale) towards the default."""
        if not parameter.ordered:
            return parameter
        first, last = float(parameter.low or 0), float(parameter.high or 0)
        log = parameter.scale == "log"
        low, middle, high = (math.log(x) if log else x for x in (first, float(parameter.default), last))
        ends = [low + 0.5 * self._rng.random() * (middle - low), high - 0.5 * self._rng.random() * (high - middle)]
        low, high = (math.exp(x) if log else x for x in ends)
        if parameter.kind == "integer":
            low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
        return replace(parameter, low=low, high=high)

    def _inert(self, index: int) -> Parameter:
        group = f"inert{index // 6}"
        name = f"{group}.p{index % 6}"
        kind = index % 4
        if kind == 0:
            return Parameter(name, "integer", 16, low=1, high=1024, scale="log", group=group)
        if kind == 1:
            return Parameter(name, "real", 0.5, low=0.0, high=1.0, group=group)
        if kind == 2:
            return Parameter(name, "boolean", True, group=group)
        return Parameter(name, "categorical", "a", choices=("a", "b", "c"), group=group)

    def _set_rate(self) -> None:
        """Set the rate that uses the busiest queue of the default to 40 to 85 %, by bisection."""
        wanted = float(self._rng.uniform(0.4, 0.85))
        low, high = 1e-2, 1e5
        for _ in range(60):
            self.rate = math.sqrt(low * high)
            if _Evaluation(self, self._defaults).busiest < wanted:
                low = self.rate
            else:
                high = self.rate
        self.rate = low

    # ------------------------------------------------------------------ Problem

    def truth(self, configuration: Configuration) -> float | None:
        return self._evaluated(configuration).value

    def noise(self, configuration: Configuration) -> float:
        """Return the noise: 2 % on an idle system, up to 11 % on a full one."""
        return 0.02 + 0.1 * self._evaluated(configuration).busiest ** 4

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        """Return each service's share of the sum of all services' own times."""
        own = self._evaluated(configuration).own
        total = math.fsum(own.values())
        return {name: time / total for name, time in own.items()} if total > 0 else {}

    def _evaluated(self, configuration: Configuration) -> _Evaluation:
        if self._last is None or self._last[0] != configuration:
            self._last = configuration, _Evaluation(self, {**self._defaults, **configuration})
        return self._last[1]


class _Evaluation:
    """The evaluation of one configuration.

    ``value``: ms, None where it fails.  ``use``: utilisation by queue, 0 to 1.  ``own``: ms per request by service.
    """

    def __init__(self, application: Microservices, values: Mapping[str, Any]) -> None:
        self.rate, self.cores = application.rate, application.cores
        self._by_name = application.services
        self._values = values
        self.use: dict[str, float] = {}
        self.own: dict[str, float] = {}
        self.value: float | None = None
        over = memory(application.services.values(), values) / application.memory_mib
        try:
            total = self._response("proxy", 1.0)
        except _Saturated:
            return
        if over <= THRASHING:
            slow = 1.0 if over <= 1 else 1.0 + 8.0 * (over - 1.0) / (THRASHING - 1.0)  # a cliff: swapping
            self.value = slow * (total.mean + TAIL * math.sqrt(total.variance))

    @property
    def busiest(self) -> float:
        return max(self.use.values(), default=0.0)

    def _response(self, name: str, share: float) -> _Time:
        """Return the response time of one visit, with all calls below it; ``share`` of the visits get here."""
        service = self._by_name[name]
        get, hidden = _getter(name, self._values), service.character
        below = share
        if service.kind == "proxy":
            own = self._proxy(service, get)
        elif service.kind == "logic":
            own = self._logic(service, get)
        elif service.kind == "cache":
            hit = _hit_ratio(float(get("memory_mib", 64)), 40 + 400 * hidden["a"], str(get("policy", "lru")), hidden)
            below = share * (1 - hit)
            own = self._queue(
                service, service.demand * (1 + 0.1 * abs(float(get("growth", 1.25)) - 1.25 - 0.2 * hidden["b"])),
                _threads(int(get("threads", 4)), self.cores, hidden), share,
            )  # fmt: skip
        else:
            own = self._store(service, get, share)
        children = [self._response(child, below) for child in service.calls]
        weight = below / share if service.kind == "cache" and share > 0 else 1.0
        total = own + _weighted(_joined(children, service.parallel), weight)
        if service.kind == "logic" and children:
            total = total + self._pool(service, get, _joined(children, service.parallel), share)
        self.own[name] = self.own.get(name, 0.0) + own.mean * service.visits * share
        return _Time(total.mean * service.visits, total.variance * service.visits)

    def _proxy(self, service: _Service, get: Callable[[str, Any], Any]) -> _Time:
        hidden = service.character
        compress = {"off": 1.0, "fast": 0.9 + 0.4 * hidden["a"], "best": 1.3 + hidden["b"]}[str(get("compress", "off"))]
        buffer = 1 + 0.05 * abs(math.log2(float(get("buffer_kib", 8)) / 32))
        fresh = 1.0 if int(get("keepalive", 0)) >= 16 else 1.2 + 0.5 * hidden["c"]
        wait = 0.0 if bool(get("nodelay", True)) else 2.0
        own = self._queue(service, service.demand * compress * buffer * fresh, int(get("workers", 1)), 1.0)
        return _Time(own.mean + wait, own.variance + wait * wait)

    def _logic(self, service: _Service, get: Callable[[str, Any], Any]) -> _Time:
        hidden = service.character
        codec = {"json": 1.0, "protobuf": 0.75 + 0.2 * hidden["a"], "msgpack": 0.85 + 0.3 * hidden["b"]}
        collect = 1 + 0.25 * hidden["c"] * (100 / float(get("gc_percent", 100))) ** 0.7
        batch = 1 + 0.08 * abs(math.log2(float(get("batch", 8))) - 6 * hidden["d"])
        workers = int(get("workers", 8))
        crowd = 1 + 0.04 * max(0.0, math.log2(workers / self.cores))
        demand = service.demand * codec[str(get("codec", "json"))] * collect * batch * crowd
        own = self._queue(service, demand, min(workers, self.cores), 1.0)
        pause = 0.6 * hidden["c"] * (100 / float(get("gc_percent", 100))) ** 0.5
        return _Time(own.mean, own.variance + pause * pause)

    def _store(self, service: _Service, get: Callable[[str, Any], Any], share: float) -> _Time:
        hidden = service.character
        hit = _hit_ratio(float(get("buffers_mib", 128)), 100 + 800 * hidden["a"], "lru", hidden)
        io = (1 - hit) * (0.5 + 3 * hidden["b"]) * {"sync": 1.0, "batch": 0.8, "direct": 0.7 + 0.6 * hidden["c"]}[
            str(get("io_method", "sync"))
        ]  # fmt: skip
        connections = int(get("connections", 100))
        crowd = 1 + 0.15 * max(0.0, math.log2(connections / (4 * self.cores)))
        work = 1 + 0.06 * abs(math.log2(float(get("work_mem_mib", 4)) / (4 + 28 * hidden["d"])))
        own = self._queue(service, service.demand * crowd * work + io, min(connections, 2 * self.cores), share)
        checkpoint = (0.2 + 2 * hidden["e"]) * (300 / float(get("checkpoint_s", 300))) ** 0.5
        return _Time(own.mean, own.variance + checkpoint * checkpoint)

    def _pool(self, service: _Service, get: Callable[[str, Any], Any], holding: _Time, share: float) -> _Time:
        """Return the wait for a connection of the pool; ``holding``: the time for which a visit holds one."""
        size = int(get("connections", 4))
        arrivals = self.rate * service.visits * share
        return _waiting(f"{service.name}.pool", holding.mean, size, arrivals, self.use)

    def _queue(self, service: _Service, demand: float, servers: int, share: float) -> _Time:
        """Return the response time of an M/M/c queue: waiting and service time."""
        arrivals = self.rate * service.visits * share
        return _waiting(service.name, demand, servers, arrivals, self.use) + _Time(demand, demand * demand)


def memory(services: Iterable[_Service], values: Mapping[str, Any]) -> float:
    """Return the memory in use, in MiB."""
    used = 0.0
    for service in services:
        get = _getter(service.name, values)
        if service.kind == "logic":
            used += 20 + 0.3 * float(get("workers", 8)) + 0.1 * float(get("gc_percent", 100))
        elif service.kind == "cache":
            used += float(get("memory_mib", 64))
        elif service.kind == "store":
            used += float(get("buffers_mib", 128)) + 0.4 * float(get("connections", 100))
    return used


def _waiting(name: str, demand: float, servers: int, arrivals: float, use: dict[str, float]) -> _Time:
    """Return the waiting time Wq = demand * rho ^ (sqrt(2 (c + 1)) - 1) / (c (1 - rho)) (Sakasegawa 1977).

    Raises _Saturated.
    """
    rho = arrivals * demand / 1000.0 / servers
    use[name] = max(use.get(name, 0.0), rho)
    if rho >= FULL:
        raise _Saturated(name)
    wait = demand * rho ** (math.sqrt(2.0 * (servers + 1)) - 1) / (servers * (1 - rho))
    return _Time(wait, wait * wait + 2 * wait * demand)


def _joined(children: list[_Time], parallel: bool) -> _Time:
    """Return the time of calls in sequence (the sum), or in parallel (the slowest, and more for many of them)."""
    if not children:
        return _Time(0.0, 0.0)
    if not parallel:
        return _Time(math.fsum(child.mean for child in children), math.fsum(child.variance for child in children))
    slowest = max(children, key=lambda child: child.mean)
    spread = math.sqrt(max(child.variance for child in children))
    return _Time(slowest.mean + 0.3 * spread * math.log(len(children)), spread * spread)


def _weighted(time: _Time, weight: float) -> _Time:
    """Return the time if only a fraction ``weight`` of the visits takes it: a mixture with zero."""
    return _Time(weight * time.mean, weight * (time.variance + (1 - weight) * time.mean**2))


def _hit_ratio(memory: float, half: float, policy: str, hidden: Mapping[str, float]) -> float:
    """Return the hit ratio of a cache: a half at ``half`` MiB; the best policy depends on the hidden load."""
    factor = {"lru": 1.0, "lfu": 0.7 + 0.8 * hidden["c"], "fifo": 0.8, "random": 0.75}[policy]
    return 1 - math.pow(1 + memory * factor / half, -(0.6 + 0.6 * hidden["d"]))


def _threads(threads: int, cores: int, hidden: Mapping[str, float]) -> int:
    """Return the effective number of threads: more threads than cores slow each other down."""
    return max(1, round(min(threads, cores) / (1 + 0.3 * hidden["e"] * max(0, threads - cores) / cores)))


def _getter(service: str, values: Mapping[str, Any]) -> Callable[[str, Any], Any]:
    return lambda parameter, default: values.get(f"{service}.{parameter}", default)


def _proxy_parameters(service: _Service) -> list[Parameter]:
    g = service.name
    return [
        Parameter(f"{g}.workers", "integer", 2, low=1, high=32, scale="log", group=g),
        Parameter(f"{g}.keepalive", "integer", 0, low=0, high=256, group=g),
        Parameter(f"{g}.buffer_kib", "integer", 8, low=4, high=256, scale="log", group=g),
        Parameter(f"{g}.nodelay", "boolean", True, group=g),
        Parameter(f"{g}.compress", "categorical", "off", choices=("off", "fast", "best"), group=g),
    ]


def _logic_parameters(service: _Service) -> list[Parameter]:
    g = service.name
    return [
        Parameter(f"{g}.workers", "integer", 8, low=4, high=256, scale="log", group=g),
        Parameter(f"{g}.connections", "integer", 8, low=4, high=128, scale="log", group=g),
        Parameter(f"{g}.gc_percent", "integer", 100, low=25, high=800, scale="log", group=g),
        Parameter(f"{g}.codec", "categorical", "json", choices=("json", "protobuf", "msgpack"), group=g),
        Parameter(f"{g}.batch", "integer", 8, low=1, high=64, scale="log", group=g),
    ]


def _cache_parameters(service: _Service) -> list[Parameter]:
    g = service.name
    return [
        Parameter(f"{g}.memory_mib", "integer", 64, low=16, high=4096, scale="log", group=g),
        Parameter(f"{g}.threads", "integer", 4, low=1, high=32, group=g),
        Parameter(f"{g}.policy", "categorical", "lru", choices=("lru", "lfu", "fifo", "random"), group=g),
        Parameter(f"{g}.growth", "real", 1.25, low=1.05, high=2.0, group=g),
    ]


def _store_parameters(service: _Service) -> list[Parameter]:
    g = service.name
    return [
        Parameter(f"{g}.buffers_mib", "integer", 128, low=16, high=8192, scale="log", group=g),
        Parameter(f"{g}.connections", "integer", 100, low=10, high=500, scale="log", group=g),
        Parameter(f"{g}.work_mem_mib", "integer", 4, low=1, high=256, scale="log", group=g),
        Parameter(f"{g}.checkpoint_s", "integer", 300, low=30, high=3600, scale="log", group=g),
        Parameter(f"{g}.io_method", "categorical", "sync", choices=("sync", "batch", "direct"), group=g),
    ]


_PARAMETERS: Mapping[str, Callable[[_Service], list[Parameter]]] = {
    "proxy": _proxy_parameters,
    "logic": _logic_parameters,
    "cache": _cache_parameters,
    "store": _store_parameters,
}
