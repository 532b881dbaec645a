"""A study that many clients measure: every trial is given once, told once, and survives a store that fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.errors import IllegalTransition, InputError, NotFound, StoreBusy
from framework.model import Offer, Trial, TrialState
from framework.ports.store import StudyStore
from framework.store.offers import SqlOfferStore
from framework.study.external import External
from framework.study.external_session import TrialResult
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine
from tests.fakes import pretend_tailor

SPACE = {"parameters": [{"name": "a", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0}]}


class Failing:
    """A store whose next ``begin_trials`` fails once ``fails`` is set."""

    def __init__(self, store: StudyStore) -> None:
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
        self.store = Failing(self.tailor.store)
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
        while trials := here.external.ask(study, 1, name, 60.0):
            [trial] = trials
            here.external.tell(study, [TrialResult(trial.number, float(trial.configuration["a"]))])
            done.append(trial.number)
        return done

    with ThreadPoolExecutor(8) as clients:
        given = [number for done in clients.map(client, [f"c{number}" for number in range(8)]) for number in done]
    assert sorted(given) == list(range(1, 61))
    trials = here.tailor.store.trials(study)
    assert {trial.state for trial in trials} == {TrialState.COMPLETED}
    best = here.tailor.store.get(study).best
    assert best is not None
    assert trials[best - 1].value == min(trial.value for trial in trials if trial.value is not None)
    here.external.leave(study)
    assert here.external.ask(study, 1, "late", 60.0) == []
    assert "replay diverged" not in {event["kind"] for event in here.tailor.store.events(study)}


def test_an_ask_that_could_not_be_recorded_is_asked_again(here: Place) -> None:
    """The optimizer is never ahead of the store."""
    study, other = here.create("dds"), here.create("dds")
    here.store.fails = True
    with pytest.raises(StoreBusy):
        here.external.ask(study, 3, "me", 60.0)
    again = here.external.ask(study, 3, "me", 60.0)
    assert [trial.configuration for trial in again] == [
        trial.configuration for trial in here.external.ask(other, 3, "me", 60.0)
    ]


def test_the_best_keeps_the_limits_and_the_same_quantities_have_to_be_told(here: Place) -> None:
    study = here.external.create("ours", SPACE, "tailor", 20, 1, {}, subject_to=["errors <= 0.01"], also=["cpu"]).id
    trials = here.external.ask(study, 4, "me", 60.0)
    with pytest.raises(InputError, match="missing: cpu"):
        here.external.tell(study, [TrialResult(trials[0].number, 1.0, quantities={"errors": 0.0})])
    with pytest.raises(InputError, match="no group web; known: "):
        here.external.tell(
            study, [TrialResult(trials[0].number, 1.0, quantities={"errors": 0, "cpu": 1}, costs={"web": 2.0})]
        )
    told = [
        TrialResult(trial.number, value, quantities={"errors": errors, "cpu": cpu})
        for trial, value, errors, cpu in zip(
            trials, (1.0, 9.0, 2.0, 5.0), (0.03, 0.0, 0.02, 0.01), (1.0, 1.0, 1.0, 2.0), strict=True
        )
    ]
    for result, best in zip(told, (1, 2, 2, 4), strict=True):
        here.external.tell(study, [result])
        assert here.tailor.store.get(study).best == best
    with pytest.raises(IllegalTransition, match="told before"):
        here.external.tell(study, [TrialResult(told[0].trial, 1.0, quantities={"errors": 0.0, "cpu": 1.0})])
    here.external.leave(study)
    here.external.ask(study, 1, "me", 60.0)
    assert "replay diverged" not in {event["kind"] for event in here.tailor.store.events(study)}
    for wrong in ({"subject_to": ["errors"]}, {"also": ["value"]}):
        with pytest.raises(InputError):
            here.external.create("ours", SPACE, "tailor", 20, 1, {}, **wrong)


def test_what_groups_took_reaches_the_optimizer(here: Place) -> None:
    """Two optimizers with equal values and different costs ask for different configurations."""
    space = {
        "parameters": [
            {"name": f"{group}.{name}", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0, "group": group}
            for group in ("web", "db")
            for name in ("threads", "cache")
        ]
    }
    asked = []
    for sign in (1.0, -1.0):
        study = here.external.create("ours", space, "tailor", 30, 1, {}).id
        for _ in range(12):
            [trial] = here.external.ask(study, 1, "me", 60.0)
            x = float(trial.configuration["web.threads"])
            costs = {"web": 100.0 * math.exp(sign * x), "db": 30.0}
            here.external.tell(study, [TrialResult(trial.number, 10.0 + x, 0.5, costs=costs)])
        asked.append([trial.configuration for trial in here.tailor.store.trials(study)])
        assert all(trial.costs for trial in here.tailor.store.trials(study))
    assert asked[0] != asked[1]


def test_results_are_taken_all_or_none(here: Place) -> None:
    study = here.create("random")
    first, second = here.external.ask(study, 2, "me", 60.0)
    for wrong, error in (
        (TrialResult(99, 1.0), NotFound),
        (TrialResult(first.number, 2.0), IllegalTransition),
        (TrialResult(second.number, None), InputError),
    ):
        with pytest.raises(error):
            here.external.tell(study, [TrialResult(first.number, 1.0), wrong])
        assert {trial.state for trial in here.tailor.store.trials(study)} == {TrialState.RUNNING}
    here.external.tell(
        study, [TrialResult(first.number, 1.0), TrialResult(first.number, 1.0), TrialResult(second.number, 0.5)]
    )
    here.external.tell(study, [TrialResult(first.number, 1.0)])
    assert [trial.value for trial in here.tailor.store.trials(study)] == [1.0, 0.5]
    assert here.tailor.store.get(study).best == second.number


def test_the_optimizers_that_are_kept_are_bounded_and_others_are_brought_to_their_place(tmp_path: Path) -> None:
    place = Place(tmp_path)
    offers = place.external._offers
    kept = External(place.store, offers, VirtualClock(), lambda: MACHINE, kept_parameters=3)  # type: ignore[arg-type]  # as above
    studies = [place.create("dds") for _ in range(10)]
    for number in range(1, 5):
        for study in studies:
            [trial] = kept.ask(study, 1, "a", 60.0)
            assert trial.number == number
            kept.tell(study, [TrialResult(number, float(number))])
            assert len(kept._sessions) <= 3
    (tmp_path / "undisturbed").mkdir()
    undisturbed = Place(tmp_path / "undisturbed")
    other = undisturbed.create("dds")
    for number in range(1, 5):
        [trial] = undisturbed.external.ask(other, 1, "a", 60.0)
        undisturbed.external.tell(other, [TrialResult(number, float(number))])
    wanted = [trial.configuration for trial in undisturbed.store.trials(other)]  # type: ignore[operator]  # passed on
    for study in studies:
        assert [trial.configuration for trial in place.store.trials(study)] == wanted  # type: ignore[operator]
        assert "replay diverged" not in [event["kind"] for event in place.store.events(study)]  # type: ignore[operator]
    undisturbed.tailor.close()
    place.tailor.close()


def test_an_optimizer_that_is_asked_is_not_forgotten(tmp_path: Path) -> None:
    """Two optimizers of one study in a process would give the same configurations."""
    place = Place(tmp_path)
    kept = External(place.store, place.external._offers, VirtualClock(), lambda: MACHINE, kept_parameters=1)  # type: ignore[arg-type]
    studies = [place.create("random") for _ in range(6)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda study: kept.ask(study, 2, "a", 60.0), studies * 10))
    for place_in, study in enumerate(studies):
        numbers = sorted(trial.number for trials in answers[place_in::6] for trial in trials)
        assert numbers == list(range(1, 21))
        assert len({trial.configuration for trial in place.store.trials(study)}) == 20  # type: ignore[operator]
    place.tailor.close()
