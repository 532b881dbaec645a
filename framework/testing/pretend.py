"""A fake testbed with virtual time, for tests of everything above the adapters.

Its application answers with log-normal latencies, whose median is a function of the configuration.  All stages above
the adapters (evaluate, trials, optimizer, verdict) are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from framework.bench import Rig, TestbedKind
from framework.errors import TestbedUnavailable
from framework.model import (
    Application,
    Apply,
    Deployment,
    Finding,
    Hook,
    LoadPlan,
    LoadResult,
    Machine,
    Objective,
    ParameterDefinition,
    Probe,
    Running,
    Service,
    ServiceType,
    Tracing,
    Usage,
    Workload,
)
from framework.model import Container as RunningContainer
from framework.model.spans import SpanTable
from framework.model.topology import Cpu, Topology
from framework.ports.clock import Clock
from framework.ports.testbed import Progress
from optimizer.space import Configuration, Value

MACHINE = Machine("test", 2, 4096, "6.1", "cpu", "pretend engine", "none", "3.11", "0")


SENSITIVITY = 1.3  # of latency to the machine's speed, log on log

Scale = Callable[[Configuration], float]


@dataclass
class PretendMachine:
    """Testbed, load generator and trace reader in one.  ``scale``: configuration -> median latency in ms.

    ``on_deploy`` is called at the start of every deployment with the number of earlier ones, so that a test can fail
    it.  ``invalid_once``: numbers of the deployments (from 1) whose load is sent late, which makes them invalid.
    """

    clock: Clock
    scale: Scale
    noise: float = 0.0  # standard deviation of the log of the median, per window
    speed_noise: float = 0.0  # standard deviation of the log of the machine's speed, per window; 0: not measured
    cores: Callable[[Configuration], float] = lambda configuration: 0.0  # that the service uses
    on_deploy: Callable[[int], None] = lambda count: None
    invalid_once: set[int] = field(default_factory=set)
    fault: str = ""  # of the machine itself, by which a trial failed
    answers: bool = False  # its service sends a span of each request too, not the generator alone
    name: str = "pretend"
    modelled: bool = False
    deployed: list[Configuration] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)
    seeded: int = 0
    _load: LoadResult | None = None

    # ------------------------------------------------------------------ Testbed

    def machine(self) -> Machine:
        return MACHINE

    def check(self, application: Application) -> None:
        pass

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        return [Finding("engine", "ok", "pretend")]

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        self.seeded += 1

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        self.on_deploy(len(self.deployed))
        self.deployed.append(deployment.configuration)
        self.clock.sleep(8)
        container = RunningContainer("cache", "id", "name", "cache:1", "sha256:0", "10.0.0.2", 1, "now", standin=True)
        return Running(deployment, "network", {"cache": container}, {"start": 8.0})

    def run_hook(self, running: Running, hook: Hook) -> str:
        return ""

    def usage(self, running: Running) -> Usage:
        used_s = self.cores(running.deployment.configuration) * self.clock.monotonic()
        return Usage(self.clock.now_ns(), {"cache": used_s}, 0.0, 0.0, 0.0, 2, 0.0)

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        return {}

    def check_itself(self, failure: str) -> None:
        """Raise TestbedUnavailable where ``fault`` says what failed."""
        if self.fault:
            raise TestbedUnavailable(self.fault)

    def alive(self, running: Running) -> None:
        pass

    def projects(self) -> Collection[str]:
        return ()

    def notes(self, application: Application) -> Sequence[str]:
        return ()

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        self.cleaned.append(project)
        return []

    def clean_datasets(self) -> Sequence[str]:
        return []

    # ------------------------------------------------------------------ LoadGenerator and TraceReader

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        seconds = plan.warmup_s + plan.window_s
        count = int(plan.rate_rps * seconds)
        rng = np.random.default_rng([plan.seed, len(self.deployed)])
        started = self.clock.now_ns()
        due = started + (np.arange(count) * seconds / count * 1e9).astype(np.int64)
        median = self.scale(running.deployment.configuration) * np.exp(self.noise * rng.standard_normal())
        slow = self.speed_noise * rng.standard_normal()
        median *= np.exp(SENSITIVITY * slow)
        latency_ns = (median * 1e6 * np.exp(0.5 * rng.standard_normal(count))).astype(np.int64)
        late = len(self.deployed) in self.invalid_once
        self.clock.sleep(plan.warmup_s)
        before = usage()
        self.clock.sleep(plan.window_s)
        self._load = LoadResult(
            started_ns=started,
            warmup_s=plan.warmup_s,
            window_s=plan.window_s,
            classes=("read",),
            due_ns=due,
            sent_ns=due + (latency_ns if late else 0),
            end_ns=due + latency_ns,
            request_class=np.zeros(count, np.uint8),
            status=np.full(count, 200, np.int16),
            ok=np.ones(count, np.bool_),
            errors={},
            spans_created=int((due >= started + plan.warmup_s * 1e9).sum()),
            spans_exported=int((due >= started + plan.warmup_s * 1e9).sum()),
            cpu_s=0.1,
            usage_before=before,
            usage_after=usage(),
            tick_us=40.0 * float(np.exp(slow)) if self.speed_noise else None,
        )
        return self._load

    def created(self, running: Running) -> int | None:
        return self._load.spans_created if self.answers and self._load is not None else 0

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        assert self._load is not None
        chosen = (self._load.due_ns >= start_ns) & (self._load.due_ns < end_ns)
        start, end = self._load.due_ns[chosen], self._load.end_ns[chosen]
        n, each = len(start), 2 if self.answers else 1
        return SpanTable(
            traces=[str(i) for i in range(n)],
            strings=["loadgen", "read", "cache"],
            trace=np.tile(np.arange(n, dtype=np.int32), each),
            span_id=np.arange(1, each * n + 1, dtype=np.uint64),
            parent=np.concatenate([np.full(n, -1, np.int64), np.arange((each - 1) * n)]),
            follows=np.zeros(each * n, np.bool_),
            service=np.repeat(np.array([0, 2], np.int32), n)[: each * n],
            operation=np.ones(each * n, np.int32),
            peer=np.full(each * n, -1, np.int32),
            host=np.full(each * n, -1, np.int32),
            address=np.full(each * n, -1, np.int32),
            kind=np.repeat(np.array([2, 1], np.int8), n)[: each * n],
            error=np.zeros(each * n, np.bool_),
            start_ns=np.tile(start, each),
            end_ns=np.tile(end, each),
        )


def pretend_types() -> dict[str, ServiceType]:
    """Return one service type, with an integer and a categorical parameter."""
    probe = Probe("command", r"(\d+)", command=("true",))
    size = ParameterDefinition(
        "size", "integer", 10, Apply("flag", template="-s {value}"), probe, "cache_bytes", low=1, high=100
    )
    policy = ParameterDefinition(
        "policy", "categorical", "a", Apply("environment", "POLICY"), probe, "eviction", choices=("a", "b", "c")
    )
    return {"cache": ServiceType("cache", "a cache", (size, policy), None, (), {})}


def pretend_application(directory: Path, *idle: str) -> Application:
    """Return an application with the service "cache", for renderers and reports; ``idle`` services do nothing."""
    names = ("cache", *idle)
    return Application(
        name="pretend",
        directory=directory,
        compose={"services": {name: {"image": "cache:1", "command": ["cache"]} for name in names}},
        services=tuple(Service(name, "cache", "local") for name in names),
        hosts=("local",),
        workload=Workload(100.0, "poisson", "http://cache", {}),
        tracing=Tracing("jaeger"),
        objective=Objective(),
        entry="cache",
        content_hash="0" * 64,
    )


def larger_is_faster(configuration: Mapping[str, Value]) -> float:
    """Return a median latency [ms]: 10 at the default's size, less for larger sizes, more for the policy "c"."""
    size = configuration["cache.size"]
    assert isinstance(size, int)
    return 5.0 + 50.0 / size * (1.5 if configuration["cache.policy"] == "c" else 1.0)


def pretend_kind(
    machine: PretendMachine, name: str = "pretend", cpus: Topology | None = None, **more: Any
) -> TestbedKind:
    """Return the pretend machine as a kind of testbed; ``cpus``: None for eight cores of one thread each."""
    topology = cpus or Topology(tuple(Cpu(number, number, 0, 0) for number in range(8)))
    return TestbedKind(
        name=name,
        modelled=machine.modelled,
        exclusive=True,
        available=lambda application: True,
        open=lambda application, types: Rig(machine, machine, machine),
        topology=lambda application: topology,
        manage=lambda types: machine,
        **more,
    )


class PretendIsolation:
    """Isolation that records the CPUs to which services were moved."""

    def __init__(self) -> None:
        self.allowed: dict[str, str] = {}

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        self.allowed.update(cpus)
