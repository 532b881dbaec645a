"""The job queue keeps its contract: one worker for a study, one study for an engine, turns for owners."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from framework.errors import IllegalTransition, NotFound
from framework.model import StudyState
from framework.model.job import ENGINE, Job
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.studies import SqlStudyStore
from framework.testing.clock import VirtualClock
from framework.testing.examples import study


@dataclass
class Kept:
    store: SqlStudyStore
    queue: SqlJobQueue
    clock: VirtualClock

    def put(self, name: str, **options: object) -> None:
        self.store.create(study(name))
        self.queue.put(name, **options)  # type: ignore[arg-type]  # as the test says
        self.clock.sleep(1)

    def take(self, worker: str = "w1", engine: str = "engine of one") -> str | None:
        job = self.queue.take(worker, engine, 60.0)
        return job.study if job else None


@pytest.fixture
def kept(tmp_path: Path, url: str) -> Iterator[Kept]:
    clock = VirtualClock()
    database = Database(url)
    store = SqlStudyStore(database, FileArtefacts(tmp_path / "artefacts"), clock)
    yield Kept(store, SqlJobQueue(database, clock), clock)
    store.close()


def test_first_come_first_served_and_priorities_before(kept: Kept) -> None:
    for name, priority in (("a", 0), ("b", 0), ("c", 5)):
        kept.put(name, priority=priority)
    assert [kept.take(), kept.take(), kept.take(), kept.take()] == ["c", "a", "b", None]


def test_owners_take_turns(kept: Kept) -> None:
    for name, owner in (("a1", "ann"), ("a2", "ann"), ("a3", "ann"), ("b1", "bob")):
        kept.put(name, owner=owner)
    assert [kept.take() for _ in range(4)] == ["a1", "b1", "a2", "a3"]


def test_an_engine_has_one_study_at_a_time(kept: Kept) -> None:
    for name, place in (("a", ENGINE), ("b", ENGINE), ("c", "")):
        kept.put(name, resource=place)
    assert [kept.take(), kept.take(), kept.take()] == ["a", "c", None], "b waits for the engine"
    assert kept.take("w2", "") is None, "one without an engine cannot help"
    assert kept.take("w2", "engine of another") == "b", "another worker has one of its own"
    kept.store.release("a", "w1")
    kept.queue.done("a")
    kept.clock.sleep(61)
    assert kept.take("w1") == "b", "what a dead worker had on its engine goes on with this one"


def test_the_study_of_a_worker_that_died_is_taken_over(kept: Kept) -> None:
    kept.put("a")
    assert kept.take("w1") == "a"
    assert kept.take("w2") is None
    kept.clock.sleep(61)
    assert kept.take("w2") == "a"
    assert dict(kept.store.leased()) == {"a": "w2"}
    assert not kept.store.acquire("a", "w1", 60.0), "the dead one cannot come back to it"


def test_stopping(kept: Kept) -> None:
    kept.put("a")
    kept.put("b")
    kept.take()
    assert kept.queue.stop("b", "now").worker == ""
    assert [job.study for job in kept.queue.jobs()] == ["a"], "one that only waits leaves the queue"
    kept.queue.stop("a", "after trial")
    assert kept.queue.stop_wanted("a") == "after trial"
    assert kept.queue.stop_wanted("b") == ""
    with pytest.raises(NotFound, match="neither waits nor runs"):
        kept.queue.stop("b", "now")


def test_putting_twice_keeps_the_turn(kept: Kept) -> None:
    kept.put("a")
    kept.queue.put("a", priority=9)
    [job] = kept.queue.jobs()
    assert replace(job, queued_ns=0) == Job("a", 0, "", "", 0)


def test_many_workers_never_take_the_same(kept: Kept) -> None:
    names = [f"s{number:02d}" for number in range(24)]
    for name in names:
        kept.put(name)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda number: kept.take(f"w{number}"), range(30)))
    assert sorted(name for name in taken if name) == names


def test_asking_for_a_study_again_takes_a_stop_back(kept: Kept) -> None:
    kept.put("a")
    kept.take()
    kept.store.set_state("a", StudyState.RUNNING)
    kept.queue.stop("a", "now")
    kept.queue.put("a")
    assert kept.queue.stop_wanted("a") == ""
    kept.store.set_state("a", StudyState.PAUSED)  # its worker saw the stop before
    kept.store.release("a", "w1")
    assert not kept.queue.stopped("a", "w1")
    assert kept.take("w2") == "a"


def test_a_stop_that_is_still_wanted_ends_the_job(kept: Kept) -> None:
    kept.put("a")
    kept.take()
    kept.store.set_state("a", StudyState.RUNNING)
    kept.queue.put("a")
    kept.queue.stop("a", "now")
    kept.store.set_state("a", StudyState.PAUSED)
    kept.store.release("a", "w1")
    assert kept.queue.stopped("a", "w1")
    assert kept.queue.jobs() == []
    assert kept.queue.stopped("a", "w1"), "it has left already"


@pytest.mark.parametrize("state", [StudyState.PAUSED, StudyState.FAILED])
def test_what_is_asked_for_while_its_worker_gives_it_away_waits_again(kept: Kept, state: StudyState) -> None:
    kept.put("a")
    kept.take()
    kept.store.set_state("a", StudyState.RUNNING)
    kept.queue.stop("a", "now")
    kept.store.set_state("a", state)
    kept.queue.put("a")
    kept.queue.done("a", "w1")
    assert not kept.queue.stopped("a", "w1")
    assert [(job.study, job.stop) for job in kept.queue.jobs()] == [("a", "")]
    assert kept.take("w2") is None, "w1 has not let go of it"
    kept.queue.stop("a", "now")
    assert kept.queue.stop_wanted("a") == "now", "somebody has it, so that it is asked to stop"
    kept.store.release("a", "w1")
    kept.queue.put("a")
    assert kept.take("w2") == "a"


def test_a_worker_gives_away_only_what_it_has(kept: Kept) -> None:
    kept.put("a")
    kept.take("w1")
    kept.clock.sleep(61)
    assert kept.take("w2") == "a"
    kept.queue.stop("a", "now")
    kept.queue.done("a", "w1")
    assert not kept.queue.stopped("a", "w1")
    [job] = kept.queue.jobs()
    assert (job.worker, job.stop) == ("w2", "now")


def test_only_an_existing_study_that_is_not_completed_is_queued(kept: Kept) -> None:
    with pytest.raises(NotFound):
        kept.queue.put("nothing")
    kept.store.create(study("a"))
    for state in (StudyState.RUNNING, StudyState.COMPLETED):
        kept.store.set_state("a", state)
    with pytest.raises(IllegalTransition, match="completed"):
        kept.queue.put("a")


def test_stops_and_resumptions_at_the_same_time_have_one_outcome(kept: Kept) -> None:
    """In any order of commits, the request that was answered last holds."""
    for number in range(20):
        name = f"s{number:02d}"
        kept.put(name)
        assert kept.take(f"w{number}") == name
        kept.store.set_state(name, StudyState.RUNNING)

        def resume(name: str = name) -> str:
            kept.queue.put(name)
            return "resumed"

        def stop(name: str = name) -> str:
            try:
                kept.queue.stop(name, "now")
            except NotFound:
                return "nothing to stop"
            return "stopped"

        def worker(name: str = name, worker: str = f"w{number}") -> str:
            kept.store.set_state(name, StudyState.PAUSED)
            kept.store.release(name, worker)
            return "left" if kept.queue.stopped(name, worker) else "waits"

        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(action) for action in (stop, worker, resume, resume)]
            answers = [call.result() for call in calls]
        jobs = [job for job in kept.queue.jobs() if job.study == name]
        assert answers[2:] == ["resumed", "resumed"]
        if not jobs:
            assert answers[0] == "stopped", "without a job only where somebody stopped it after that"
        else:
            assert jobs[0].worker == "", "it waits for whoever is next"
        kept.queue.done(name)


def test_a_resumption_that_is_answered_last_always_has_a_job(kept: Kept) -> None:
    for number in range(20):
        name = f"s{number:02d}"
        kept.put(name)
        assert kept.take(f"w{number}") == name
        kept.store.set_state(name, StudyState.RUNNING)
        kept.queue.stop(name, "now")

        def worker(name: str = name, worker: str = f"w{number}") -> None:
            kept.store.set_state(name, StudyState.PAUSED)
            kept.store.release(name, worker)
            kept.queue.stopped(name, worker)

        with ThreadPoolExecutor(2) as pool:
            for call in [pool.submit(worker), pool.submit(kept.queue.put, name)]:
                call.result()
        [job] = kept.queue.jobs()
        assert (job.study, job.worker, job.stop) == (name, "", "")
        kept.queue.done(name)


def test_a_worker_gets_only_what_it_is_able_to_do(kept: Kept) -> None:
    kept.put("a")
    kept.put("b")
    assert kept.queue.take("w1", "", 60.0, able=()) is None
    job = kept.queue.take("w1", "", 60.0, able=("b", "gone"))
    assert job is not None
    assert job.study == "b"
    assert kept.take("w2") == "a", "others may do what one cannot"
