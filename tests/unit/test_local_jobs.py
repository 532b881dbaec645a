"""A worker leaves alone what its machine cannot run, and says so; others run it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened
from framework.model import StudyState, TuneRequest
from framework.model.job import ENGINE
from framework.store.jobs import SqlJobQueue
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from framework.use_cases.local_jobs import LocalJobs
from framework.use_cases.worker import Worker
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"


@dataclass
class Here:
    tailor: Opened
    queue: SqlJobQueue
    directory: Path

    def put(self, name: str) -> str:
        application = self.directory / name
        if not application.exists():
            shutil.copytree(SMALL, application)
        request = TuneRequest(
            application, rate_rps=100.0, iterations=2, repetitions=1, pairs=3, drift_every=0, minimal=0
        )
        study = self.tailor.studies.create(request)
        self.queue.put(study.id, resource=ENGINE)
        return study.id

    def local(self) -> LocalJobs:
        return LocalJobs(self.tailor.backends, self.queue)

    def work(self) -> None:
        tailor, able = self.tailor, self.local().able
        Worker(tailor.studies, tailor.store, tailor.runner, self.queue, "e", able=able).run(until_empty=True)

    def state(self, study: str) -> StudyState:
        return self.tailor.store.get(study).state


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    machine = PretendMachine(VirtualClock(), lambda configuration: 10.0, noise=0.01)
    tailor, database = pretend_tailor(tmp_path, machine)
    yield Here(tailor, SqlJobQueue(database, machine.clock), tmp_path / "apps")
    tailor.close()


def test_an_application_that_is_elsewhere_waits_until_it_is_here(here: Here) -> None:
    ours, theirs = here.put("ours"), here.put("theirs")
    away = (here.directory / "theirs").rename(here.directory / "away")
    here.work()
    assert here.state(ours) is StudyState.COMPLETED
    assert here.state(theirs) is StudyState.CREATED
    assert [job.study for job in here.queue.jobs()] == [theirs]
    progress = here.queue.progress(theirs)
    assert progress is not None
    assert "waits for a machine that can run it" in progress["phase"]
    assert str(here.directory / "theirs" / "application.yaml") in progress["phase"]
    away.rename(here.directory / "theirs")
    here.work()
    assert here.state(theirs) is StudyState.COMPLETED


def test_another_version_is_left_to_the_machine_that_launched_it(here: Here) -> None:
    study = here.put("shop")
    (here.directory / "shop" / "notes.txt").write_text("changed")
    kept = here.tailor.store.get(study)
    kept = replace(kept, machine=replace(kept.machine, hostname=platform.node()))
    assert here.local().reason_against(kept) == "", "the run says that it changed"
    elsewhere = replace(kept, machine=replace(kept.machine, hostname=f"not {platform.node()}"))
    assert "is another one" in here.local().reason_against(elsewhere)


def test_a_study_that_was_begun_stays_on_its_kind_of_machine(here: Here) -> None:
    kept = here.tailor.store.get(here.put("shop"))
    begun = replace(kept, state=StudyState.PAUSED)
    other = replace(kept.machine, cores=kept.machine.cores + 1)
    assert here.local().reason_against(begun) == ""
    assert here.local().reason_against(replace(kept, machine=other)) == "", "nothing was measured yet"
    assert "it was begun on" in here.local().reason_against(replace(begun, machine=other))
    assert "no testbed" in here.local().reason_against(replace(kept, testbed="of-a-package"))


def test_many_jobs_of_one_application_are_looked_at_once(here: Here) -> None:
    studies = {here.put("shop") for _ in range(3)}
    local = here.local()
    assert set(local.able()) == studies
    shutil.rmtree(here.directory / "shop")
    assert set(local.able()) == studies, "for half a minute"
    assert set(here.local().able()) == set()


@pytest.mark.parametrize("testbeds", [("pretend", "swarm:right"), ("pretend", "nothing"), ("nothing:1",)])
def test_a_study_on_a_testbed_that_is_not_here_waits(here: Here, testbeds: tuple[str, ...]) -> None:
    study = here.tailor.store.get(here.put("app"))
    several = replace(study, testbed=testbeds[0], plan=replace(study.plan, testbeds=testbeds))
    assert here.local().reason_against(several).endswith(f"which has no testbed {testbeds[-1]}")
