"""The twin as a testbed, which needs no engine: deployments run on the queueing model, so all numbers are modelled."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import framework
from framework.errors import MissingPrerequisite
from framework.model import (
    Application,
    Container,
    Deployment,
    Finding,
    Hook,
    LoadPlan,
    LoadResult,
    Machine,
    Running,
    ServiceType,
    Usage,
)
from framework.model.spans import SpanTable, no_spans
from framework.model.twin import Twin
from framework.objective.window import GENERATOR
from framework.ports.clock import Clock
from framework.ports.testbed import Progress
from framework.twin.simulator.draws import arrivals
from framework.twin.simulator.simulate import Outcome, simulate, traced_of
from framework.twin.simulator.spans import span_table
from framework.twin.translate import compiled, slowed

DRAIN_S = 10.0  # after the window: a request that has not ended by then counts as never ended


class TwinTestbed:
    """Testbed, load generator and trace reader in one: implements the three ports."""

    name = "twin"
    modelled = True

    def __init__(
        self,
        twin: Twin,
        application: Application,
        types: Mapping[str, ServiceType],
        clock: Clock,
        instance: str = "",
    ) -> None:
        self._twin = twin
        self._instance = instance
        self._machine_factor = machine_factor(twin, instance)
        self._application = application
        self._types = types
        self._clock = clock
        self._outcome: Outcome | None = None
        self._origin_ns = 0
        self._due: NDArray[np.float64] = np.empty(0)
        self._kinds: NDArray[np.int32] = np.empty(0, np.int32)

    # ------------------------------------------------------------------ Testbed

    def machine(self) -> Machine:
        """Describe the modelled machine: the twin's first host."""
        host = self._twin.hosts[0]
        return Machine(
            hostname=platform.node(),
            cores=host.cores,
            memory_mib=host.memory_mib,
            kernel=platform.release(),
            cpu="modelled",
            engine="twin",
            compose="none",
            python=platform.python_version(),
            tailor=framework.__version__,
        )

    def check(self, application: Application) -> None:
        if application.name != self._twin.application:
            raise MissingPrerequisite(
                f"the twin is of {self._twin.application}, not of {application.name}", "name an application with a twin"
            )

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Compile the simulator, or load it from numba's cache.  There are no volumes to fill."""
        progress("compiling the simulator (the first time only, about half a minute)")
        program, _ = compiled(self._twin, self._application, self._types, default.configuration)
        simulate(program, np.array([0.0]), np.zeros(1, np.int32), seed=0, until_s=1.0)

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        containers = {
            service.name: Container(service.name, service.name, service.name, "twin", "", "", 0, "")
            for service in self._twin.services
        }
        return Running(deployment, "twin", containers)

    def run_hook(self, running: Running, hook: Hook) -> str:
        return ""

    def usage(self, running: Running) -> Usage:
        """Return CPU time: before the run as of the window's start, after the run as of its end."""
        cores = sum(host.cores for host in self._twin.hosts)
        used = {} if self._outcome is None else self._cpu_s()
        names = [service.name for service in self._twin.services]
        return Usage(self._clock.now_ns(), {name: used.get(name, 0.0) for name in names}, 0.0, 0.0, None, cores, 0.0)

    def _cpu_s(self) -> dict[str, float]:
        assert self._outcome is not None
        return dict(zip((service.name for service in self._twin.services), self._outcome.cpu_s.tolist(), strict=True))

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        return {}

    def check_itself(self, failure: str) -> None:
        """Do nothing: a model has no machine that fails."""

    def alive(self, running: Running) -> None:
        """Do nothing: a model does not stop running."""

    def projects(self) -> Collection[str]:
        return ()

    def notes(self, application: Application) -> Sequence[str]:
        return ()

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        return ()

    def clean_datasets(self) -> Sequence[str]:
        return ()

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        return [Finding("twin", "ok", f"a model of {self._twin.application}; its numbers are modelled")]

    # ------------------------------------------------------------------ LoadGenerator

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        rng = np.random.default_rng(plan.seed)
        seconds = plan.warmup_s + plan.window_s
        due = arrivals(plan.rate_rps, seconds, plan.workload.arrivals == "poisson", rng)
        weights = np.array(list(self._twin.classes.values()))
        kinds = rng.choice(len(weights), size=len(due), p=weights / weights.sum()).astype(np.int32)
        program, _ = compiled(self._twin, self._application, self._types, running.deployment.configuration)
        self._outcome = None
        before = usage()
        outcome = simulate(
            slowed(program, self._slowdown(plan, running.deployment)),
            due,
            kinds,
            seed=plan.seed,
            until_s=seconds + DRAIN_S,
            traced=traced_of(len(due)),
        )
        self._origin_ns = self._clock.now_ns()
        self._outcome, self._due, self._kinds = outcome, due, kinds
        after = usage()
        ended = np.isfinite(outcome.latency_s)
        due_ns = self._origin_ns + np.round(due * 1e9).astype(np.int64)
        took_ns = np.where(ended, np.round(np.where(ended, outcome.latency_s, 0.0) * 1e9), 0).astype(np.int64)
        ok = ended & ~outcome.failed
        share = plan.window_s / seconds
        roots = int((due >= plan.warmup_s).sum())
        return LoadResult(
            started_ns=self._origin_ns,
            warmup_s=plan.warmup_s,
            window_s=plan.window_s,
            classes=tuple(self._twin.classes),
            due_ns=due_ns,
            sent_ns=due_ns,
            end_ns=np.where(ended, due_ns + took_ns, 0),
            request_class=kinds.astype(np.uint8),
            status=np.where(ok, 200, np.where(ended, 503, 0)).astype(np.int16),
            ok=ok,
            errors={},
            spans_created=roots,
            spans_exported=roots,
            cpu_s=0.0,
            usage_before=before,
            usage_after=_in_window(before, after, plan.window_s, share),
        )

    def _slowdown(self, plan: LoadPlan, deployment: Deployment) -> float:
        """Draw a factor for the run's service times, so that runs of one configuration vary as on the real machine.

        It follows from the plan's seed, the trial and the repetition, so a study that is resumed draws the same ones.
        Another instance draws others, and its machine has a factor of its own.
        """
        instance = [self._instance] if self._instance else []
        key = [
            *instance,
            plan.seed,
            *(deployment.labels.get(f"tailor.{name}", "") for name in ("trial-index", "repetition")),
        ]
        seed = zlib.crc32(repr(key).encode())
        drawn = np.random.default_rng(seed).standard_normal()
        return self._machine_factor * float(np.exp(self._twin.run_spread * drawn))

    # ------------------------------------------------------------------ TraceReader

    def created(self, running: Running) -> int | None:
        return None

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        if self._outcome is None:
            return no_spans()
        due_ns = self._origin_ns + np.round(self._due * 1e9).astype(np.int64)
        traced = {service.name: service.traced for service in self._twin.services}
        return span_table(
            self._outcome,
            self._twin.operations,
            [traced[operation.service] for operation in self._twin.operations],
            (due_ns >= start_ns) & (due_ns < end_ns) & np.isfinite(self._outcome.latency_s),
            generator=GENERATOR,
            origin_ns=self._origin_ns,
        )


def machine_factor(twin: Twin, instance: str) -> float:
    """Return the factor of an instance's service times: log-normal, with the spread between runs of one machine.

    How far machines of one kind differ was not measured; that spread is.  The factor follows from the instance's name,
    so that an instance is the same machine in every study.  1 for the twin itself, which has no instance.
    """
    if not instance:
        return 1.0
    seed = zlib.crc32(f"machine {instance}".encode())
    return float(np.exp(twin.run_spread * np.random.default_rng(seed).standard_normal()))


def _in_window(before: Usage, after: Usage, seconds: float, share: float) -> Usage:
    """Return the usage at the window's end: the window's share of the run's CPU time, on the run's own clock."""
    used = {name: before.cpu_s[name] + share * cpu for name, cpu in after.cpu_s.items()}
    return Usage(before.at_ns + round(seconds * 1e9), used, 0.0, 0.0, None, after.cores, 0.0)
