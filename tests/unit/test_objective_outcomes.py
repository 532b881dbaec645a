"""Limits on the outcome and further objectives, from the text that a person writes to the trial that is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bench import Bench
from framework.config.outcomes import outcome_constraint
from framework.config.space import search_space
from framework.errors import InputError
from framework.model import Objective, OutcomeConstraint, Study, StudyPlan, StudyState, Trial, TrialState
from framework.objective import best_of, constraints, keeps, others
from framework.report.page import page
from framework.report.summary import Summary, summarise
from framework.study.objective import planned
from framework.study.procedure import Procedure
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from optimizer.space import Configuration
from tests.fakes import pretend_bench

PLAN = StudyPlan(
    "app", "random", {}, iterations=12, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=6,
    drift_every=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99 <= 40", OutcomeConstraint("p99", "at most", 40.0)),
        (" median>=1.5 ", OutcomeConstraint("p50", "at least", 1.5)),
        ("errors <= 0", OutcomeConstraint("errors", "at most", 0.0)),
    ],
)
def test_limits_are_read_from_text(text: str, expected: OutcomeConstraint) -> None:
    assert outcome_constraint(text) == expected
    assert outcome_constraint(str(expected)) == expected


@pytest.mark.parametrize("text", ["p99 < 40", "p99 <= 40ms", "p99", "p100 <= 1", "memory <= 3", "p99 <= -1", ""])
def test_other_text_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InputError, match="allowed: a quantity, <= or >=, and a number"):
        outcome_constraint(text)


def test_the_excess_is_a_fraction_of_the_limit() -> None:
    assert OutcomeConstraint("p99", "at most", 40.0).excess(50.0) == pytest.approx(0.25)
    assert OutcomeConstraint("throughput", "at least", 100.0).excess(90.0) == pytest.approx(0.1)
    assert OutcomeConstraint("errors", "at most", 0.0).excess(0.01) == pytest.approx(0.01)


def cores(configuration: Mapping[str, Any]) -> float:
    """Return the cores that the pretend cache uses: more for a larger size."""
    return float(configuration["cache.size"]) / 100


def run(directory: Path, plan: StudyPlan) -> tuple[Bench, Study, Summary]:
    machine = PretendMachine(VirtualClock(), larger_is_faster, cores=cores)
    bench = pretend_bench(directory, machine)
    bench = replace(bench, application=planned(bench.application, plan))
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    study = Study("s1", "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend")
    bench.store.create(study)
    finished = Procedure(bench, study, space).run()
    return bench, finished, summarise(finished, bench.store.trials("s1"), bench.application, bench.types)


def test_the_best_keeps_the_limit_though_others_are_faster(tmp_path: Path) -> None:
    bench, finished, summary = run(tmp_path, replace(PLAN, subject_to=("cpu <= 0.4",)))
    trials = {t.number: t for t in bench.store.trials("s1")}
    objective = bench.application.objective
    assert finished.best is not None
    best = trials[finished.best]
    assert cores(best.configuration) <= 0.4
    searched = [t for t in trials.values() if t.purpose == "search"]
    assert any(t.value < best.value and not keeps(t, objective) for t in searched if t.value and best.value)
    [outcome] = summary.outcomes
    assert (outcome.limit, outcome.kept) == ("cpu <= 0.4", True)
    assert outcome.default == pytest.approx(0.1)
    assert "cpu &lt;= 0.4" in page(summary, list(trials.values()))


def test_two_objectives_give_a_pareto_set(tmp_path: Path) -> None:
    bench, _, summary = run(tmp_path, replace(PLAN, also=("cpu",), optimizer="tailor"))
    assert len(summary.front) >= 3
    values = [(member.value, member.others[0]) for member in summary.front]
    assert values == sorted(values)
    assert [cost for _, cost in values] == sorted((cost for _, cost in values), reverse=True)
    assert "Pareto" in page(summary, list(bench.store.trials("s1")))


def _trial(number: int, value: float | None, p99: float) -> Trial:
    from framework.model import Estimate, Measurement

    measurement = Measurement(
        0, 0, (), (), value, {"p99": Estimate(p99, p99, p99, 1)}, 1, 0, 1.0, 1.0, 0.0, 1.0, None, 0, None, None, {}, {},
        (), {}, {},
    )  # fmt: skip
    state = TrialState.COMPLETED if value is not None else TrialState.FAILED
    return Trial(
        "s", number, "search", Configuration({"a": number}), state, value=value, told_value=value,
        measurements=(measurement,),
    )  # fmt: skip


def test_where_nothing_keeps_the_limits_the_best_breaks_them_least() -> None:
    objective = Objective(subject_to=(OutcomeConstraint("p99", "at most", 10.0),), also=("p99",))
    fast, slow, broken = _trial(1, 1.0, 30.0), _trial(2, 5.0, 12.0), _trial(3, 0.5, math.inf)
    assert best_of([fast, slow, broken], objective) is slow
    assert best_of([fast, _trial(4, 9.0, 10.0)], objective).number == 4  # type: ignore[union-attr]
    assert best_of([_trial(5, None, 1.0)], objective) is None
    assert constraints(broken, objective) == {"p99 <= 10": 100.0}
    assert others(broken, objective) == {}
    assert others(fast, objective) == {"p99": pytest.approx(30.0)}
