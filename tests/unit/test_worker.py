"""A worker runs what waits, stops when asked, and leaves what it did not finish to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.adapters import Adapters
from framework.controller import Bench
from framework.model import StudyState, TuneRequest
from framework.service import Tailor
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.studies import SqlStudyStore
from framework.traces.files import read_all
from framework.worker import Worker
from tests.fakes import PretendMachine, VirtualClock

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=4, repetitions=1, pairs=3, drift_every=0, minimal=0)


@dataclass
class Here:
    tailor: Tailor
    queue: SqlJobQueue
    machine: PretendMachine
    worker: Worker

    def put(self, request: TuneRequest = REQUEST) -> str:
        study = self.tailor.create(request)
        self.queue.put(study.id, place="pretend")
        return study.id

    def state(self, study: str) -> StudyState:
        return self.tailor.store.get(study).state


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    clock = VirtualClock()
    artefacts = FileArtefacts(tmp_path / "artefacts")
    database = Database(f"sqlite:///{tmp_path / 's.db'}")
    store = SqlStudyStore(database, artefacts, clock)
    machine = PretendMachine(clock, lambda configuration: 10.0, noise=0.01)
    adapters = Adapters(
        store=store,
        artefacts=artefacts,
        clock=clock,
        testbed=lambda name, application, types: machine,
        bench=lambda name, application, types, watch: Bench(
            application, types, machine, machine, machine, store, artefacts, clock, watch
        ),
        traces=read_all,
        home=tmp_path,
        spaces=(),
    )
    tailor = Tailor(adapters)
    queue = SqlJobQueue(database, clock)
    yield Here(tailor, queue, machine, Worker(tailor, queue, ["pretend"]))
    tailor.close()


def test_all_that_waits_is_run(here: Here) -> None:
    studies = [here.put(), here.put()]
    here.worker.run(until_empty=True)
    assert [here.state(one) for one in studies] == [StudyState.COMPLETED] * 2
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
    here.queue.put(study, place="pretend")
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
    Worker(here.tailor, here.queue, ["pretend"]).run(until_empty=True)
    assert here.state(study) is StudyState.COMPLETED


def test_a_study_that_fails_leaves_the_queue(here: Here) -> None:
    here.machine.invalid_once = set(range(100))
    study = here.put()
    here.worker.run(until_empty=True)
    assert here.state(study) is StudyState.FAILED
    assert here.queue.jobs() == []
