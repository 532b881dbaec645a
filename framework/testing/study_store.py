"""Contract kit of study stores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framework.errors import IllegalTransition, NotFound, StoreError
from framework.model import Offer, StudyState, Trial, TrialState, Verdict
from framework.model.decisions import ModelledPoint, SpaceEdit, StudyDecisions
from framework.model.events import ReplayDiverged, WarmupLengthened
from framework.ports.store import OfferStore, StudyStore
from framework.testing.examples import INFINITE, PLAN, begin, measurement, study
from optimizer.space import Configuration


class StudyStoreContract:
    """Tests of a study store.  Fixtures: ``store``, with ``examples.study()`` only; ``offers``, of one database."""

    def test_a_finished_trial_comes_back_as_it_was(self, store: StudyStore) -> None:
        trial = begin(store)
        store.add_measurement(trial.study, trial.number, measurement())
        finished = store.finish_trial(replace(trial, state=TrialState.COMPLETED, value=12.5, images={"cache": "x@y"}))
        [read] = store.trials(trial.study)
        assert replace(read, measurements=()) == finished
        assert read.configuration == trial.configuration
        assert isinstance(read.configuration["cache.on"], bool)
        [stored] = read.measurements
        assert stored == measurement()
        assert stored.quantities["p95"].high == float("inf")
        np.testing.assert_array_equal(stored.latencies_ms, measurement().latencies_ms)

    def test_a_trial_is_offered_from_its_beginning_to_its_end(self, store: StudyStore, offers: OfferStore) -> None:
        """Begin and end are one transaction each: a trial that a killed process leaves has a lease, or has ended."""
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

    def test_several_trials_end_in_one_transaction(self, store: StudyStore) -> None:
        wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
        first, second, third = store.begin_trials([wanted] * 3)
        ended = [
            replace(second, state=TrialState.COMPLETED, value=2.0),
            replace(first, state=TrialState.FAILED, reason="why"),
        ]
        with pytest.raises(NotFound):
            store.finish_trials([*ended, replace(third, number=9, state=TrialState.FAILED)])
        assert {trial.state for trial in store.trials(study().id)} == {TrialState.RUNNING}
        store.finish_trials(ended, best=second.number)
        trials = store.trials(study().id)
        assert [(trial.state, trial.value, trial.reason) for trial in trials] == [
            (TrialState.FAILED, None, "why"),
            (TrialState.COMPLETED, 2.0, ""),
            (TrialState.RUNNING, None, ""),
        ]
        events = [(event["kind"], event["number"]) for event in store.events(study().id)]
        assert events == [
            ("trial begins", 1),
            ("trial begins", 2),
            ("trial begins", 3),
            ("trial ends", 2),
            ("trial ends", 1),
        ]
        with pytest.raises(IllegalTransition):
            store.finish_trials([replace(third, state=TrialState.FAILED), ended[0]])
        assert store.trial(study().id, third.number).state is TrialState.RUNNING

    def test_clients_measure_only_for_a_study_that_runs(self, store: StudyStore) -> None:
        """A study that another process has stopped takes no more trials and values."""
        wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
        with pytest.raises(IllegalTransition):
            store.begin_trials([wanted], [Offer("a", 0)])
        store.set_state(study().id, StudyState.RUNNING)
        [begun] = store.begin_trials([wanted], [Offer("a", 0)])
        store.set_state(study().id, StudyState.COMPLETED)
        with pytest.raises(IllegalTransition):
            store.finish_trials([replace(begun, state=TrialState.COMPLETED, value=1.0)], offered=True)
        assert [trial.state for trial in store.trials(study().id)] == [TrialState.RUNNING]

    def test_state_of_a_study_and_whether_trials_wait(self, store: StudyStore, offers: OfferStore) -> None:
        store.set_state(study().id, StudyState.RUNNING)
        assert offers.status(study().id) == (StudyState.RUNNING, False)
        wanted = Trial(study().id, 0, "search", Configuration({"cache.size": 3}), TrialState.RUNNING)
        store.begin_trials([wanted], [Offer("a", 2**62)])
        assert offers.status(study().id) == (StudyState.RUNNING, False)
        store.begin_trials([wanted], [Offer("a", 0)])
        assert offers.status(study().id) == (StudyState.RUNNING, True)
        assert offers.take_over(study().id, "b", 5, 60.0) == [2]
        assert offers.take_over(study().id, "b", 5, 60.0) == []
        with pytest.raises(NotFound):
            offers.status("20260101")

    def test_trials_are_numbered_and_counted_per_study(self, store: StudyStore) -> None:
        store.create(study("20260101-000001-bb"))
        assert [begin(store).number, begin(store).number] == [1, 2]
        assert [store.trial_count(name) for name in (study().id, "20260101-000001-bb")] == [2, 0]

    @pytest.mark.parametrize(
        "state", [TrialState.COMPLETED, TrialState.FAILED, TrialState.ABORTED, TrialState.INFEASIBLE]
    )
    def test_a_finished_trial_stays_finished(self, store: StudyStore, state: TrialState) -> None:
        trial = store.finish_trial(replace(begin(store), state=state))
        with pytest.raises(IllegalTransition):
            store.finish_trial(replace(trial, state=TrialState.COMPLETED))

    def test_a_trial_does_not_finish_as_running(self, store: StudyStore) -> None:
        with pytest.raises(IllegalTransition):
            store.finish_trial(begin(store))

    def test_study_life_cycle(self, store: StudyStore) -> None:
        name = study().id
        with pytest.raises(IllegalTransition):
            store.set_state(name, StudyState.COMPLETED)
        store.set_state(name, StudyState.RUNNING)
        store.set_state(name, StudyState.PAUSED, "why")
        assert store.get(name).message == "why"
        with pytest.raises(IllegalTransition):
            store.set_state(name, StudyState.COMPLETED)

    def test_a_study_is_found_by_an_unambiguous_beginning(self, store: StudyStore) -> None:
        assert store.get("20260101").id == study().id
        store.create(study("20260101-000001-bb"))
        with pytest.raises(NotFound, match="2 studies"):
            store.get("20260101")
        with pytest.raises(NotFound, match="no study"):
            store.get("%")
        with pytest.raises(StoreError):
            store.create(study())

    def test_verdict_decisions_and_best(self, store: StudyStore) -> None:
        verdict = Verdict("improvement", 10, INFINITE, 0.01, INFINITE, INFINITE, "no worse", INFINITE)
        store.set_verdict(study().id, verdict, {"expert": verdict})
        edited = StudyDecisions(edits=(SpaceEdit(3, {"cache.size": 1}),))
        store.set_space(study().id, {"parameters": []}, edited)
        assert store.get(study().id).space == {"parameters": []}
        assert store.get(study().id).decisions == edited
        store.set_decisions(study().id, replace(edited, iterations=7, prior=(ModelledPoint({}, float("inf")),)))
        store.set_best(study().id, 2)
        read = store.get(study().id)
        assert (read.verdict, read.rivals["expert"], read.best) == (verdict, verdict, 2)
        assert (read.plan, read.decisions.edits, read.decisions.iterations) == (PLAN, edited.edits, 7)
        assert read.decisions.prior == (ModelledPoint({}, float("inf")),)

    def test_a_page_has_the_studies_of_an_application_or_of_an_external_name(self, store: StudyStore) -> None:
        plans = {"1": "/somewhere/shop", "2": "shop", "3": "/somewhere/workshop", "4": "/shop/other"}
        for number, application in plans.items():
            store.create(replace(study(f"20260102-00000{number}-cc"), plan=replace(PLAN, application=application)))
        of_shop = store.page(10, application="shop")
        assert [kept.id[-4] for kept in of_shop] == ["2", "1"], "the newest first"

    def test_events_are_replayed_from_an_id(self, store: StudyStore) -> None:
        first = store.add_event(study().id, ReplayDiverged(3))
        store.add_event(study().id, WarmupLengthened(float("inf")))
        assert [event["kind"] for event in store.events(study().id)] == ["replay diverged", "plan changed"]
        assert [event["warmup_s"] for event in store.events(study().id, after=first)] == ["inf"]

    def test_unknown_names_are_not_found(self, store: StudyStore) -> None:
        for change in (
            lambda: store.get("nothing"),
            lambda: store.set_best("nothing", 1),
            lambda: store.set_state("nothing", StudyState.RUNNING),
            lambda: store.finish_trial(Trial("nothing", 1, "search", Configuration({}), TrialState.FAILED)),
        ):
            with pytest.raises(NotFound):
                change()
