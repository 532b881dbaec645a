"""Studies on several pretend machines, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from framework.bench import Bench
from framework.config.space import search_space
from framework.model import Study, StudyPlan, StudyState, TrialState
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.studies import SqlStudyStore
from framework.study.side_by_side import SideBySide
from framework.testing.clock import VirtualClock
from framework.testing.crew import VirtualCrew
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster, pretend_application, pretend_types

PLAN = StudyPlan(
    "app", "random", {}, iterations=12, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=6,
    drift_every=3, testbeds=("a", "b", "c"),
)  # fmt: skip


@dataclass
class Site:
    """The machines of a study and its store.  ``clocks``: of each machine; ``clock``: of the study."""

    bench: Bench
    machines: Mapping[str, PretendMachine]
    clock: VirtualClock
    clocks: Mapping[str, VirtualClock]

    def procedure(self) -> SideBySide:
        """Return the procedure of ``s1`` as a new process would open it."""
        study = self.bench.store.get("s1")
        for trial in self.bench.store.trials("s1"):
            if trial.state is TrialState.RUNNING:
                self.bench.store.finish_trial(replace(trial, state=TrialState.ABORTED, reason="killed"))
        now_ns = max(clock.ns for clock in (self.clock, *self.clocks.values()))
        for clock in (self.clock, *self.clocks.values()):
            clock.ns = now_ns
        space = search_space(self.bench.application, self.bench.types, cores=2, memory_mib=4096)
        return SideBySide(self.bench, study, space, VirtualCrew(self.clock, self.clocks))


def site(
    directory: Path,
    plan: StudyPlan = PLAN,
    speeds: Mapping[str, float] | None = None,
    scale: Callable[[Any], float] = larger_is_faster,
    **options: Any,
) -> Site:
    """Begin the study ``s1`` on the plan's testbeds.  ``speeds``: testbed -> factor of its latencies."""
    directory.mkdir(exist_ok=True)
    clock = VirtualClock()
    clocks = {name: VirtualClock() for name in plan.testbeds}
    artefacts = FileArtefacts(directory / "artefacts")
    store = SqlStudyStore(Database(f"sqlite:///{directory / 'tailor.db'}"), artefacts, clock)
    machines = {}
    benches = []
    application, types = pretend_application(directory), pretend_types()
    for name in plan.testbeds:
        factor = (speeds or {}).get(name, 1.0)
        machine = PretendMachine(clocks[name], partial(_scaled, factor, scale), **options)
        machines[name] = machine
        benches.append(
            Bench(
                application, types, machine, machine, machine, store, artefacts, clocks[name], lambda event: None,
                name=name,
            )
        )  # fmt: skip
    bench = replace(benches[0], clock=clock, team=tuple(benches))
    space = search_space(application, types, cores=2, memory_mib=4096)
    store.create(Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, plan.testbeds[0]))
    return Site(bench, machines, clock, clocks)


def _scaled(factor: float, scale: Callable[[Any], float], configuration: Any) -> float:
    return factor * scale(configuration)
