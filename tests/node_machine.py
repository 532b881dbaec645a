"""A pretend machine of eight cores, on which an application scales as we say with those that it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framework.bench import Colocation
from framework.bootstrap.adapters import Opened
from framework.capacity.law_draws import throughput
from framework.model import LoadPlan, LoadResult, Running, Usage
from framework.model.cpus import read_cpus
from framework.model.stressors import Threads
from framework.model.topology import Topology
from framework.ports.testbed import Progress
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

CORES = 8
G, A, B = 100.0, 0.03, 0.002  # of its law: requests/s
SHARES = {"front": 0.9, "cache": 0.1}  # of the CPU time
MEMORY_MIB = {"front": 30.0, "cache": 70.0, "jaeger": 500.0}
RECEIVED, SENT = 200.0, 1_500.0  # bytes per request of the front end


def capacity(configuration: Mapping[str, Any], cores: float) -> float:
    return float(throughput(cores, G, A, B))


@dataclass
class NodeMachine(PretendMachine):
    """Answers up to a rate that follows from its cores; above it, requests wait longer and longer.

    ``rps``: (configuration, cores) -> requests/s.  ``generator_s``: CPU seconds of the load generator per request.
    ``cpus_of_core``: hardware threads of a core.  ``limited_by_generator``: a generator with CPUs of its own sends no
    more than they can.  ``sent_late_ms``: rate -> how long after they are due requests are sent.
    ``driven``: (CPUs of the services, CPUs of the generator, rate, names of the requests) of each measured load.
    ``on_load``: called before each, with the number of earlier ones.
    """

    rps: Callable[[Mapping[str, Any], float], float] = capacity
    generator_s: float = 0.0
    cpus_of_core: int = 1
    limited_by_generator: bool = False
    sent_late_ms: Callable[[float], float] = lambda rate_rps: 0.0
    timing: Literal["due", "sent", "distribution"] = "due"
    driven: list[tuple[str, str, float, tuple[str, ...]]] = field(default_factory=list)
    on_load: Callable[[int], None] = lambda count: None
    requests: float = 0.0  # so far
    names: tuple[str, ...] = ()  # of the requests that are sent now

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        configuration = running.deployment.configuration
        services = str(configuration.get("front.cpuset", f"0-{CORES - 1}"))
        self.names = tuple(request["name"] for request in plan.workload.document.get("requests", ()))
        if plan.warmup_s:  # else it only prepares
            self.on_load(len(self.driven))
            self.driven.append((services, plan.cpus, plan.rate_rps, self.names))
        cpus = read_cpus(services)
        busy = self.generator_s * plan.rate_rps
        shared = set(cpus) & set(read_cpus(plan.cpus or services))
        cores = max(0.1, len(cpus) - (busy if shared else 0.0)) / self.cpus_of_core
        most = self.rps(configuration, cores)
        if self.limited_by_generator and not shared:
            most = min(most, len(read_cpus(plan.cpus)) / self.generator_s)
            busy = min(busy, 0.99 * len(read_cpus(plan.cpus)))
        load = super().run(plan, running, usage, progress)
        since_s = (load.due_ns - load.started_ns) / 1e9
        late_s = np.maximum(0.0, plan.rate_rps / most - 1) * since_s
        sent_late_ns = int(self.sent_late_ms(plan.rate_rps) * 1e6)
        window = (load.edges_ns[1] - load.edges_ns[0]) / 1e9
        used = {name: share * min(1.0, plan.rate_rps / most) * cores * window for name, share in SHARES.items()}
        start, end = load.edges_ns
        self.requests += len(load.due_ns)
        self._load = replace(
            load,
            sent_ns=load.sent_ns + sent_late_ns,
            end_ns=load.end_ns + (late_s * 1e9).astype(np.int64) + sent_late_ns,
            cpu_s=busy * window,
            timing=self.timing,
            usage_before=Usage(start, dict.fromkeys(used, 0.0), 0.0, 0.0, 0.0, CORES, 0.0),
            usage_after=Usage(end, used, 0.0, 0.0, 0.0, CORES, 0.0),
        )
        return self._load


@dataclass
class NodeCounters:
    """Counters of a pretended node: memory and network, and nothing else."""

    machine: NodeMachine

    def threads(self, running: Running) -> Mapping[str, Threads]:
        return {}

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        return MEMORY_MIB

    def network_bytes(self, running: Running) -> Mapping[str, tuple[float, float]]:
        return {"front": (RECEIVED * self.machine.requests, SENT * self.machine.requests)}

    def without_hardware(self) -> str:
        return "none here"

    @contextmanager
    def counted(self, running: Running, service: str) -> Iterator[Callable[[], Mapping[str, float]]]:
        yield dict

    def pipeline(self, running: Running, service: str) -> None:
        return None


def node_machine(**options: Any) -> NodeMachine:
    return NodeMachine(VirtualClock(), lambda configuration: 5.0, **options)


Made = Callable[..., tuple[Opened, NodeMachine]]


def opened_machines(directory: Path) -> Iterator[Made]:
    """Yield what opens a pretended node and Tailor on it, and close all; the body of a fixture."""
    opened: list[Opened] = []

    def make(cpus: Topology | None = None, **options: Any) -> tuple[Opened, NodeMachine]:
        machine = node_machine(**options)
        counters: Any = NodeCounters(machine)
        colocation = Colocation(counters, counters, counters)
        tailor, _ = pretend_tailor(directory, machine, colocation=lambda: colocation, cpus=cpus)
        opened.append(tailor)
        return tailor, machine

    yield make
    for tailor in opened:
        tailor.close()
