"""Results from elsewhere: another day, an edited space, a file; as ratios to the default, told and then tried."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from framework.bench import Bench
from framework.config.results_file import load_results
from framework.config.space import search_space
from framework.errors import FileError, InputError
from framework.model import Objective, Study, StudyId, StudyPlan, StudyState, Term
from framework.model.decisions import ImportedResults, StudyDecisions
from framework.study.observations import imported_observations, left_out
from framework.study.procedure import Procedure
from framework.study.warm_start import history
from framework.testing.clock import VirtualClock
from framework.testing.pretend import MACHINE, PretendMachine, larger_is_faster
from optimizer.errors import NotOfThisSpace
from optimizer.space import Condition, Parameter, SearchSpace
from optimizer.transfer import ELSEWHERE, Known, carried, observed
from tests.fakes import pretend_bench

PLAN = StudyPlan(
    "app", "random", {}, iterations=8, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=6,
    drift_every=0,
)  # fmt: skip
SPACE = SearchSpace(
    [
        Parameter("a.x", "integer", 4, low=1, high=32),
        Parameter("a.y", "integer", 1, low=1, high=9, condition=Condition("a.x", low=5)),
        Parameter("b.z", "boolean", False),
    ]
)


def test_a_configuration_is_carried_into_another_space() -> None:
    default = {"a.x": 4, "old": 7}
    assert carried(SPACE, {"a.x": 8, "old": 7}, default) == SPACE.default().replace({"a.x": 8})
    assert carried(SPACE, {"a.x": 2, "a.y": 5}, default) == SPACE.default().replace({"a.x": 2}), "a.y means nothing"
    with pytest.raises(NotOfThisSpace, match="old is not tuned here"):
        carried(SPACE, {"a.x": 8, "old": 6}, default)
    with pytest.raises(NotOfThisSpace, match=r"a\.x: a value that is not allowed"):
        carried(SPACE, {"a.x": 64}, default)


def test_a_known_result_is_a_ratio_with_the_doubt_of_another_day() -> None:
    told = observed(SPACE.default(), Known({}, math.log(0.5), 0.05), 20.0)
    assert told.value == pytest.approx(10.0)
    assert told.standard_error == pytest.approx(10.0 * math.hypot(0.05, ELSEWHERE))
    assert told.ask is None


def run(
    directory: Path,
    plan: StudyPlan,
    name: str,
    bench: Bench | None = None,
    known: tuple[ImportedResults, ...] = (),
) -> tuple[Bench, Study]:
    bench = bench or pretend_bench(directory, PretendMachine(VirtualClock(), larger_is_faster))
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    study = Study(name, "now", StudyState.CREATED, plan, "0", space.to_dict(), MACHINE, {}, "pretend")
    study = replace(study, decisions=StudyDecisions(history=known))
    bench.store.create(study)
    return bench, Procedure(bench, study, space).run()


def test_a_study_starts_from_what_another_one_knows(tmp_path: Path) -> None:
    bench, first = run(tmp_path, PLAN, "s1")
    trials = {t.number: t for t in bench.store.trials("s1")}
    assert first.best is not None
    best = trials[first.best]
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    known = history([StudyId("s1")], Objective(), space, bench.store)
    assert left_out(known, space)[0] == 9
    plan = replace(PLAN, optimizer="dds", iterations=3, seed=2)
    told = imported_observations(known, space, 100.0)
    assert len(told) == 8
    assert min(observation.value for observation in told if observation.value) < 100.0
    _, second = run(tmp_path, plan, "s2", bench, known)
    searched = [t for t in bench.store.trials("s2") if t.purpose == "search"]
    assert len(searched) == 3
    assert searched[0].label == "known"
    assert searched[0].configuration == best.configuration
    assert searched[0].ask is None
    tried_before = {t.configuration for t in trials.values() if t.purpose == "search"}
    assert not tried_before & {t.configuration for t in searched[1:]}
    assert second.best is not None


def test_a_resumed_study_does_not_try_the_known_again(tmp_path: Path) -> None:
    bench, _ = run(tmp_path, PLAN, "s1")
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    known = history([StudyId("s1")], Objective(), space, bench.store)
    plan = replace(PLAN, optimizer="dds", iterations=4, seed=2)
    run(tmp_path, plan, "whole", bench, known)
    expected = [t.configuration for t in bench.store.trials("whole") if t.purpose == "search"]

    class Killed(BaseException):
        pass

    def kill(count: int) -> None:
        if count == before + 7:
            raise Killed

    pretend = bench.testbed
    assert isinstance(pretend, PretendMachine)
    before = len(pretend.deployed)
    pretend.on_deploy = kill
    with pytest.raises(Killed):
        run(tmp_path, plan, "again", bench, known)
    pretend.on_deploy = lambda count: None
    Procedure(bench, bench.store.get("again"), space).run()
    finished = [t.configuration for t in bench.store.trials("again") if t.purpose == "search" and t.value is not None]
    assert finished == expected


def test_values_are_of_the_objective_that_is_asked_for(tmp_path: Path) -> None:
    bench, _ = run(tmp_path, PLAN, "s1")
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    [of_p95] = history([StudyId("s1")], Objective(), space, bench.store)
    [of_both] = history([StudyId("s1")], Objective((Term("p95"), Term("mean"))), space, bench.store)
    assert len(of_p95.results) == len(of_both.results) == 9
    assert of_p95.results != of_both.results
    with pytest.raises(InputError, match="no default with a value"):
        history([StudyId("s1")], Objective((Term("p99.9"),)), space, bench.store)


RESULTS = """kind: results
version: 1
default: 20.0
results:
  - {values: {cache.size: 50}, value: 10.0, standard_error: 0.5}
  - {values: {cache.size: 5000}, value: 5.0}
"""


def test_a_file_of_results(tmp_path: Path) -> None:
    path = tmp_path / "results.yaml"
    path.write_text(RESULTS)
    default, known = load_results(path)
    assert default == {}
    assert known[0] == Known({"cache.size": 50}, math.log(0.5), 0.05)
    bench = pretend_bench(tmp_path, PretendMachine(VirtualClock(), larger_is_faster))
    space = search_space(bench.application, bench.types, cores=2, memory_mib=4096)
    results = history([path], Objective(), space, bench.store)
    usable, reasons = left_out(results, space)
    assert usable == 1
    assert dict(reasons) == {"cache.size: a value that is not allowed here": 1}
    path.write_text(RESULTS.replace("cache.size: 50}", "cache.size: 500}"))
    with pytest.raises(InputError, match=r"2 times cache\.size: a value that is not allowed here"):
        history([path], Objective(), space, bench.store)
    path.write_text(RESULTS.replace("20.0", "0"))
    with pytest.raises(FileError, match="default"):
        load_results(path)
