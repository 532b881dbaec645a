"""A policy on the plant: how long the target was missed, by how much, and what BE got done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from framework.guard.plant.days import DAYS
from framework.guard.plant.kinds import LC_KINDS, MIXES, Machine
from framework.guard.plant.oracle import best_settings, setting_at
from framework.guard.plant.plant import STEP_S, Plant
from framework.guard.policy import Policy

ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Case:
    """One day on the plant: an LC service, a profile of its load, a mix of jobs, a seed."""

    lc: str
    day: str
    mix: str
    seed: int

    def plant(self, machine: Machine) -> Plant:
        rng = np.random.default_rng([self.seed, sorted(DAYS).index(self.day), sorted(LC_KINDS).index(self.lc)])
        return Plant(machine, LC_KINDS[self.lc], DAYS[self.day](rng), MIXES[self.mix], self.seed)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one day under a policy.

    ``violation``: share of the time in which the true tail latency missed the target.  ``worst``: highest latency over
    target.  ``work``: core seconds a second.  ``utilisation``: share of the cores that worked; ``below_80``: the same
    while the load was below 80 %.
    """

    violation: float
    worst: float
    work: float
    utilisation: float
    below_80: float


def run(policy: Policy, case: Case, machine: Machine = Machine()) -> Outcome:  # noqa: B008 - frozen
    """Run a policy for one day."""
    plant = case.plant(machine)
    host, state, due = plant.host, policy.start(plant.host), 0.0

    def control() -> None:
        nonlocal state, due
        if plant.time_s >= due:
            state, decision = policy.decide(host, state, plant.sample())
            plant.set(decision.setting)
            due = plant.time_s + policy.period_s

    return _outcome(plant, control)


def run_oracle(case: Case, machine: Machine = Machine()) -> Outcome:  # noqa: B008 - frozen
    """Run the best fixed setting of each load, which is known."""
    plant = case.plant(machine)
    settings = best_settings(machine, case.lc, MIXES[case.mix])
    return _outcome(plant, lambda: plant.set(setting_at(settings, plant.load)))


def _outcome(plant: Plant, control: Callable[[], None]) -> Outcome:
    latencies: list[float] = []
    work: list[float] = []
    used: list[float] = []
    below: list[float] = []
    while not plant.ended:
        load = plant.load
        control()
        moment = plant.step()
        latencies.append(moment.latency_ms)
        work.append(moment.work)
        used.append(moment.utilisation)
        if load < 0.8:
            below.append(moment.utilisation)
    target = plant.host.target_ms
    missed = sum(latency > target for latency in latencies)
    return Outcome(
        missed / len(latencies),
        max(latencies) / target,
        sum(work) / (len(work) * STEP_S),
        _mean(used),
        _mean(below),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
