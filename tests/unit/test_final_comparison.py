"""A recommendation is made smaller where fresh runs show that less is enough, and only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bench import Bench
from framework.config.space import search_space
from framework.model import Study, StudyPlan, StudyState
from framework.report.page import page
from framework.report.summary import Summary, summarise
from framework.study.procedure import Procedure
from framework.study.verdict import FULL
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from tests.fakes import pretend_bench

IDLE = ("mail", "queue", "search")
PLAN = StudyPlan(
    "app", "random", {}, iterations=24, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=10,
    drift_every=0, minimal=2,
)  # fmt: skip


def begun(directory: Path, scale: Callable[[Any], float], plan: StudyPlan = PLAN) -> tuple[Bench, Procedure]:
    bench = pretend_bench(directory, PretendMachine(VirtualClock(), scale, noise=0.01), idle=IDLE)
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
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
    assert finished.rivals[FULL].no_worse == "no worse"
    assert finished.rivals[f"default to {FULL}"].statement == "improvement"
    verdict = [t for t in trials if t.purpose == "verdict"]
    assert len(verdict) == 40
    assert {t.pair for t in verdict if t.configuration == best.configuration} == set(range(10, 20))
    shown = summary(bench, finished)
    assert shown.smaller is not None
    assert "made smaller: " in shown.smaller
    assert {change.service for change in shown.changes} == {"cache"}
    assert "made smaller" in page(shown, trials)


def test_what_is_needed_stays(tmp_path: Path) -> None:
    """Every service matters: the model finds nothing that can go, or the measurement refuses it."""

    def every(configuration: Any) -> float:
        return 5.0 + sum(50.0 / int(configuration[f"{name}.size"]) for name in ("cache", *IDLE))

    bench, procedure = begun(tmp_path, every)
    finished = procedure.run()
    best = next(t for t in bench.store.trials("s1") if t.number == finished.best)
    assert best.purpose == "search"
    assert FULL not in finished.rivals
    assert summary(bench, finished).smaller is not None


def test_without_an_improvement_nothing_is_made_smaller(tmp_path: Path) -> None:
    bench, procedure = begun(tmp_path, lambda configuration: 10.0, replace(PLAN, iterations=6))
    procedure.run()
    assert not [t for t in bench.store.trials("s1") if t.purpose == "minimal"]


@pytest.mark.parametrize("stop_at", [80, 105])
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
