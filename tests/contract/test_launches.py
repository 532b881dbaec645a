"""The store of launches keeps its contract: a study, its job and its key in one transaction, once for each key."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from framework.errors import InputError, StoreError
from framework.model import StudyState
from framework.model.job import ENGINE, IdempotencyKey, Job
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.launches import KEPT_NS, SqlLaunches
from framework.store.studies import SqlStudyStore
from framework.testing.clock import VirtualClock
from framework.testing.examples import study

KEY = IdempotencyKey("ann", "k1", "a" * 64)


@dataclass
class Kept:
    store: SqlStudyStore
    queue: SqlJobQueue
    launches: SqlLaunches
    clock: VirtualClock

    def launch(self, name: str, key: IdempotencyKey | None = KEY) -> str:
        return self.launches.launch(study(name), Job(name, 3, "ann", ENGINE, 0), key)

    def names(self) -> tuple[list[str], list[str]]:
        """Return the sorted ids of all studies, and the sorted studies of all jobs."""
        return sorted(study.id for study in self.store.studies()), sorted(job.study for job in self.queue.jobs())


@pytest.fixture
def kept(tmp_path: Path, url: str) -> Iterator[Kept]:
    clock = VirtualClock()
    database = Database(url)
    store = SqlStudyStore(database, FileArtefacts(tmp_path / "artefacts"), clock)
    yield Kept(store, SqlJobQueue(database, clock), SqlLaunches(database, clock), clock)
    store.close()


def test_a_study_and_its_job_are_there_together(kept: Kept) -> None:
    assert kept.launch("a", None) == "a"
    [job] = kept.queue.jobs()
    assert (job.study, job.priority, job.owner, job.resource, job.worker) == ("a", 3, "ann", ENGINE, "")


def test_the_same_key_again_gives_the_first_study(kept: Kept) -> None:
    assert kept.launches.made_by(KEY) is None
    assert kept.launch("a") == "a"
    assert kept.launch("b") == "a"
    assert kept.launches.made_by(KEY) == "a"
    assert kept.names() == (["a"], ["a"])
    assert kept.launch("c", replace(KEY, owner="bob")) == "c", "another owner's key is another"


def test_the_same_key_with_another_request_makes_nothing(kept: Kept) -> None:
    kept.launch("a")
    other = replace(KEY, request="b" * 64)
    with pytest.raises(InputError, match="another request"):
        kept.launch("b", other)
    with pytest.raises(InputError, match="another request"):
        kept.launches.made_by(other)
    assert kept.names() == (["a"], ["a"])


def test_a_key_is_forgotten_after_a_day(kept: Kept) -> None:
    kept.launch("a")
    kept.clock.sleep(KEPT_NS / 1e9 + 1)
    assert kept.launches.made_by(KEY) is None
    assert kept.launch("b") == "b"


def test_what_cannot_be_written_leaves_no_key(kept: Kept) -> None:
    kept.store.create(study("a"))
    with pytest.raises(StoreError):
        kept.launch("a")  # a study of this id is there
    assert kept.launches.made_by(KEY) is None
    assert kept.names() == (["a"], [])


def test_a_study_that_runs_from_its_beginning_says_so(kept: Kept) -> None:
    kept.launches.launch(replace(study("a"), state=StudyState.RUNNING), None, KEY)
    assert kept.names() == (["a"], [])
    assert [(event["kind"], event["state"]) for event in kept.store.events("a")] == [("state", "running")]


def test_many_at_the_same_time_make_one(kept: Kept) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda number: kept.launch(f"s{number}"), range(16)))
    assert len(made) == 1
    assert kept.names() == (sorted(made), sorted(made))


def test_many_different_requests_with_one_key_make_one(kept: Kept) -> None:
    def launch(number: int) -> str:
        try:
            return kept.launch(f"s{number}", replace(KEY, request=f"{number:064d}"))
        except InputError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        made = [name for name in pool.map(launch, range(16)) if name]
    assert len(made) == 1
    assert kept.names() == (made, made)
