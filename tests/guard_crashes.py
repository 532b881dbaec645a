"""A guard that is killed at any of its operations, on the plant: kernel files, store and engine stay as they are then.

Meanwhile containers vanish or are made anew, and the engine goes away or is restarted.  Afterwards nothing may be
changed, and no job lost or done twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import TestbedUnavailable
from framework.guard.jobs import Jobs, totals
from framework.guard.loop import Guard
from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.guard.plant.plant import Plant
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.guard.policy import Policy
from framework.model.batch_job import ENDED, BatchJob, JobSeen, JobSpec, JobState
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting
from framework.testbeds.host.guarded_machine import give_back
from framework.testing.plant_machine import LC, PlantLatency, PlantMachine, PretendQueue
from framework.testing.pretend_jobs import PretendJobs

STORE, STORE_CPUS = "/docker/store", frozenset({4, 5, 6, 7})
NEEDS_S, ATTEMPTS = 6.0, 50
OPERATIONS = 900  # of a guard of some seconds, each counted before and after it
SPECS = [
    *(JobSpec(f"good-{number}", "i", kind="compute", cores=2.0, attempts=ATTEMPTS) for number in range(3)),
    JobSpec("paused", "i", kind="stream", attempts=ATTEMPTS),
    JobSpec("bad", "i", kind="compute", attempts=2),
]


class Killed(BaseException):
    """SIGKILL: nothing that a guard has can catch it."""


def die() -> None:
    raise Killed


@dataclass(slots=True)
class Fate:
    """Lets something happen at an operation of this number, once; operations count before and after they are done."""

    happens: dict[int, Callable[[], None]] = field(default_factory=dict)
    count: int = 0

    def step(self) -> None:
        self.count += 1
        self.happens.pop(self.count, lambda: None)()


class Mortal:
    """Wraps an object: something may happen before and after each call of a method, and the engine may be away."""

    def __init__(self, wrapped: object, fate: Fate) -> None:
        self._wrapped, self._fate = wrapped, fate

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._wrapped, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._fate.step()
            answer = method(*arguments, **named)
            self._fate.step()
            return answer

        return call


class MortalJobs:
    """The engine of a guard: it may be away for some calls, or lose an answer."""

    def __init__(self, jobs: PretendJobs, fate: Fate, world: World) -> None:
        self._jobs, self._fate, self._world = jobs, fate, world

    def start(self, job: BatchJob) -> None:
        self._asked()
        self._jobs.make_only(job)
        self._fate.step()
        self._jobs.start(job)
        self._answered()

    def look(self) -> Sequence[JobSeen]:
        self._asked()
        seen = self._jobs.look()
        self._answered()
        return seen

    def save_output(self, container: str, target: Path) -> None:
        self._asked()
        self._jobs.save_output(container, target)
        self._answered()

    def remove(self, containers: Collection[str]) -> None:
        self._asked()
        for container in list(containers):
            self._jobs.remove([container])
            self._fate.step()
        self._answered()

    def processes(self) -> Mapping[str, tuple[str, int]]:
        return self._jobs.processes()

    def numbers(self) -> Mapping[str, str]:
        return self._jobs.numbers()

    def _asked(self) -> None:
        self._fate.step()
        if self._world.away > 0:
            self._world.away -= 1
            raise TestbedUnavailable("the engine does not answer")

    def _answered(self) -> None:
        self._fate.step()
        if self._world.loses:
            self._world.loses = False
            raise TestbedUnavailable("the engine went away before it answered")


class Swinging:
    """A policy that gives BE other cores at each decision, pauses a kind, or lets all stand still."""

    period_s = 0.5

    def start(self, host: GuardedHost) -> int:
        return 0

    def decide(self, host: GuardedHost, state: int, sample: Sample) -> tuple[int, Decision]:
        cores = (3 * state) % host.cores
        paused = frozenset({"stream"}) if state % 3 else frozenset[str]()
        if not cores:
            return state + 1, Decision(NOTHING, {"running": "swings"})
        return state + 1, Decision(
            Setting(True, float(cores), exclusive=state % 5 > 0, paused=paused), {"cores": "swings"}
        )


@dataclass
class World:
    """A machine, its engine and a store, which outlive all guards.

    ``away``: calls that the engine does not answer; ``loses``: whether it goes away before its next answer.
    ``blamed``: attempts that somebody ended or removed by hand, which count as failures of theirs; ``removed``: their
    containers.  ``kills``: of guards and keepers.
    """

    seed: int
    home: Path
    away: int = 0
    loses: bool = False
    blamed: int = 0
    kills: int = 0
    removed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        load = self.rng.choice([0.2, 0.5, 0.8])
        plant = Plant(Machine(), LC_KINDS["search"], np.full(100_000, load), (), seed=1)
        self.here = PlantMachine(plant, self.rng.choice([1, 2]))
        self.jobs, self.kernel, self.queue = self.here.jobs, self.here.kernel, PretendQueue()
        self.jobs.needs_s, self.jobs.status, self.jobs.late = NEEDS_S, {"bad": 3}, self.rng.choice([0, 1])
        self._made, self._pid = dict[str, object](), 500
        self._before = {path: state for path, state in self.kernel.shown().items() if path != LC}
        self._end(LC)
        self._make(LC)
        self._make(STORE)
        self.queue.add(SPECS)

    # ------------------------------------------------------------------ what happens

    def events(self) -> list[Callable[[], None]]:
        return [
            self.lc_restarts, self.lc_is_made_anew, self.a_job_is_removed, self.a_job_is_killed, self.a_job_ends,
            self.engine_restarts, self.engine_is_away, self.engine_loses_an_answer,
        ]  # fmt: skip

    def lc_restarts(self) -> None:
        path = self.rng.choice([LC, STORE])
        self._end(path)
        self._make(path)

    def lc_is_made_anew(self) -> None:
        path = self.rng.choice(sorted(self.here.lc) or [LC])
        self._end(path)
        self.here.lc.pop(path, None)
        if self.rng.random() < 0.8:
            self._make(f"/docker/{self._pid}")

    def a_job_is_removed(self) -> None:
        if names := self.jobs.containers():
            self.blamed += 1
            self.jobs.vanish(name := self.rng.choice(names))
            self.removed.append(name)

    def a_job_is_killed(self) -> None:
        if pids := [pid for _, pid in self.jobs.processes().values()]:
            self.blamed += 1
            self.jobs.kill(self.rng.choice(pids))

    def a_job_ends(self) -> None:
        if names := list(self.jobs.processes()):
            self.jobs.finish(self.rng.choice(names))

    def engine_restarts(self) -> None:
        self.jobs.restart()
        self.away = self.rng.randrange(4)

    def engine_is_away(self) -> None:
        self.away = self.rng.randrange(1, 12)

    def engine_loses_an_answer(self) -> None:
        self.loses = True

    def _make(self, path: str) -> None:
        self._pid += 1
        self.kernel.groups.pop(path, None)
        self.kernel.add(path, self._pid)
        if path == STORE:
            self.kernel.groups[path].cpus = STORE_CPUS
        self.here.lc[path] = self._pid
        self._made[path] = self.kernel.shown()[path]

    def _end(self, path: str) -> None:
        pid = self.here.lc.get(path)
        if pid in self.kernel.pids:
            self.kernel.end(pid)
        self._made.pop(path, None)

    # ------------------------------------------------------------------ guards and keepers

    def guard(self, seconds: float, fate: Fate, ending: Callable[[], None] = lambda: None) -> bool:
        """Run a guard as ``framework.use_cases.guard`` does; returns whether it was killed.

        ``ending``: called where it has begun to give everything back.
        """
        try:
            self._guard(seconds, fate, ending)
            return False
        except Killed:
            self.kills += 1
            return True

    def _guard(self, seconds: float, fate: Fate, ending: Callable[[], None]) -> None:
        files, runner = Mortal(self.kernel, fate), MortalJobs(self.jobs, fate, self)
        machine = self.here.machine(self.home, files=files, runner=runner)
        queue: Any = Mortal(self.queue, fate)
        jobs = Jobs(
            queue, machine.runner, self.home / "output", float(self.here.host.cores), machine.used, machine.end_work
        )
        policies: list[Policy] = [Swinging(), Swinging(), Static(cores=3, period_s=1.0), Tailor()]
        guard = Guard(
            self.here.host, self.rng.choice(policies), [PlantLatency(self.here), *machine.sensors[:3]],
            machine.actuators, machine.needed, jobs, self.here, lambda entry: None,
        )  # fmt: skip
        machine.recover()
        machine.prepare()
        guard.run(seconds, lambda: ended(self.queue.all()))
        ending()
        with suppress(TestbedUnavailable):
            jobs.stop()
        machine.restore()

    def keeper(self, fate: Fate) -> bool:
        """Do what a keeper does; returns whether it did not come to its end: killed, or without an engine for long."""
        files, runner = Mortal(self.kernel, fate), MortalJobs(self.jobs, fate, self)
        try:
            machine = self.here.machine(self.home, files=files, runner=runner)
            problems = give_back(machine, self.here.sleep)
        except Killed:
            self.kills += 1
            return True
        assert all(problem.startswith("the engine") for problem in problems), problems
        return bool(problems)

    def crash(self) -> None:
        """Let a guard die at a random operation, things happen around it, and perhaps a keeper give back."""
        fate, rng = Fate(), self.rng
        for _ in range(rng.randrange(4)):
            fate.happens[rng.randrange(1, OPERATIONS)] = rng.choice(self.events())
        in_the_end = rng.random() < 0.3

        def ending() -> None:
            for _ in range(rng.randrange(3)):
                fate.happens[fate.count + rng.randrange(1, 40)] = self.a_job_ends
            if in_the_end:
                fate.happens[fate.count + rng.randrange(1, 150)] = die

        if not in_the_end:
            fate.happens[rng.randrange(1, OPERATIONS)] = die
        self.guard(rng.uniform(0.0, 8.0), fate, ending)
        if rng.random() < 0.6:
            kept = Fate({rng.randrange(1, 200): rng.choice([die, *self.events()]) for _ in range(rng.randrange(3))})
            if not self.keeper(kept):
                self.check_given_back()

    # ------------------------------------------------------------------ what has to hold

    def check_given_back(self) -> None:
        """Every knob is as it was, or as it was made, and no job runs; those that ended well may wait to be noted."""
        assert self.kernel.shown() == self._before | self._made
        assert not list(self.home.glob("journal*"))
        assert not [path for path in self.kernel.pids.values() if path not in self._made]
        assert set(self.jobs.containers()) <= set(self.jobs.well)

    def check_jobs(self) -> None:
        """Every job ended once, as it had to, and its CPU seconds are known but for those since the last look."""
        assert self.jobs.containers() == []
        jobs = self.queue.all()
        assert [job.state for job in jobs] == [JobState.FINISHED] * (len(SPECS) - 1) + [JobState.FAILED]
        # Of one that was removed by hand after its end nobody can know that it ended well.
        unknown = [name for name in self.jobs.well if name in self.removed]
        for job in jobs[:-1]:
            times = sum(_number(name) == job.number for name in self.jobs.well)
            assert 1 <= times <= 1 + sum(_number(name) == job.number for name in unknown), job
        assert len(set(self.jobs.began)) == len(self.jobs.began)
        assert sum(job.failures for job in jobs[:-1]) <= self.blamed
        assert all(job.used_s == 0 for job in jobs)
        useful_s, wasted_s = totals(jobs)
        assert useful_s + wasted_s <= self.jobs.used_s + 1e-6


def _number(container: str) -> int:
    return int(container.split("-")[2])


def ended(jobs: Iterable[BatchJob]) -> bool:
    return all(job.state in ENDED for job in jobs)


def campaign(seed: int, home: Path) -> World:
    """Let one to three guards crash, then end the jobs with a last guard; raises AssertionError where a check fails."""
    home.mkdir(exist_ok=True)
    world = World(seed, home)
    for _ in range(world.rng.randrange(1, 4)):
        world.crash()
    world.away, world.loses = 0, False
    for _ in range(5):
        assert not world.guard(60.0, Fate())
        world.check_given_back()
        if ended(world.queue.all()):
            break
    world.check_jobs()
    return world
