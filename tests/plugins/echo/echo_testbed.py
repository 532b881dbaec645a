"""A testbed that only echoes: every service answers at once, and a request takes 10 ms whatever is configured.

It needs nothing but Tailor: an example of how a testbed of another package is made.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from framework.bench import Rig, TestbedKind
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
from framework.model.spans import KINDS, SpanTable
from framework.model.topology import Cpu, Topology
from framework.objective.window import GENERATOR
from framework.ports.clock import Clock
from framework.ports.testbed import Progress

TOOK_NS = 10_000_000
CORES = 2


def echo_kind(home: Path, clock: Clock) -> TestbedKind:
    """Return the kind of testbed; the entry point names this function of TAILOR_HOME and a clock."""

    def open_(application: Application, types: Mapping[str, ServiceType]) -> Rig:
        echo = Echo(application, clock)
        return Rig(echo, echo, echo)

    return TestbedKind(
        name="echo",
        modelled=True,  # nothing is measured
        exclusive=False,
        available=lambda application: True,
        open=open_,
        topology=lambda application: Topology(tuple(Cpu(number, number, 0, 0) for number in range(CORES))),
    )


class Echo:
    """Testbed, load generator and trace reader in one."""

    name = "echo"
    modelled = True

    def __init__(self, application: Application, clock: Clock) -> None:
        self._application, self._clock = application, clock
        self._due_ns = np.empty(0, np.int64)

    # ------------------------------------------------------------------ Testbed

    def machine(self) -> Machine:
        return Machine(platform.node(), CORES, 1024, "none", "echo", "echo", "none", platform.python_version(), "any")

    def check(self, application: Application) -> None:
        """Accept every application: nothing is missing."""

    def notes(self, application: Application) -> Sequence[str]:
        return ()

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Load nothing: there are no data."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        names = [service.name for service in self._application.services]
        return Running(deployment, "echo", {name: Container(name, name, name, "", "", "", 0, "") for name in names})

    def run_hook(self, running: Running, hook: Hook) -> str:
        return ""

    def usage(self, running: Running) -> Usage:
        return Usage(self._clock.now_ns(), dict.fromkeys(running.containers, 0.0), 0.0, 0.0, None, CORES, 0.0)

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        return {}

    def check_itself(self, failure: str) -> None:
        pass

    def alive(self, running: Running) -> None:
        """Return: it is always alive."""

    def projects(self) -> Collection[str]:
        return ()

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        return ()

    def clean_datasets(self) -> Sequence[str]:
        return ()

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        return [Finding("echo", "ok", "it echoes")]

    # ------------------------------------------------------------------ LoadGenerator

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        rng = np.random.default_rng(plan.seed)
        seconds = plan.warmup_s + plan.window_s
        started_ns, count = self._clock.now_ns(), rng.poisson(plan.rate_rps * seconds)
        self._due_ns = started_ns + np.sort(rng.integers(0, int(seconds * 1e9), count))
        before = usage()
        after = Usage(before.at_ns + int(plan.window_s * 1e9), before.cpu_s, 0.0, 0.0, None, CORES, 0.0)
        usage()
        in_window = int((self._due_ns >= started_ns + int(plan.warmup_s * 1e9)).sum())
        return LoadResult(
            started_ns=started_ns,
            warmup_s=plan.warmup_s,
            window_s=plan.window_s,
            classes=("echo",),
            due_ns=self._due_ns,
            sent_ns=self._due_ns,
            end_ns=self._due_ns + TOOK_NS,
            request_class=np.zeros(count, np.uint8),
            status=np.full(count, 200, np.int16),
            ok=np.ones(count, np.bool_),
            errors={},
            spans_created=in_window,
            spans_exported=in_window,
            cpu_s=0.0,
            usage_before=before,
            usage_after=after,
        )

    # ------------------------------------------------------------------ TraceReader

    def created(self, running: Running) -> int | None:
        return None

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Return one span for each request of the window: the generator's call of the entry service."""
        due_ns = self._due_ns[(self._due_ns >= start_ns) & (self._due_ns < end_ns)]
        count = len(due_ns)
        none = np.full(count, -1, np.int32)
        return SpanTable(
            traces=[str(number) for number in range(count)],
            strings=[GENERATOR, "echo", self._application.entry],
            trace=np.arange(count, dtype=np.int32),
            span_id=np.arange(1, count + 1, dtype=np.uint64),
            parent=np.full(count, -1, np.int64),
            follows=np.zeros(count, np.bool_),
            service=np.zeros(count, np.int32),
            operation=np.ones(count, np.int32),
            peer=np.full(count, 2, np.int32),
            host=none,
            address=none,
            kind=np.full(count, KINDS.index("client"), np.int8),
            error=np.zeros(count, np.bool_),
            start_ns=due_ns,
            end_ns=due_ns + TOOK_NS,
        )
