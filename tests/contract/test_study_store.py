"""What every study store promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.errors import IllegalTransition, NotFound, StoreError
from framework.model import Estimate, Measurement, Offer, Study, StudyPlan, StudyState, Trial, TrialState, Verdict
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.offers import SqlOfferStore
from framework.store.schema import leases
from framework.store.studies import SqlStudyStore
from optimizer.space import Configuration
from tests.fakes import MACHINE, VirtualClock

PLAN = StudyPlan("app", "dds", {}, 3, 2, 5.0, 20.0, 100.0, 1, 10)
INFINITE = Estimate(1.0, 0.5, float("inf"), 3)


def study(name: str = "20260101-000000-aa") -> Study:
    return Study(name, "2026-01-01T00:00:00", StudyState.CREATED, PLAN, "hash", {}, MACHINE, {}, "docker")


def measurement(repetition: int = 0) -> Measurement:
    return Measurement(
        repetition, 0, (), (), 12.5, {"p95": INFINITE}, 100, 0, 99.0, 100.0, 0.1, 12.4, 300, 300, 0.0, None,
        {"application": 0.5}, {}, (), {"cache": {"hits": 3.0}}, {"load": 25.0},
        latencies_ms=np.array([1.0, 2.5, np.inf], np.float32),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, url: str) -> Iterator[SqlStudyStore]:
    database = Database(url)
    opened = SqlStudyStore(database, FileArtefacts(tmp_path / "artefacts"), VirtualClock())
    opened.create(study())
    yield opened
    opened.close()


def begin(store: SqlStudyStore, purpose: str = "search") -> Trial:
    configuration = Configuration({"cache.size": 3, "cache.ratio": 0.5, "cache.on": True, "cache.policy": "a"})
    return store.begin_trial(Trial(study().id, 0, purpose, configuration, TrialState.RUNNING))  # type: ignore[arg-type]  # a purpose


def test_a_finished_trial_comes_back_as_it_was(store: SqlStudyStore) -> None:
    trial = begin(store)
    store.add_measurement(trial.study, trial.number, measurement())
    finished = store.finish_trial(replace(trial, state=TrialState.COMPLETED, value=12.5, images={"cache": "x@y"}))
    [read] = store.trials(trial.study)
    assert replace(read, measurements=()) == finished
    assert read.configuration == trial.configuration
    assert isinstance(read.configuration["cache.on"], bool)
    [one] = read.measurements
    assert one == measurement()
    assert one.quantities["p95"].high == float("inf")
    np.testing.assert_array_equal(one.latencies_ms, measurement().latencies_ms)


def test_a_trial_is_offered_with_its_beginning_and_no_longer_than_it_runs(store: SqlStudyStore) -> None:
    """In one transaction each: what a killed process leaves has a lease, or is told."""
    offers = SqlOfferStore(store._database, store._clock)
    store.set_state(study().id, StudyState.RUNNING)
    configuration = Configuration({"cache.size": 3})
    wanted = Trial(study().id, 0, "search", configuration, TrialState.RUNNING)
    first, second = store.begin_trials([wanted, wanted], [Offer("a", 0), Offer("a", 0)])
    assert [first.number, second.number] == [1, 2]
    assert offers.take_over(study().id, "b", 5, 60.0) == [first.number, second.number]
    assert offers.renew(study().id, "b", [first.number, second.number], 60.0) == [first.number, second.number]
    store.finish_trials([replace(first, state=TrialState.COMPLETED, value=1.0)], best=first.number)
    store.finish_trial(replace(second, state=TrialState.FAILED))
    assert offers.renew(study().id, "b", [first.number, second.number], 60.0) == []
    assert store.get(study().id).best == first.number


def test_several_trials_end_together_or_none_does(store: SqlStudyStore) -> None:
    wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
    first, second, third = store.begin_trials([wanted] * 3)
    ended = [
        replace(second, state=TrialState.COMPLETED, value=2.0),
        replace(first, state=TrialState.FAILED, reason="why"),
    ]
    with pytest.raises(NotFound):
        store.finish_trials([*ended, replace(third, number=9, state=TrialState.FAILED)])
    assert {one.state for one in store.trials(study().id)} == {TrialState.RUNNING}
    store.finish_trials(ended, best=second.number)
    found = store.trials(study().id)
    assert [(one.state, one.value, one.reason) for one in found] == [
        (TrialState.FAILED, None, "why"),
        (TrialState.COMPLETED, 2.0, ""),
        (TrialState.RUNNING, None, ""),
    ]
    said = [(one["kind"], one["number"]) for one in store.events(study().id)]
    assert said == [("trial begins", 1), ("trial begins", 2), ("trial begins", 3), ("trial ends", 2), ("trial ends", 1)]
    with pytest.raises(IllegalTransition):
        store.finish_trials([replace(third, state=TrialState.FAILED), ended[0]])
    assert store.trial(study().id, third.number).state is TrialState.RUNNING


def test_clients_measure_for_a_study_that_runs(store: SqlStudyStore) -> None:
    """Also where another process stopped it a moment ago."""
    wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
    with pytest.raises(IllegalTransition):
        store.begin_trials([wanted], [Offer("a", 0)])
    store.set_state(study().id, StudyState.RUNNING)
    [begun] = store.begin_trials([wanted], [Offer("a", 0)])
    store.set_state(study().id, StudyState.COMPLETED)
    with pytest.raises(IllegalTransition):
        store.finish_trials([replace(begun, state=TrialState.COMPLETED, value=1.0)], offered=True)
    assert [one.state for one in store.trials(study().id)] == [TrialState.RUNNING]


def test_a_row_that_is_refused_is_told_and_undoes_the_others(store: SqlStudyStore) -> None:
    """Though what is written to a server is sent without waiting for each answer."""
    database = store._database

    def twice() -> None:
        with database.transaction() as connection, database.ending(connection):
            for _ in range(2):
                connection.execute(leases.insert(), {"study": study().id, "holder": "a:1", "expires_ns": 2**62})

    with pytest.raises(StoreError, match="refused a row"):
        twice()
    assert store.leased() == []
    assert begin(store).number == 1, "and the connection is good for more"


def test_where_a_study_stands(store: SqlStudyStore) -> None:
    offers = SqlOfferStore(store._database, store._clock)
    store.set_state(study().id, StudyState.RUNNING)
    assert offers.stand(study().id) == (StudyState.RUNNING, False)
    wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
    store.begin_trials([wanted], [Offer("a", 2**62)])
    assert offers.stand(study().id) == (StudyState.RUNNING, False)
    store.begin_trials([wanted], [Offer("a", 0)])
    assert offers.stand(study().id) == (StudyState.RUNNING, True)
    assert offers.take_over(study().id, "b", 5, 60.0) == [2]
    assert offers.take_over(study().id, "b", 5, 60.0) == []
    with pytest.raises(NotFound):
        offers.stand("20260101")


def test_trials_are_numbered_per_study(store: SqlStudyStore) -> None:
    store.create(study("20260101-000001-bb"))
    assert [begin(store).number, begin(store).number] == [1, 2]


@pytest.mark.parametrize("state", [TrialState.COMPLETED, TrialState.FAILED, TrialState.ABORTED, TrialState.INFEASIBLE])
def test_a_finished_trial_stays_finished(store: SqlStudyStore, state: TrialState) -> None:
    trial = store.finish_trial(replace(begin(store), state=state))
    with pytest.raises(IllegalTransition):
        store.finish_trial(replace(trial, state=TrialState.COMPLETED))


def test_a_trial_does_not_finish_as_running(store: SqlStudyStore) -> None:
    with pytest.raises(IllegalTransition):
        store.finish_trial(begin(store))


def test_study_life_cycle(store: SqlStudyStore) -> None:
    name = study().id
    with pytest.raises(IllegalTransition):
        store.set_state(name, StudyState.COMPLETED)
    store.set_state(name, StudyState.RUNNING)
    store.set_state(name, StudyState.PAUSED, "why")
    assert store.get(name).message == "why"
    with pytest.raises(IllegalTransition):
        store.set_state(name, StudyState.COMPLETED)


def test_a_study_is_found_by_an_unambiguous_beginning(store: SqlStudyStore) -> None:
    assert store.get("20260101").id == study().id
    store.create(study("20260101-000001-bb"))
    with pytest.raises(NotFound, match="2 studies"):
        store.get("20260101")
    with pytest.raises(NotFound, match="no study"):
        store.get("%")
    with pytest.raises(StoreError):
        store.create(study())


def test_verdict_plan_and_best(store: SqlStudyStore) -> None:
    verdict = Verdict("improvement", 10, INFINITE, 0.01, INFINITE, INFINITE, "no worse", INFINITE)
    store.set_verdict(study().id, verdict, {"expert": verdict})
    store.set_space(study().id, {"parameters": []}, replace(PLAN, iterations=8))
    assert store.get(study().id).space == {"parameters": []}
    assert store.get(study().id).plan.iterations == 8
    store.set_plan(study().id, replace(PLAN, iterations=7, extra={"frozen": 7}))
    store.set_best(study().id, 2)
    read = store.get(study().id)
    assert (read.verdict, read.rivals["expert"], read.best) == (verdict, verdict, 2)
    assert read.plan.iterations == 7


def test_events_are_replayed_from_an_id(store: SqlStudyStore) -> None:
    first = store.add_event(study().id, "one", {"x": 1})
    store.add_event(study().id, "two", {"x": float("inf")})
    assert [event["kind"] for event in store.events(study().id)] == ["one", "two"]
    assert [event["x"] for event in store.events(study().id, after=first)] == ["inf"]


def test_a_lease_keeps_others_out_until_it_ends(store: SqlStudyStore, url: str, tmp_path: Path) -> None:
    clock = VirtualClock()
    other = SqlStudyStore(Database(url), FileArtefacts(tmp_path / "artefacts"), clock)
    assert store.acquire(study().id, "a:1", 60)
    assert not other.acquire(study().id, "b:2", 60)
    assert other.leased() == [(study().id, "a:1")]
    clock.sleep(61)
    assert other.acquire(study().id, "b:2", 60)
    other.release(study().id, "a:1")  # not the holder: nothing happens
    assert other.leased() == [(study().id, "b:2")]
    other.release(study().id, "b:2")
    assert other.leased() == []
    other.close()


@pytest.mark.parametrize("step_s", [-7_200.0, -3_600.0, 3_600.0])
def test_a_step_of_the_clock_holds_nobody_up(store: SqlStudyStore, step_s: float) -> None:
    clock = store._clock
    assert isinstance(clock, VirtualClock)
    clock.sleep(10_000)
    assert store.acquire(study().id, "a:1", 60)
    clock.sleep(step_s)
    assert store.leased() == [], "of whoever has it no more is known"
    assert store.acquire(study().id, "b:2", 60)
    assert not store.acquire(study().id, "a:1", 60), "who had it before notices at its next step"


def test_what_is_unknown_is_not_found(store: SqlStudyStore) -> None:
    for change in (
        lambda: store.get("nothing"),
        lambda: store.set_best("nothing", 1),
        lambda: store.set_state("nothing", StudyState.RUNNING),
        lambda: store.finish_trial(Trial("nothing", 1, "search", Configuration({}), TrialState.FAILED)),
    ):
        with pytest.raises(NotFound):
            change()


def test_an_unusable_place_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        SqlStudyStore(Database(f"sqlite:///{tmp_path / 'no' / 's.db'}"), FileArtefacts(tmp_path), VirtualClock())


def test_artefacts_are_checked(tmp_path: Path) -> None:
    artefacts = FileArtefacts(tmp_path)
    digest = artefacts.put(b"text")
    assert artefacts.put(b"text") == digest
    assert artefacts.get(digest) == b"text"
    (tmp_path / digest[:2] / digest).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="damaged"):
        artefacts.get(digest)
    with pytest.raises(NotFound):
        artefacts.get("0" * 64)


def test_measurements_of_the_first_schema_are_read_without_their_service_times(tmp_path: Path) -> None:
    url, artefacts = f"sqlite:///{tmp_path / 's.db'}", FileArtefacts(tmp_path / "artefacts")
    new = SqlStudyStore(Database(url), artefacts, VirtualClock())
    new.create(study())
    trial = begin(new)
    new.add_measurement(trial.study, trial.number, measurement())
    new.finish_trial(replace(trial, state=TrialState.COMPLETED, value=12.5))
    new.close()
    # As the first version wrote them: a share was a number, without an interval.
    with closing(sqlite3.connect(tmp_path / "s.db")) as database, database:
        [(text,)] = database.execute("SELECT document FROM measurements").fetchall()
        old = {**json.loads(text), "services": [{"name": "cache", "mean_ms": 1.5, "share": 0.25, "spans": 40}]}
        database.execute("UPDATE measurements SET document = ?", (json.dumps(old),))
        database.execute("UPDATE alembic_version SET version_num = '0001'")
        for table in ("jobs", "offers", "tokens", "keys", "artefacts"):
            database.execute(f"DROP TABLE {table}")
        for column in ("quantities", "costs"):
            database.execute(f"ALTER TABLE trials DROP COLUMN {column}")
    opened = SqlStudyStore(Database(url), artefacts, VirtualClock())
    [read] = opened.trials(study().id)
    assert read.measurements == (measurement(),)  # which holds no service times; all else is as it was
    opened.close()
