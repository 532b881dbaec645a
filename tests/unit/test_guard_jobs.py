"""Jobs of a guard whose end is in doubt: it stops, is killed, or its engine is away."""

from __future__ import annotations

from pathlib import Path

from framework.errors import TestbedUnavailable
from framework.guard.jobs import OUTPUT_IN_DOUBT
from framework.guard.policies.static import Static
from framework.model.batch_job import JobSpec, JobState
from framework.model.guard import NOTHING, Decision
from framework.testbeds.host.guarded_machine import give_back
from tests.unit.test_guard_machine import SPECS, Run, plant_machine, queue_of


def test_a_job_that_ends_well_as_its_guard_stops_is_finished(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:2])
    here.jobs.needs_s, here.jobs.late = 1e9, 2
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    first = queue.all()[0].container
    here.jobs.finish(first)  # and the engine has not noticed it yet
    run.guard.jobs.stop()
    assert run.machine.restore() == []
    assert [job.state for job in queue.all()] == [JobState.FINISHED, JobState.PENDING]
    assert here.jobs.containers() == []
    assert (tmp_path / "output" / "1-1.txt").exists()
    assert here.jobs.well == [first]


def test_a_keeper_leaves_a_job_that_ended_well_for_the_next_guard_to_note(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:2])
    before = here.kernel.shown()
    here.jobs.needs_s = 1e9
    Run(here, tmp_path, queue, Static(cores=2, period_s=1.0)).start(5)  # and it is killed
    first, _ = (job.container for job in queue.all())
    here.jobs.finish(first)
    assert give_back(here.machine(tmp_path), here.sleep) == []
    assert here.kernel.shown() == before
    assert here.jobs.containers() == [first]
    here.jobs.needs_s = 6.0
    assert Run(here, tmp_path, queue, Static(cores=2, period_s=1.0)).run(20) == []
    assert [(job.state, job.attempt) for job in queue.all()] == [(JobState.FINISHED, 1), (JobState.FINISHED, 2)]


def test_a_keeper_ends_jobs_while_the_engine_is_away_and_waits_for_it(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:2])
    before = here.kernel.shown()
    here.jobs.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    run.guard._act(Decision(NOTHING, {"running": "a violation"}))
    ran, asked = list[str](), 0

    def away(operation: str) -> None:
        nonlocal asked
        asked += 1
        ran.extend(here.kernel.pids[pid] for _, pid in here.jobs.processes().values())
        if asked < 4:
            raise TestbedUnavailable("the Docker Engine does not answer")

    here.jobs.refuse = away
    assert give_back(here.machine(tmp_path), here.sleep) == []
    assert ran == [], "no job runs while the engine is waited for"
    assert here.kernel.shown() == before
    assert here.jobs.containers() == []


def test_jobs_that_end_with_their_engine_have_not_failed(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of([JobSpec("one", "i", kind="compute", attempts=1)])
    here.jobs.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    for _ in range(3):
        here.jobs.restart()
        until = here.monotonic() + 5
        while here.monotonic() < until:
            run.guard.step()
            here.sleep(0.1)
    [job] = queue.all()
    assert (job.state, job.attempt, job.failures) == (JobState.RUNNING, 4, 0)


def test_a_job_that_ends_well_while_its_engine_is_restarted_is_finished_with_its_output_in_doubt(
    tmp_path: Path,
) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:1])
    here.jobs.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    here.jobs.finish(queue.all()[0].container)
    here.jobs.restart()
    for _ in range(30):
        run.guard.step()
        here.sleep(0.1)
    [job] = queue.all()
    assert (job.state, job.attempt, job.reason) == (JobState.FINISHED, 1, OUTPUT_IN_DOUBT)


def test_an_attempt_that_the_engine_did_not_begin_waits_again(tmp_path: Path) -> None:
    """Whether its container was made or not: it has not failed, and does not count as running for ever."""
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:2])
    here.jobs.needs_s = 4.0
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))

    def away(operation: str) -> None:
        if operation == "start":
            if run.queue.all()[0].state is JobState.RUNNING:
                here.jobs.make_only(run.queue.all()[0])
            raise TestbedUnavailable("the Docker Engine does not answer")

    run.start(1)
    run.guard.jobs.stop()
    here.jobs.refuse = away
    for _ in range(30):
        run.guard.step()
        here.sleep(0.1)
    here.jobs.refuse = lambda operation: None
    run.guard.run(20)
    assert [(job.state, job.failures) for job in queue.all()] == [(JobState.FINISHED, 0)] * 2


def test_what_was_left_is_taken_over_once_the_engine_answers(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(SPECS[:2])
    here.jobs.needs_s = 1e9
    Run(here, tmp_path, queue, Static(cores=2, period_s=1.0)).start(5)  # and it is killed
    queue.forget(2)
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))

    def away(operation: str) -> None:
        if here.monotonic() < 8:
            raise TestbedUnavailable("the Docker Engine does not answer")

    here.jobs.refuse = away
    run.start(10)
    assert here.jobs.containers() == ["tailor-job-1-1"], "the stranger is gone, the other goes on"
    assert [job.state for job in queue.all()] == [JobState.RUNNING]
