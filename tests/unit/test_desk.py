"""A study that many clients measure: every trial is given once, told once, and survives a store that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.desk import Told
from framework.errors import IllegalTransition, InputError, NotFound, StoreBusy
from framework.external import External
from framework.model import Offer, Trial, TrialState
from framework.store.offers import SqlOfferStore
from framework.store.studies import SqlStudyStore
from tests.fakes import MACHINE, PretendMachine, VirtualClock, pretend_tailor

SPACE = {"parameters": [{"name": "a", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0}]}


class Failing:
    """A store whose next begin fails."""

    def __init__(self, store: SqlStudyStore) -> None:
        self._store = store
        self.fails = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def begin_trials(self, wanted: Sequence[Trial], offered: Sequence[Offer] = ()) -> Sequence[Trial]:
        if self.fails:
            self.fails = False
            raise StoreBusy("away")
        return self._store.begin_trials(wanted, offered)


class Place:
    def __init__(self, home: Path) -> None:
        self.tailor, database = pretend_tailor(home, PretendMachine(VirtualClock(), lambda configuration: 10.0))
        self.store = Failing(self.tailor.store)  # type: ignore[arg-type]  # the SQL store
        offers = SqlOfferStore(database, VirtualClock())
        self.external = External(self.store, offers, VirtualClock(), lambda: MACHINE)  # type: ignore[arg-type]  # passes on

    def create(self, optimizer: str, budget: int = 1_000) -> str:
        return self.external.create("ours", SPACE, optimizer, budget, 1, {}).id


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.tailor.close()


def test_many_clients_at_once_are_given_different_trials_and_replay_finds_the_same(here: Place) -> None:
    study = here.create("dds", budget=60)

    def client(name: str) -> list[int]:
        done = []
        while found := here.external.ask(study, 1, name, 60.0):
            [asked] = found
            here.external.tell(study, [Told(asked.number, float(asked.configuration["a"]))])
            done.append(asked.number)
        return done

    with ThreadPoolExecutor(8) as clients:
        given = [number for done in clients.map(client, [f"c{one}" for one in range(8)]) for number in done]
    assert sorted(given) == list(range(1, 61))
    trials = here.tailor.store.trials(study)
    assert {one.state for one in trials} == {TrialState.COMPLETED}
    found = here.tailor.store.get(study).best
    assert found is not None
    assert trials[found - 1].value == min(one.value for one in trials if one.value is not None)
    here.external.leave(study)
    assert here.external.ask(study, 1, "late", 60.0) == []
    assert "replay diverged" not in {event["kind"] for event in here.tailor.store.events(study)}


def test_an_ask_that_could_not_be_recorded_is_asked_again(here: Place) -> None:
    """The optimizer is not ahead of what the store knows."""
    study, other = here.create("dds"), here.create("dds")
    here.store.fails = True
    with pytest.raises(StoreBusy):
        here.external.ask(study, 3, "me", 60.0)
    again = here.external.ask(study, 3, "me", 60.0)
    assert [one.configuration for one in again] == [
        one.configuration for one in here.external.ask(other, 3, "me", 60.0)
    ]


def test_results_are_taken_all_or_none(here: Place) -> None:
    study = here.create("random")
    first, second = here.external.ask(study, 2, "me", 60.0)
    for wrong, error in (
        (Told(99, 1.0), NotFound),
        (Told(first.number, 2.0), IllegalTransition),
        (Told(second.number, None), InputError),
    ):
        with pytest.raises(error):
            here.external.tell(study, [Told(first.number, 1.0), wrong])
        assert {one.state for one in here.tailor.store.trials(study)} == {TrialState.RUNNING}
    here.external.tell(study, [Told(first.number, 1.0), Told(first.number, 1.0), Told(second.number, 0.5)])
    here.external.tell(study, [Told(first.number, 1.0)])
    assert [one.value for one in here.tailor.store.trials(study)] == [1.0, 0.5]
    assert here.tailor.store.get(study).best == second.number
