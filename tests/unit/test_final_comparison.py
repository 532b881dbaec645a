"""A recommendation is made smaller where fresh runs show that less is enough, and only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bench import Bench
from framework.config.space import search_space
from framework.model import Study, StudyPlan, StudyState, Trial
from framework.model.decisions import ExpectedChange, SmallRecommendation
from framework.report.arms import fresh
from framework.report.page import page
from framework.report.summary import Summary, summarise
from framework.study.procedure import Procedure
from framework.study.verdict import FULL, SMALL
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from optimizer.analysis.changes import RISK, RISKS
from optimizer.space import SearchSpace, Value
from tests.fakes import pretend_bench

NO_RISKS: Mapping[str, str] = {}
IDLE = ("mail", "queue", "search")
PLAN = StudyPlan(
    "app", "random", {}, iterations=24, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=10,
    drift_every=0, minimal=2,
)  # fmt: skip


def space_of(bench: Bench, risks: Mapping[str, str]) -> SearchSpace:
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    parameters = (
        replace(p, attributes={RISK: RISKS.index(risks[p.name])}) if p.name in risks else p for p in space.parameters
    )
    return SearchSpace(parameters, space.constraints)


def begun(
    directory: Path, scale: Callable[[Any], float], plan: StudyPlan = PLAN, risks: Mapping[str, str] = NO_RISKS
) -> tuple[Bench, Procedure]:
    bench = pretend_bench(directory, PretendMachine(VirtualClock(), scale, noise=0.01), idle=IDLE)
    space = space_of(bench, risks)
    study = Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend")
    bench.store.create(study)
    return bench, Procedure(bench, study, space)


def changed(bench: Bench, number: int | None) -> set[str]:
    """Return the services whose parameters a trial changes."""
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    trial = next(t for t in bench.store.trials("s1") if t.number == number)
    return {name.partition(".")[0] for name, value in trial.configuration.items() if value != space.default()[name]}


def summary(bench: Bench, study: Study) -> Summary:
    return summarise(study, bench.store.trials("s1"), bench.application, bench.types)


def test_services_that_do_not_matter_go_back_to_their_defaults(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, larger_is_faster)
    finished = procedure.run()
    trials = list(bench.store.trials("s1"))
    best = next(t for t in trials if t.number == finished.best)
    assert best.purpose == "minimal"
    assert changed(bench, finished.best) == {"cache"}
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    assert finished.verdict.pairs == 10
    assert finished.rivals[SMALL].no_worse == "no worse"
    assert finished.rivals[f"default to {SMALL}"].statement == "improvement"
    assert finished.rivals[f"default to {FULL}"].statement == "improvement"
    assert finished.rivals[f"{FULL} to {SMALL}"].no_worse == "no worse"
    verdict = [t for t in trials if t.purpose == "verdict"]
    assert len(verdict) == 50
    assert {t.pair for t in verdict if t.configuration == best.configuration} == set(range(10, 20))
    shown = summary(bench, finished)
    assert shown.smaller is not None
    assert "made smaller: " in shown.smaller
    assert {change.service for change in shown.changes} == {"cache"}
    assert "made smaller" in page(shown, trials)


def test_a_quick_study_takes_what_the_model_misses(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1, quick=True, pairs=6))
    finished = procedure.run()
    trials = list(bench.store.trials("s1"))
    best = next(t for t in trials if t.number == finished.best)
    assert (best.purpose, best.label) == ("verdict", SMALL)
    small = finished.decisions.small
    assert small is not None
    assert small.changes[0].names == ("cache.size",)
    assert small.changes[0].log_ratio < -0.3
    assert best.configuration == small.values
    assert len([t for t in trials if t.purpose == "verdict"]) == 18
    assert finished.verdict is not None
    assert finished.verdict.gain.value == pytest.approx(0.45, abs=0.05)
    assert not [t for t in trials if t.purpose == "minimal"]
    measured = {t.label: t.configuration for t in fresh(trials, best)}
    assert measured["best"] == best.configuration
    assert measured[FULL] == small.full
    assert "made smaller" in page(summary(bench, finished), trials)


def test_what_is_needed_stays(tmp_path: Path) -> None:
    def every(configuration: Any) -> float:
        return 5.0 + sum(50.0 / int(configuration[f"{name}.size"]) for name in ("cache", *IDLE))

    bench, procedure = begun(tmp_path, every)
    finished = procedure.run()
    assert changed(bench, finished.best) == {"cache", *IDLE}
    assert summary(bench, finished).smaller is not None


def decided(bench: Bench, full: Mapping[str, Value], changes: Sequence[ExpectedChange]) -> tuple[Study, Trial]:
    """Run a study that has decided on a small recommendation already; return it with the trial of its best."""
    default = space_of(bench, {}).default()
    values = {name: change.value for change in changes for name in change.names}
    small = SmallRecommendation({**default, **values}, {**default, **values, **full}, tuple(changes))
    created = bench.store.get("s1")
    bench.store.set_decisions("s1", replace(created.decisions, small=small))
    finished = Procedure(bench, bench.store.get("s1"), space_of(bench, {})).run()
    return finished, next(t for t in bench.store.trials("s1") if t.number == finished.best)


def changed_values(bench: Bench, trial: Trial) -> dict[str, Value]:
    default = space_of(bench, {}).default()
    return {name: value for name, value in trial.configuration.items() if value != default[name]}


def test_the_full_recommendation_stays_where_the_model_misses_the_wrong_changes(tmp_path: Path) -> None:
    bench, _ = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1))
    finished, best = decided(bench, {"cache.size": 80}, [ExpectedChange(("queue.size",), 40, -0.5, 0.1)])
    assert changed_values(bench, best) == {"cache.size": 80, "queue.size": 40}
    assert finished.rivals[SMALL].statement == "improvement"
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    shown = summary(bench, finished)
    assert "not as good" in str(shown.smaller)
    assert {t.pair for t in fresh(bench.store.trials("s1"), best)} == set(range(10, 20)), "chosen by the others"


def test_a_risky_change_stays_where_it_shows_a_gain_of_its_own(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1), {"cache.size": "data"})
    finished = procedure.run()
    assert "cache" in changed(bench, finished.best)
    assert finished.rivals["without cache.size"].statement == "improvement"
    labels = {t.label for t in bench.store.trials("s1") if t.purpose == "verdict"}
    assert labels == {"default", "best", SMALL, "without cache.size"}


@pytest.mark.parametrize("refused", [1, 2])
def test_a_risky_change_that_shows_no_gain_goes_back(tmp_path: Path, refused: int) -> None:
    """Where a single change goes back, the rest was measured beside it; else the rest is compared on new pairs."""
    bench, _ = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1))
    risky = [
        ExpectedChange(("cache.policy",), "b", -0.1, 0.1, "data"),
        ExpectedChange(("queue.size",), 60, -0.1, 0.1, "memory"),
    ]
    finished, best = decided(
        bench, {"mail.size": 30}, [ExpectedChange(("cache.size",), 80, -0.5, 0.1), *risky[:refused]]
    )
    assert changed_values(bench, best) == {"cache.size": 80}
    assert best.label == ("without cache.policy" if refused == 1 else "best")
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    assert finished.rivals["without cache.policy"].statement == "no improvement shown"
    pairs = range(10) if refused == 1 else range(10, 20)
    measured = [t for t in fresh(bench.store.trials("s1"), best) if t.label == "best"]
    assert {t.pair for t in measured} == set(pairs)
    assert {t.configuration for t in measured} == {best.configuration}
    assert finished.rivals[f"default to {FULL}"].statement == "improvement"


def test_where_nothing_but_a_refused_risk_is_left_the_default_is_recommended(tmp_path: Path) -> None:
    bench, _ = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1))
    finished, best = decided(bench, {}, [ExpectedChange(("cache.policy",), "b", -0.1, 0.1, "data")])
    assert (best.purpose, finished.verdict) == ("default", None)
    assert "No improvement shown" in summary(bench, finished).headline


def test_a_quick_study_leaves_risky_changes_out(tmp_path: Path) -> None:
    """It has no time to show the gain of each."""
    risks = {"cache.size": "data"}
    bench, procedure = begun(tmp_path, larger_is_faster, replace(PLAN, minimal=1, quick=True), risks)
    finished = procedure.run()
    best = next(t for t in bench.store.trials("s1") if t.number == finished.best)
    assert best.configuration["cache.size"] == 10
    assert finished.verdict is None or finished.verdict.statement != "improvement"


def test_a_study_of_an_older_tailor_goes_on_with_the_arms_that_it_began(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, larger_is_faster)
    procedure.run()
    old = bench.store.get("s1")
    bench.store.set_decisions("s1", replace(old.decisions, small=None))
    before = len(bench.store.trials("s1"))
    Procedure(bench, bench.store.get("s1"), space_of(bench, {})).run()
    again = bench.store.get("s1")
    assert again.decisions.small is None
    assert {t.label for t in list(bench.store.trials("s1"))[before:]} <= {"default", "best"}


def test_without_an_improvement_nothing_is_made_smaller(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, lambda configuration: 10.0, replace(PLAN, iterations=6))
    procedure.run()
    assert not [t for t in bench.store.trials("s1") if t.purpose == "minimal"]


@pytest.mark.parametrize("stop_at", [60, 80, 105])
def test_a_killed_study_gives_the_same_smaller_recommendation(tmp_path: Path, stop_at: int) -> None:
    (tmp_path / "whole").mkdir()
    whole, procedure = begun(tmp_path / "whole", larger_is_faster)
    expected = procedure.run()

    class Killed(BaseException):
        pass

    def kill(count: int) -> None:
        if count == stop_at:
            raise Killed

    bench, procedure = begun(tmp_path, larger_is_faster)
    assert isinstance(bench.testbed, PretendMachine)
    bench.testbed.on_deploy = kill
    with pytest.raises(Killed):
        procedure.run()
    bench.testbed.on_deploy = lambda count: None
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    finished = Procedure(bench, bench.store.get("s1"), space).run()
    assert changed(bench, finished.best) == changed(whole, expected.best)
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
