"""A pretend machine whose latency depends on the request rate, and studies on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from framework.bench import Bench
from framework.model import (
    LoadPlan,
    LoadResult,
    Running,
    StudyPlan,
    Trial,
    Usage,
)
from framework.model.spans import SpanTable
from framework.ports.testbed import Progress
from framework.report.summary import Summary, summarise
from framework.study.procedure import Procedure
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from optimizer.space import Configuration
from tests.fakes import begun, pretend_bench

SMALL = Path(__file__).resolve().parent / "cases" / "good" / "small"
RATES = (100.0, 200.0, 300.0)
PLAN = StudyPlan(
    "app", "random", {}, iterations=6, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=300.0, seed=1, pairs=6,
    drift_every=3, rates=RATES,
)  # fmt: skip

NOISE = 0.08  # of the ratio of two p95 of 2,000 requests or more: three standard errors

Latency = Callable[[Mapping[str, Any], float], float]
"""(configuration, rate [requests/s]) -> median latency [ms]."""


def better_everywhere(configuration: Mapping[str, Any], rate: float) -> float:
    """Return 10 to 30 ms for the default's size of 10, less for larger ones: at the highest rate by more."""
    return float(rate / 10 * (10 / configuration["cache.size"]) ** (rate / 600))


def better_at_high_rates_only(configuration: Mapping[str, Any], rate: float) -> float:
    """A larger cache helps at 200 and 300 requests/s and costs as much at 100."""
    factor = 10 / configuration["cache.size"]
    return float(rate / 10 * (factor**0.5 if rate > 100 else factor**-0.2))


@dataclass
class RatedMachine(PretendMachine):
    """A pretend machine whose latency depends on the rate.  ``driven``: (number of the deployment, rate) so far.

    ``on_load`` is called before each load with its rate, so that a test can fail it.  ``late``: numbers of the loads
    (from 1) that are sent late, which makes their windows invalid.
    """

    latency: Latency = better_everywhere
    driven: list[tuple[int, float]] = field(default_factory=list)
    on_load: Callable[[float], None] = lambda rate: None
    late: set[int] = field(default_factory=set)
    fails: Callable[[Mapping[str, Any], float], bool] = lambda configuration, rate: False  # its requests

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        self.on_load(plan.rate_rps)
        self.driven.append((len(self.deployed), plan.rate_rps))
        self.scale = lambda configuration: self.latency(configuration, plan.rate_rps)
        self.invalid_once = {len(self.deployed)} if len(self.driven) in self.late else set()
        load = super().run(plan, running, usage, progress)
        if self.fails(running.deployment.configuration, plan.rate_rps):
            load = replace(load, ok=np.zeros(len(load.ok), np.bool_))
        self._load = load
        return load

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        spans = super().read(running, start_ns, end_ns, expected)
        assert self._load is not None
        return replace(spans, error=np.full(len(spans), not self._load.ok.all()))


def machine(latency: Latency = better_everywhere, **options: Any) -> RatedMachine:
    return RatedMachine(VirtualClock(), lambda configuration: 1.0, latency=latency, **options)


def start(directory: Path, rated: RatedMachine, plan: StudyPlan = PLAN, **changes: Any) -> tuple[Bench, Procedure]:
    bench = pretend_bench(directory, rated)
    if changes:
        bench = replace(bench, application=replace(bench.application, **changes))
    return bench, begun(bench, plan)[1]


def trials_of(bench: Bench, purpose: str = "") -> list[Trial]:
    return [t for t in bench.store.trials("s1") if not purpose or t.purpose == purpose]


def summary_of(bench: Bench) -> Summary:
    return summarise(bench.store.get("s1"), trials_of(bench), bench.application, bench.types)


def own_ratio(latency: Latency, configuration: Configuration, rate: float) -> float:
    return latency(configuration, rate) / latency({**configuration, "cache.size": 10}, rate)
