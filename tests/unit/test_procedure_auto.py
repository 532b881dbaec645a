"""A search that stops by itself: when, with which numbers, and that a resumed study keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bench import Bench
from framework.config.space import search_space
from framework.errors import InputError
from framework.model import Study, StudyPlan, StudyState, TuneRequest
from framework.model.decisions import SearchEnd
from framework.model.events import GainExpected, SearchStopped
from framework.model.plan_document import plan_document
from framework.report.page import page
from framework.report.summary import summarise
from framework.study.planning import check_request, study_plan
from framework.study.procedure import Procedure
from framework.study.search_model import LEAST_TRIALS, WORTH
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from optimizer.space import Configuration
from tests.fakes import pretend_bench

MOST = 40
PLAN = StudyPlan(
    "app", "random", {}, iterations=MOST, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=2,
    drift_every=0, auto=True,
)  # fmt: skip


def flat(configuration: Configuration) -> float:
    """Nothing matters."""
    return 10.0


def started(bench: Bench, plan: StudyPlan = PLAN) -> Procedure:
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    bench.store.create(Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend"))
    return resumed(bench)


def resumed(bench: Bench) -> Procedure:
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    return Procedure(bench, bench.store.get("s1"), space)


def noisy(where: Path, scale: Callable[[Any], float] = larger_is_faster, watch: list[Any] | None = None) -> Bench:
    bench = pretend_bench(where, PretendMachine(VirtualClock(), scale, noise=0.1))
    return bench if watch is None else replace(bench, watch=watch.append)


def searched(bench: Bench) -> int:
    return sum(trial.purpose == "search" for trial in bench.store.trials("s1"))


def test_it_stops_where_there_is_nothing_to_gain(tmp_path: Path) -> None:
    seen: list[Any] = []
    bench = noisy(tmp_path, flat, seen)
    finished = started(bench).run()
    end = finished.decisions.ended
    assert end is not None
    assert LEAST_TRIALS <= end.trials == searched(bench) < MOST
    assert end.gain < WORTH * end.noise
    assert [event for event in seen if isinstance(event, SearchStopped)] == [SearchStopped(end)]
    asked = [event for event in seen if isinstance(event, GainExpected)]
    assert (asked[-1].gain, asked[-1].noise) == (end.gain, end.noise)
    assert any(event.get("why") == "gain" and event["trials"] == end.trials for event in bench.store.events("s1"))
    assert plan_document(finished)["extra"]["ended"]["trials"] == end.trials
    summary = summarise(finished, bench.store.trials("s1"), bench.application, bench.types)
    said = re.sub(r"\s+", " ", page(summary, bench.store.trials("s1")))
    assert f"the search stopped after {end.trials} configurations: another trial" in said


def test_a_number_of_configurations_is_kept_and_the_gain_said(tmp_path: Path) -> None:
    seen: list[Any] = []
    bench = noisy(tmp_path, flat, seen)
    finished = started(bench, replace(PLAN, auto=False, iterations=25)).run()
    assert finished.decisions.ended is None
    assert searched(bench) == 25
    assert sum(isinstance(event, GainExpected) for event in seen) > 10


def test_a_resumed_study_stops_where_it_would_have_stopped(tmp_path: Path) -> None:
    """Interrupted after its last trial, before it decided: it asks again, of what is recorded."""
    bench = noisy(tmp_path, flat)
    decided = started(bench).run().decisions
    assert decided.ended is not None
    bench.store.set_decisions("s1", replace(decided, ended=None))
    assert resumed(bench).run().decisions.ended == decided.ended
    assert searched(bench) == decided.ended.trials


def test_a_stopped_search_is_not_taken_up_again(tmp_path: Path) -> None:
    bench = noisy(tmp_path, flat)
    started(bench)
    study = bench.store.get("s1")
    bench.store.set_decisions("s1", replace(study.decisions, ended=SearchEnd(0, 0.001, 0.05)))
    resumed(bench).run()
    assert searched(bench) == 0


def test_the_plan_says_the_most_and_that_it_may_end_before(tmp_path: Path) -> None:
    bench = noisy(tmp_path)
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    plan = study_plan(TuneRequest(tmp_path, iterations="auto"), bench.application, space)
    assert (plan.iterations, plan.auto) == (50, True)
    assert not study_plan(TuneRequest(tmp_path, iterations=50), bench.application, space).auto


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"iterations": "many"}, "iterations: found 'many'; allowed: a number, or auto"),
        ({"iterations": "auto", "also": ("cpu",)}, "iterations auto: judges the gain of one objective"),
    ],
)
def test_what_cannot_stop_by_itself_is_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        check_request(TuneRequest(tmp_path, **given), noisy(tmp_path).application)
