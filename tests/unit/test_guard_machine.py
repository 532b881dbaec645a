"""A guard with its own adapters on a pretended kernel: what it sets, and that everything comes back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import DeploymentFailed, KnobRefused, TestbedUnavailable
from framework.guard.jobs import Jobs, totals
from framework.guard.loop import Guard
from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.guard.plant.plant import Plant
from framework.guard.policies.off import Off
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.guard.policy import Policy
from framework.model.batch_job import JobSpec, JobState
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting
from framework.model.guard_record import Acted, Decided, Entry, Noted
from framework.testbeds.host.guarded_groups import BE
from framework.testing.plant_machine import LC, LC_PID, PlantLatency, PlantMachine, PretendQueue

SPECS = [JobSpec(f"job-{number}", "some/image", kind="compute", cores=2.0) for number in range(6)]


class Killed(BaseException):
    """SIGKILL: nothing that a guard has can catch it."""


def plant_machine(version: int = 1, load: float = 0.4, seconds: int = 600, disk_mbs: float = 0.0) -> PlantMachine:
    return PlantMachine(Plant(Machine(), LC_KINDS["search"], np.full(seconds, load), (), seed=1), version, disk_mbs)


class Swinging:
    """A policy that gives BE another number of cores at each decision, and now and then lets it stand still."""

    period_s = 1.0

    def start(self, host: GuardedHost) -> int:
        return 0

    def decide(self, host: GuardedHost, state: int, sample: Sample) -> tuple[int, Decision]:
        cores = (3 * state) % host.cores
        setting = Setting(True, float(cores)) if cores else NOTHING
        return state + 1, Decision(setting, {"cores": "swings"})


class Run:
    """One guard on a machine; the queue and the machine outlive it."""

    def __init__(self, here: PlantMachine, home: Path, queue: PretendQueue, policy: Policy) -> None:
        self.here, self.queue = here, queue
        self.machine = here.machine(home)
        self.entries: list[Entry] = []
        jobs = Jobs(queue, self.machine.runner, home / "output", float(here.host.cores), self.machine.used,
                    self.machine.end_work)  # fmt: skip
        own = {sensor.name: sensor for sensor in self.machine.sensors}
        sensors = [PlantLatency(here), own["CPU use"], own["disk use"]]
        self.guard = Guard(
            here.host, policy, sensors, self.machine.actuators, self.machine.needed, jobs, here, self.entries.append
        )

    def start(self, seconds: float | None) -> list[str]:
        """Guard, and give nothing back: as far as a guard comes that is killed."""
        left = list(self.machine.recover())
        self.machine.prepare()
        self.guard.run(seconds)
        return left

    def run(self, seconds: float) -> list[str]:
        """Guard, and give everything back; returns what could not be."""
        try:
            left = self.start(seconds)
        finally:
            self.guard.jobs.stop()
            problems = self.machine.restore()
        return [*left, *problems]


def queue_of(specs: list[JobSpec] = SPECS) -> PretendQueue:
    queue = PretendQueue()
    queue.add(specs)
    return queue


@pytest.mark.parametrize("version", [1, 2])
def test_jobs_run_beside_the_service_and_everything_is_given_back(version: int, tmp_path: Path) -> None:
    here, queue = plant_machine(version), queue_of()
    before = here.kernel.shown()
    run = Run(here, tmp_path, queue, Tailor())
    assert run.run(300) == []
    assert here.kernel.shown() == before
    assert not (tmp_path / "journal.jsonl").exists()
    assert [job.state for job in queue.all()] == [JobState.FINISHED] * 6
    useful, wasted = totals(queue.all())
    assert useful == pytest.approx(6 * 20, rel=0.2)
    assert wasted == 0
    target = here.host.target_ms
    assert sum(moment.latency_ms > target for moment in here.moments) < 0.02 * len(here.moments)
    assert any(isinstance(entry, Acted) and entry.actuator == "cores" for entry in run.entries)


@pytest.mark.parametrize("version", [1, 2])
def test_cores_are_never_shared_while_they_are_exclusive(version: int, tmp_path: Path) -> None:
    """The sets are looked at before each write, while a job works."""
    here = plant_machine(version, load=0.3)
    kernel = here.kernel
    run = Run(here, tmp_path, queue_of(), Swinging())
    here.jobs.needs_s = 1e9
    overlaps = []

    def look(operation: str, path: str) -> str:
        be, lc = f"/{BE}", kernel.groups.get(LC)
        works = any(group.startswith(be) and not kernel.stands_still(group) for group in kernel.pids.values())
        if operation == "write" and lc is not None and works:
            overlaps.append(kernel.effective(be) & kernel.effective(LC))
        return ""

    kernel.refuse = look
    run.run(30)
    assert overlaps
    assert not any(overlaps)
    assert {entry.decision.setting.cores for entry in run.entries if isinstance(entry, Decided)} == set(range(8))


def test_a_cpu_set_of_the_user_s_own_is_kept(tmp_path: Path) -> None:
    here = plant_machine(load=0.1)
    here.kernel.groups[LC].cpus = frozenset({4, 5, 6, 7})
    seen = []
    here.kernel.refuse = lambda operation, path: seen.append(here.kernel.groups[LC].cpus) or ""  # type: ignore[func-returns-value]
    Run(here, tmp_path, queue_of(), Static(cores=6, period_s=1.0)).run(10)
    assert set(seen) == {frozenset({4, 5, 6, 7}), frozenset({6, 7})}
    assert here.kernel.groups[LC].cpus == frozenset({4, 5, 6, 7})


def test_a_service_off_the_critical_path_may_run_on_be_s_cores_too(tmp_path: Path) -> None:
    here = plant_machine(load=0.2)
    here.kernel.add("/docker/tracing", 77)
    here.others["tracing"] = 77
    here.kernel.groups["/docker/tracing"].cpus = frozenset(range(8))
    before, seen = here.kernel.shown(), []
    sets = here.kernel.groups
    here.kernel.refuse = lambda operation, path: seen.append((sets[LC].cpus, sets["/docker/tracing"].cpus)) or ""  # type: ignore[func-returns-value]
    Run(here, tmp_path, queue_of(), Static(cores=3, period_s=1.0)).run(10)
    assert {lc for lc, _ in seen} > {frozenset({3, 4, 5, 6, 7})}
    assert {other for _, other in seen} == {frozenset(range(8))}
    here.kernel.refuse = lambda operation, path: ""
    assert here.kernel.shown() == before


def test_a_container_that_restarts_gets_its_cores_again(tmp_path: Path) -> None:
    here = plant_machine(load=0.2)
    run = Run(here, tmp_path, queue_of(), Static(cores=3, period_s=1.0))
    run.start(10)
    assert here.kernel.groups[LC].cpus == frozenset(range(3, 8))
    here.kernel.end(LC_PID)
    here.kernel.add(LC, LC_PID)
    assert here.kernel.groups[LC].cpus == frozenset(range(8))
    until = here.monotonic() + 10
    while here.monotonic() < until:
        run.guard.step()
        here.sleep(0.1)
    assert here.kernel.groups[LC].cpus == frozenset(range(3, 8))


def test_a_violation_freezes_within_one_period(tmp_path: Path) -> None:
    here = plant_machine(load=0.3)
    run = Run(here, tmp_path, queue_of([JobSpec("long", "i", kind="compute")]), Tailor())
    here.jobs.needs_s = 1e9
    run.start(60)
    assert run.guard.setting.running
    run.guard.sensors = []  # nobody sees the latency any more
    run.guard._due_s = 0.0
    run.guard.step()
    assert not run.guard.setting.running
    assert here.kernel.stands_still(f"/{BE}")


def test_a_refused_knob_that_is_needed_ends_the_guard(tmp_path: Path) -> None:
    here = plant_machine()
    before = here.kernel.shown()
    run = Run(here, tmp_path, queue_of(), Static(cores=2, period_s=1.0))
    here.kernel.refuse = lambda operation, path: (
        "Operation not permitted" if operation == "write" and path.endswith("docker/lc/cpuset.cpus") else ""
    )
    with pytest.raises(KnobRefused, match="Operation not permitted"):
        run.run(10)
    here.kernel.refuse = lambda operation, path: ""
    assert here.kernel.shown() == before


def test_an_actuator_that_is_not_needed_is_left_alone_after_three_refusals(tmp_path: Path) -> None:
    class Refusing:
        name, calls = "other", 0

        def missing(self) -> str:
            return ""

        def set(self, setting: Setting) -> list[object]:
            self.calls += 1
            raise KnobRefused("schemata", "Invalid argument")

        def restore(self) -> None:
            pass

    here, cache = plant_machine(load=0.2), Refusing()
    run = Run(here, tmp_path, queue_of(), Static(cores=2, period_s=1.0))
    run.guard.actuators = [*run.guard.actuators, cache]  # type: ignore[list-item]
    run.run(60)
    assert cache.calls == 3
    notes = [entry.text for entry in run.entries if isinstance(entry, Noted) and entry.text.startswith("other")]
    assert notes[-1].endswith("left alone from now on")


def test_a_job_that_fails_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    here = plant_machine(load=0.2)
    here.jobs.status, here.jobs.needs_s = {"bad": 3}, 6.0
    queue = queue_of(
        [JobSpec("bad", "i", kind="compute", attempts=2), JobSpec("none", "missing", attempts=1), SPECS[0]]
    )
    Run(here, tmp_path, queue, Static(cores=1, period_s=1.0)).run(60)
    bad, none, good = queue.all()
    assert (bad.state, bad.failures, bad.reason) == (JobState.FAILED, 2, "it ended with status 3")
    assert bad.useful_s == 0
    assert bad.wasted_s == pytest.approx(12.0, abs=2.5)  # the last second of an attempt is not seen
    assert (none.state, none.reason) == (JobState.FAILED, "image missing is not on this machine")
    assert good.state is JobState.FINISHED
    assert (tmp_path / "output" / f"{good.number}-1.txt").read_text() == f"output of {good.container}\n"


@settings(max_examples=25, deadline=None)  # tests/unit/test_guard_crashes.py has hundreds
@given(
    version=st.sampled_from([1, 2]),
    disk_mbs=st.sampled_from([0.0, 200.0]),
    at=st.integers(0, 2000),
    again=st.integers(0, 1000),
)
def test_a_kill_at_any_moment_leaves_nothing_changed_and_no_job_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, version: int, disk_mbs: float, at: int, again: int
) -> None:
    home = tmp_path_factory.mktemp("home")
    here, queue = plant_machine(version, 0.5, 100_000, disk_mbs), queue_of()
    here.jobs.needs_s = 10.0
    before = here.kernel.shown()
    for moment in (at, again):
        count = 0

        def kill(operation: str, path: str, moment: int = moment) -> str:
            nonlocal count
            count += 1
            if count > moment:
                raise Killed
            return ""

        run = Run(here, home, queue, Tailor())
        here.kernel.refuse = kill
        with pytest.raises(Killed):
            run.start(None)
        here.kernel.refuse = lambda operation, path: ""
    assert Run(here, home, queue, Tailor()).run(90) == []
    assert here.kernel.shown() == before
    assert not (home / "journal.jsonl").exists()
    assert [job.state for job in queue.all()] == [JobState.FINISHED] * 6
    assert len(set(here.jobs.began)) == len(here.jobs.began)


def test_after_a_reboot_nothing_is_written_back(tmp_path: Path) -> None:
    here = plant_machine(load=0.2)
    run = Run(here, tmp_path, queue_of(), Static(cores=3, period_s=1.0))
    run.start(10)
    fresh = plant_machine(load=0.2)
    fresh.kernel.boot = "boot-2"
    writes = []
    fresh.kernel.refuse = lambda operation, path: writes.append(path) or "" if operation == "write" else ""  # type: ignore[func-returns-value]
    assert Run(fresh, tmp_path, queue_of(), Off()).machine.recover() == []
    assert writes == []
    assert not (tmp_path / "journal.jsonl").exists()


def test_a_dry_run_sets_nothing(tmp_path: Path) -> None:
    here = plant_machine(load=0.2)
    before = here.kernel.shown()
    run = Run(here, tmp_path, queue_of(), Static(cores=3, period_s=1.0))
    run.guard.dry_run = True
    operations = []
    here.kernel.refuse = lambda operation, path: operations.append(operation) or ""  # type: ignore[func-returns-value]
    run.guard.run(10)
    assert set(operations) == {"read"}
    assert here.kernel.shown() == before
    assert here.jobs.began == []
    acted = [entry for entry in run.entries if isinstance(entry, Acted)]
    assert acted
    assert all(entry.dry_run for entry in acted)


def test_an_attempt_that_was_made_and_never_started_waits_again(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of([SPECS[0]])
    here.jobs.needs_s = 4.0
    made = queue.move(1, JobState.RUNNING, attempt=1)
    here.jobs.make_only(made)
    Run(here, tmp_path, queue, Static(cores=2, period_s=1.0)).run(30)
    [job] = queue.all()
    assert (job.state, job.attempt, job.failures) == (JobState.FINISHED, 2, 0)


@pytest.mark.parametrize("keeper", [True, False], ids=["keeper", "next guard"])
@pytest.mark.parametrize(("needs_s", "attempts"), [(0.0, 1), (1e9, 2)], ids=["ends well", "is killed"])
def test_an_attempt_that_the_engine_still_starts_for_a_killed_guard_is_not_done_twice(
    needs_s: float, attempts: int, keeper: bool, tmp_path: Path
) -> None:
    here, queue = plant_machine(load=0.2), queue_of([])
    killed = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    killed.start(3)
    queue.add([SPECS[0]])
    made = queue.move(1, JobState.RUNNING, attempt=1)
    here.jobs.needs_s = needs_s
    here.jobs.make_only(made, begins_after=2)
    if keeper:
        assert list(here.machine(tmp_path).restore()) == []
        assert here.jobs.began == [made.container]
    following = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    following.guard.jobs.recover()
    here.jobs.needs_s = 4.0
    following.run(30)
    [job] = queue.all()
    assert (job.state, job.attempt, job.failures) == (JobState.FINISHED, attempts, 0)
    assert len(here.jobs.well) == 1


def test_removing_one_job_lets_no_other_run_while_all_stand_still(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:3])
    here.jobs.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    run.guard._act(Decision(NOTHING, {"running": "a violation"}))
    assert here.jobs.running() == []
    first, *others = [job.container for job in queue.all()]
    during = []
    here.jobs.refuse = lambda operation: during.append([job.container for job, _ in here.jobs.running()])
    run.machine.runner.remove([first])
    assert during == [[]], "it ended when it was thawed, and nobody else ran"
    assert first not in here.jobs.containers()
    here.jobs.refuse = lambda operation: None
    assert here.jobs.running() == []
    run.guard._act(Decision(Setting(True, 2.0), {"running": "again"}))
    assert [job.container for job, _ in here.jobs.running()] == others


def test_an_engine_that_is_away_ends_no_guard_and_doubles_no_job(tmp_path: Path) -> None:
    """``PretendJobs.start`` fails where a job is started beside its own earlier attempt."""
    here = plant_machine(load=0.2)
    here.jobs.needs_s = 6.0
    queue = queue_of([JobSpec(f"long-{number}", "i", kind="compute", limit_s=3.0, attempts=2) for number in range(3)])
    calls = 0

    def away(operation: str) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise TestbedUnavailable("the Docker Engine does not answer")
        if calls % 5 == 0:
            raise DeploymentFailed("the engine could not do it")

    run = Run(here, tmp_path, queue, Static(cores=3, period_s=1.0))
    run.start(2)
    here.jobs.refuse = away
    until = here.monotonic() + 60
    while here.monotonic() < until:
        run.guard.step()
        here.sleep(0.1)
    here.jobs.refuse = lambda operation: None
    run.guard.jobs.stop()
    assert run.machine.restore() == []
    assert len(set(here.jobs.began)) == len(here.jobs.began)
    assert any(isinstance(entry, Noted) and "does not answer" in entry.text for entry in run.entries)


def test_the_use_of_an_application_that_is_gone_is_missing_and_not_zero(tmp_path: Path) -> None:
    here = plant_machine(load=0.3)
    run = Run(here, tmp_path, queue_of([]), Off())
    run.start(5)
    assert (run.guard.sample.lc_cores or 0.0) > 1.0
    here.kernel.end(LC_PID)
    run.guard.step()
    assert run.guard.sample.lc_cores is None
    here.sleep(2.0)
    run.guard.step()
    assert run.guard.sample.lc_cores is None
