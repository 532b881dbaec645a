"""A study on several testbeds: what it compares, what it loses, and how it goes on."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.controller import Controller
from framework.errors import DeploymentFailed, Interrupted, TestbedUnavailable, TrialFailed
from framework.model import Trial, TrialState
from framework.model.decisions import SpaceEdit
from framework.model.events import TrialStarted
from framework.model.study import TrialSpec
from framework.objective.trial import baseline_weights, on_reference
from framework.study.crew import Threads
from framework.study.new_optimizer import new_optimizer
from framework.study.observations import observation
from framework.study.side_by_side import FURTHER, SideBySide
from framework.testing.crew import VirtualCrew
from framework.testing.examples import measurement
from framework.testing.pretend import PretendMachine
from optimizer.space import Configuration, SearchSpace
from tests.several_testbeds import PLAN, Site, site

SPEEDS = {"a": 1.0, "b": 1.5, "c": 0.7}
BO = replace(PLAN, optimizer="bo-gp", iterations=10)


class Killed(BaseException):
    """The end of the process, which nothing handles."""


def finished(trials: Sequence[Trial], *purposes: str) -> list[Trial]:
    return [t for t in trials if t.purpose in purposes and t.state is not TrialState.ABORTED]


def check_asks(one: Site) -> None:
    """Replay the recorded asks and tells by hand: every ask was what the optimizer suggests from what it knew."""
    study, trials = one.bench.store.get("s1"), one.bench.store.trials("s1")
    space = SearchSpace.from_dict(study.space)
    objective = one.bench.application.objective
    optimizer = new_optimizer(study.effective_plan, study.decisions, space)
    default = next(t for t in trials if t.purpose == "default" and t.value is not None)
    optimizer.tell([observation(default, default.configuration, space, objective, guided=False)])
    searched = [t for t in trials if t.purpose == "search"]
    results = {t.ask: t for t in searched if t.state is not TrialState.ABORTED}
    assert len(results) == len(finished(trials, "search")), "no ask was measured twice"
    told: set[int] = set()
    asks = sorted({t.ask for t in searched if t.ask is not None})
    assert asks == list(range(len(asks)))
    for ask in asks:
        of_ask = [t for t in searched if t.ask == ask]
        assert len({(t.configuration, t.pending_asks) for t in of_ask}) == 1
        new = [results[a] for a in range(ask) if a not in of_ask[0].pending_asks and a not in told]
        for trial in sorted(new, key=lambda t: t.number):
            optimizer.tell([observation(trial, trial.configuration, space, objective, guided=False)])
            told.add(trial.ask or 0)
        [suggestion] = optimizer.ask()
        assert suggestion.configuration == of_ask[0].configuration, ask
    assert not [e for e in one.bench.store.events("s1") if e["kind"] == "replay diverged"]


def test_every_testbed_measures_the_default_first_and_all_work_at_the_same_time(tmp_path: Path) -> None:
    one = site(tmp_path, speeds=SPEEDS, noise=0.02)
    done = one.procedure().run()
    trials = one.bench.store.trials("s1")
    for name in PLAN.testbeds:
        own = [t for t in trials if t.testbed == name]
        assert own[0].purpose == ("default" if name == "a" else "drift")
        assert own[0].label == "default"
        assert {"search", "verdict"} <= {t.purpose for t in own}
    assert len(finished(trials, "search")) == PLAN.iterations
    assert done.verdict is not None
    assert done.verdict.statement == "improvement"
    assert {t.pending_asks for t in trials if t.ask == 2} == {(0, 1)}
    alone = site(tmp_path / "alone", replace(PLAN, testbeds=("a",)), noise=0.02)
    began = alone.clock.ns
    alone.procedure().run()
    assert one.clock.ns - began < 0.5 * (alone.clock.ns - began)
    check_asks(one)


def test_values_are_ratios_to_the_default_of_the_own_testbed(tmp_path: Path) -> None:
    one = site(tmp_path, replace(PLAN, drift_every=0), speeds={"a": 1.0, "b": 3.0, "c": 0.2})
    best = one.procedure().run().best
    trials = one.bench.store.trials("s1")
    default = trials[0].value
    assert default is not None
    for trial in finished(trials, "search", "confirm"):
        size = trial.configuration["cache.size"]
        assert isinstance(size, int)
        truth = 5.0 + 50.0 / size * (1.5 if trial.configuration["cache.policy"] == "c" else 1.0)
        assert trial.told_value == pytest.approx(default * truth / 10.0, rel=0.1), "whatever the machine's speed"
    lowest = min(finished(trials, "search"), key=lambda t: t.told_value or math.inf)
    assert trials[(best or 0) - 1].configuration["cache.size"] == lowest.configuration["cache.size"]


def test_the_error_of_a_value_has_that_of_its_baseline() -> None:
    def trial(number: int, values: Sequence[float]) -> Trial:
        windows = tuple(replace(measurement(), value=value, invalid=()) for value in values)
        return Trial("s", number, "search", Configuration({}), TrialState.COMPLETED, value=values[0], told_value=8.0,
                     standard_error=0.1 / math.sqrt(len(values)), measurements=windows)  # fmt: skip

    moved = on_reference(trial(5, [8.0, 8.0]), [trial(1, [10.0, 10.0, 10.0, 10.0])], 20.0)
    assert moved.told_value == pytest.approx(16.0)
    assert moved.standard_error == pytest.approx(0.1 * math.sqrt(1 / 2 + 1 / 4))
    between = on_reference(trial(5, [8.0]), [trial(4, [10.0]), trial(6, [10.0])], 20.0)
    assert between.standard_error == pytest.approx(0.1 * math.sqrt(1 + 2 * 0.25))
    negative = on_reference(replace(trial(5, [1.0]), told_value=-8.0), [replace(trial(1, [1.0]), value=-4.0)], -2.0)
    assert negative.told_value == pytest.approx(-4.0)
    mixed = on_reference(replace(trial(5, [1.0]), told_value=3.0), [replace(trial(1, [1.0]), value=-1.0)], 2.0)
    assert mixed.told_value == pytest.approx(6.0)


@given(st.lists(st.integers(0, 50), min_size=1, unique=True), st.integers(-5, 60))
def test_weights_of_baselines_are_an_average(positions: list[int], at: int) -> None:
    weights = baseline_weights(at, sorted(positions))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert all(0 <= weight <= 1 for weight in weights.values())


def test_pairs_of_the_verdict_never_span_two_testbeds(tmp_path: Path) -> None:
    one = site(tmp_path, replace(PLAN, minimal=2), speeds=SPEEDS, noise=0.01)
    one.procedure().run()
    verdict = finished(one.bench.store.trials("s1"), "verdict", "minimal")
    pairs = {(t.purpose, t.pair) for t in verdict}
    for purpose, pair in pairs:
        assert len({t.testbed for t in verdict if (t.purpose, t.pair) == (purpose, pair)}) == 1
    counts = [len({t.pair for t in verdict if t.testbed == name}) for name in PLAN.testbeds]
    assert max(counts) - min(counts) <= 2, "all testbeds have their part of the pairs"


def test_a_lost_testbed_loses_no_trial(tmp_path: Path) -> None:
    def away(count: int) -> None:
        if count >= 5:  # in its second trial of the search
            raise TestbedUnavailable("no route")

    one = site(tmp_path, replace(PLAN, drift_every=0), noise=0.02)
    one.machines["b"].on_deploy = away
    done = one.procedure().run()
    trials = one.bench.store.trials("s1")
    assert done.verdict is not None
    assert {t.ask for t in finished(trials, "search")} == set(range(PLAN.iterations))
    aborted = [t for t in trials if t.state is TrialState.ABORTED]
    assert {t.testbed for t in aborted} == {"b"}
    [lost] = [e for e in one.bench.store.events("s1") if e["kind"] == "testbed lost"]
    assert (lost["testbed"], lost["reason"]) == ("b", "no route")
    assert max(t.number for t in trials if t.testbed == "b") == aborted[-1].number
    again = {t.testbed for t in finished(trials, "search") if t.ask == aborted[-1].ask}
    assert again
    assert again <= {"a", "c"}
    check_asks(one)


@pytest.mark.parametrize("lost", ["a", "b", "c"])
@pytest.mark.parametrize("after", [0, 1, 7, 13, 18, 19])
def test_a_testbed_may_be_lost_at_any_time(tmp_path: Path, lost: str, after: int) -> None:
    def away(count: int) -> None:
        if count >= after:
            raise TestbedUnavailable("no route")

    one = site(tmp_path, replace(PLAN, minimal=1), speeds=SPEEDS, noise=0.02)
    one.machines[lost].on_deploy = away
    assert one.procedure().run().verdict is not None
    trials = one.bench.store.trials("s1")
    assert {t.ask for t in finished(trials, "search")} == set(range(PLAN.iterations))
    verdict = finished(trials, "verdict")
    for pair in {t.pair for t in verdict}:
        last = [t.testbed for t in verdict if t.pair == pair][-1]
        assert {t.label for t in verdict if t.pair == pair and t.testbed == last} >= {"default", "best"}


def test_the_last_testbed_that_is_lost_pauses_the_study(tmp_path: Path) -> None:
    def away(count: int) -> None:
        if count >= 5:
            raise TestbedUnavailable("no route")

    one = site(tmp_path, noise=0.02)
    for machine in one.machines.values():
        machine.on_deploy = away
    with pytest.raises(TestbedUnavailable):
        one.procedure().run()
    for machine in one.machines.values():
        machine.on_deploy = lambda count: None
    assert one.procedure().run().verdict is not None
    assert {t.ask for t in finished(one.bench.store.trials("s1"), "search")} == set(range(PLAN.iterations))
    check_asks(one)


def test_a_testbed_that_cannot_measure_the_default_is_left_out(tmp_path: Path) -> None:
    def breaks(count: int) -> None:
        raise DeploymentFailed("exited with code 1", "cache", "no such image")

    one = site(tmp_path, noise=0.02)
    one.machines["c"].on_deploy = breaks
    assert one.procedure().run().verdict is not None
    assert len([t for t in one.bench.store.trials("s1") if t.testbed == "c"]) == 1
    one = site(tmp_path / "reference", noise=0.02)
    one.machines["a"].on_deploy = breaks
    with pytest.raises(TrialFailed, match="no such image"):
        one.procedure().run()


@pytest.mark.parametrize("stop_at", range(1, 18, 2))
@pytest.mark.parametrize("where", ["a", "c"])
def test_a_killed_study_asks_the_same_again(tmp_path: Path, stop_at: int, where: str) -> None:
    def kill(count: int) -> None:
        if count == stop_at:
            raise Killed

    one = site(tmp_path, BO, speeds=SPEEDS, noise=0.02)
    one.machines[where].on_deploy = kill
    with pytest.raises(Killed):
        one.procedure().run()
    before = {t.ask: (t.configuration, t.pending_asks) for t in one.bench.store.trials("s1") if t.ask is not None}
    ended = [t for t in one.bench.store.trials("s1") if t.state is TrialState.COMPLETED]
    one.machines[where].on_deploy = lambda count: None
    done = one.procedure().run()
    trials = one.bench.store.trials("s1")
    assert done.verdict is not None
    after = {t.ask: (t.configuration, t.pending_asks) for t in finished(trials, "search")}
    assert before.items() <= after.items()
    assert set(after) == set(range(BO.iterations))
    assert [t for t in trials if t.number in {e.number for e in ended}] == ended, "what was finished stays"
    assert len(finished(trials, "default")) == 1
    check_asks(one)


@settings(max_examples=12, deadline=None)
@given(slow=st.permutations([0.0, 3.0, 11.0]))
def test_what_is_recorded_follows_from_the_asks_and_not_from_who_ends_first(
    tmp_path_factory: pytest.TempPathFactory, slow: list[float]
) -> None:
    """Every trial's value and error follow from its testbed's own trials and from those known when it began."""
    one = site(tmp_path_factory.mktemp("s"), replace(PLAN, pairs=0), noise=0.0)
    for (_, machine), seconds in zip(one.machines.items(), slow, strict=True):
        machine.on_deploy = partial(slowly, machine, seconds)
    one.procedure().run()
    trials = one.bench.store.trials("s1")
    by_ask = {t.ask: t for t in finished(trials, "search")}
    assert set(by_ask) == set(range(PLAN.iterations))
    check_asks(one)
    for trial in by_ask.values():  # random search: asks depend on nothing
        assert trial.configuration == CONFIGURATIONS.setdefault(trial.ask, trial.configuration)


def slowly(machine: PretendMachine, seconds: float, count: int) -> None:
    machine.clock.sleep(seconds)


def swapping(scale: Callable[[Any], float], configuration: Mapping[str, Any]) -> float:
    return scale(configuration) * (4.0 if configuration["cache.size"] > 60 else 1.0)


CONFIGURATIONS: dict[int | None, Configuration] = {}


def test_finalists_are_measured_on_further_testbeds_and_all_of_it_counts(tmp_path: Path) -> None:
    """The best of one machine is bad on the next: its large caches swap there."""
    one = site(tmp_path, replace(PLAN, iterations=15, pairs=0), noise=0.0)
    for name, machine in one.machines.items():
        plain = machine.scale
        if name != "a":
            machine.scale = partial(swapping, plain)
    done = one.procedure().run()
    trials = one.bench.store.trials("s1")
    confirmed = finished(trials, "confirm")
    for configuration in {t.configuration for t in confirmed}:
        places = [t.testbed for t in confirmed if t.configuration == configuration]
        searched = [t.testbed for t in finished(trials, "search") if t.configuration == configuration]
        assert len(places) == len(set(places)) == min(FURTHER, 2)
        assert not set(places) & set(searched)
    best = next(t for t in trials if t.number == done.best)
    lowest = min(finished(trials, "search"), key=lambda t: t.told_value or math.inf)
    assert swapping(lambda c: 1.0, best.configuration) == 1.0
    assert best.configuration != lowest.configuration or swapping(lambda c: 1.0, lowest.configuration) == 1.0


def test_a_time_limit_counts_all_testbeds(tmp_path: Path) -> None:
    counts = []
    for testbeds in (("a",), ("a", "b", "c")):
        one = site(tmp_path / str(len(testbeds)), replace(PLAN, iterations=90, time_limit_s=1800.0, testbeds=testbeds))
        one.procedure().run()
        counts.append(one.bench.store.get("s1").effective_plan.iterations)
    assert counts[1] >= 2.5 * counts[0]


def test_an_interrupt_stops_all_testbeds_at_their_next_step(tmp_path: Path) -> None:
    """With threads: one testbed's watch is interrupted while another one is in the middle of a trial."""
    one = site(tmp_path, replace(PLAN, testbeds=("a", "b")), noise=0.02)
    inside = threading.Event()

    def wait(count: int) -> None:
        if count == 4:
            inside.wait(10)

    def stops(event: object) -> None:
        started = getattr(event, "event", None)
        if isinstance(started, TrialStarted) and started.purpose == "search" and started.number >= 5:
            inside.set()
            raise Interrupted("somebody stopped it")

    one.machines["b"].on_deploy = wait
    bench = replace(one.bench, watch=stops)
    study = bench.store.get("s1")
    with pytest.raises(Interrupted):
        SideBySide(bench, study, SearchSpace.from_dict(study.space), Threads()).run()
    assert not [t for t in threading.enumerate() if t.name.startswith("testbed ")]
    states = {t.state for t in bench.store.trials("s1")}
    assert states <= {TrialState.COMPLETED, TrialState.ABORTED, TrialState.RUNNING}
    assert states - {TrialState.COMPLETED}, "the interrupted trials were not told"
    assert one.procedure().run().verdict is not None
    check_asks(one)


def test_threads_hand_over_results_and_errors() -> None:
    crew, seen = Threads(), []
    crew.start("a", lambda: seen.append("a"))
    assert crew.wait() == ("a", None)

    def fails() -> None:
        raise Interrupted("stop")

    crew.start("b", fails)
    name, error = crew.wait()
    assert (name, type(error), seen) == ("b", Interrupted, ["a"])
    crew.start("a", lambda: seen.append("again"))
    crew.close()
    assert seen == ["a", "again"]


def test_an_edited_study_tells_each_result_once(tmp_path: Path) -> None:
    def kill(count: int) -> None:
        if count == 8:
            raise Killed

    one = site(tmp_path, noise=0.02)
    one.machines["a"].on_deploy = kill
    with pytest.raises(Killed):
        one.procedure().run()
    one.machines["a"].on_deploy = lambda count: None
    study = one.bench.store.get("s1")
    before = SearchSpace.from_dict(study.space)
    space = SearchSpace([p for p in before.tuned if p.name != "cache.policy"], before.constraints)
    last = one.bench.store.trials("s1")[-1].number
    one.bench.store.set_space(
        "s1", space.to_dict(), study.decisions.edited(SpaceEdit(last, before.default().to_dict(), (), ()))
    )
    procedure = SideBySide(one.bench, one.bench.store.get("s1"), space, VirtualCrew(one.clock, one.clocks))
    told: list[int] = []
    observe = procedure._observations

    def noted(trial: Trial) -> Any:
        told.append(trial.number)
        return observe(trial)

    procedure._observations = noted  # type: ignore[method-assign]
    optimizer = procedure._optimizer()
    procedure._tell(optimizer)
    assert len(told) == len(set(told))
    searched = {t.number for t in finished(one.bench.store.trials("s1"), "search")}
    assert searched <= set(told)


def test_a_default_that_failed_later_does_not_replace_the_one_that_has_a_value(tmp_path: Path) -> None:
    one = site(tmp_path, noise=0.02)
    one.procedure().run()
    [default] = finished(one.bench.store.trials("s1"), "default")
    again = one.bench.store.begin_trial(replace(default, number=0, state=TrialState.RUNNING, value=None))
    one.bench.store.finish_trial(replace(again, state=TrialState.FAILED, reason="exited with code 1"))
    latest = one.procedure()._latest_default()
    assert (latest.number, latest.value) == (default.number, default.value)


def test_a_trial_that_is_stopped_as_it_begins_does_not_stay_running(tmp_path: Path) -> None:
    one = site(tmp_path, noise=0.02)

    def stops(event: object) -> None:
        if isinstance(event, TrialStarted):
            raise Interrupted("the study stops")

    controller = Controller(replace(one.bench, watch=stops), "s1", PLAN)
    with pytest.raises(Interrupted):
        controller.begin(TrialSpec(Configuration({}), "search", 1))
    assert [t.state for t in one.bench.store.trials("s1")] == [TrialState.ABORTED]
