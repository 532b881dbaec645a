"""A worker runs what waits, stops when asked, and leaves what it did not finish to others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import framework.use_cases.worker
from framework.bootstrap.adapters import Opened
from framework.errors import Transient
from framework.model import StudyState, TuneRequest
from framework.model.job import ENGINE
from framework.store.jobs import SqlJobQueue
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from framework.use_cases.worker import MOST_RETRIES, Worker
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=4, repetitions=1, pairs=3, drift_every=0, minimal=0)


@dataclass
class Here:
    tailor: Opened
    queue: SqlJobQueue
    machine: PretendMachine
    worker: Worker

    def put(self, request: TuneRequest = REQUEST) -> str:
        study = self.tailor.studies.create(request)
        self.queue.put(study.id, resource=ENGINE)
        return study.id

    def state(self, study: str) -> StudyState:
        return self.tailor.store.get(study).state


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01)
    tailor, database = pretend_tailor(tmp_path, machine)
    queue = SqlJobQueue(database, machine.clock)
    yield Here(tailor, queue, machine, Worker(tailor.studies, tailor.store, tailor.runner, queue, "pretend engine"))
    tailor.close()


def test_all_that_waits_is_run(here: Here) -> None:
    studies = [here.put(), here.put()]
    here.worker.run(until_empty=True)
    assert [here.state(study) for study in studies] == [StudyState.COMPLETED] * 2
    assert here.queue.jobs() == []


def test_a_study_is_stopped_after_its_trial_and_can_go_on(here: Here) -> None:
    study = here.put()

    def stop(count: int) -> None:
        if count == 1:
            here.queue.stop(study, "after trial")

    here.machine.on_deploy = stop
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.PAUSED
    assert here.queue.jobs() == []
    finished = len(here.tailor.store.trials(study))
    assert finished == 2, "the trial was finished first"
    here.queue.put(study, resource=ENGINE)
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.COMPLETED


def test_what_a_worker_that_leaves_has_not_finished_stays_in_the_queue(here: Here) -> None:
    study = here.put()

    def leave(count: int) -> None:
        if count == 3:
            here.worker.leave()

    here.machine.on_deploy = leave
    here.worker.run()
    assert here.state(study) is StudyState.PAUSED
    assert [job.study for job in here.queue.jobs()] == [study]
    here.machine.on_deploy = lambda count: None
    tailor = here.tailor
    Worker(tailor.studies, tailor.store, tailor.runner, here.queue, "pretend engine").run(until_empty=True)
    assert here.state(study) is StudyState.COMPLETED


def test_a_study_that_fails_leaves_the_queue(here: Here) -> None:
    here.machine.invalid_once = set(range(100))
    study = here.put()
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.FAILED
    assert here.queue.jobs() == []


def test_a_bug_ends_its_study_and_not_the_worker(here: Here) -> None:
    first = here.put()
    here.machine.clock.sleep(1)  # or neither would be the older one
    second = here.put()
    bugs = iter([ZeroDivisionError("a bug")])

    def stumble(count: int) -> None:
        if (bug := next(bugs, None)) is not None:
            raise bug

    here.machine.on_deploy = stumble
    here.worker.run(until_empty=True)
    assert here.state(first) is StudyState.FAILED
    assert "ZeroDivisionError" in here.tailor.store.get(first).message
    assert here.state(second) is StudyState.COMPLETED


def tries(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the tries that the worker logged, one for each time it paused a study."""
    return [int(vars(record)["tries"]) for record in caplog.records if record.msg == "study paused"]


def test_what_is_away_now_and_then_does_not_end_a_study(
    here: Here, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(framework.use_cases.worker, "IDLE_S", 0.0)
    study = here.put()
    asked = itertools.count(1)

    def away(count: int) -> None:
        if next(asked) % 5:  # longer than the study itself is patient, and one deployment in between
            raise Transient("the engine is away")

    here.machine.on_deploy = away
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.COMPLETED
    assert len(tries(caplog)) > MOST_RETRIES
    assert max(tries(caplog)) < MOST_RETRIES


def test_what_stays_away_is_not_asked_for_ever(
    here: Here, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(framework.use_cases.worker, "IDLE_S", 0.0)
    study = here.put()

    def away(count: int) -> None:
        raise Transient("the engine is away")

    here.machine.on_deploy = away
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.PAUSED
    assert here.queue.jobs() == []
    assert tries(caplog) == list(range(1, MOST_RETRIES + 1))


def test_the_queue_is_told_what_goes_on(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework.use_cases.worker, "ASKED_EVERY_S", -1.0)  # at every event, however fast they come
    study = here.put()

    def leave(count: int) -> None:
        if count == 2:
            here.worker.leave()

    here.machine.on_deploy = leave
    here.worker.run()
    values = [trial.value for trial in here.tailor.store.trials(study) if trial.value is not None]
    assert len(values) == 2
    assert here.queue.progress(study) == {
        "phase": "deploy", "trial": 3, "purpose": "search", "incumbent": min(values), "repetitions": 2
    }  # fmt: skip
