"""What every job queue promises: one worker for a study, one study for a place, turns for owners."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from framework.errors import NotFound
from framework.model.job import ENGINE, Job
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.studies import SqlStudyStore
from tests.contract.test_study_store import study
from tests.fakes import VirtualClock


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
        kept.put(name, place=place)
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
