"""A study that reduces its search space from the default's traces, on a pretend machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.bench import Bench
from framework.cli.terminal import notes
from framework.errors import InputError
from framework.model import StudyPlan, TrialState
from framework.report.page import page
from framework.report.summary import summarise
from framework.testing.pretend import larger_is_faster, pretend_types
from optimizer.base import Optimizer
from optimizer.trial import Observation
from tests.fakes import again, begun, pretend_bench
from tests.unit.test_procedure import PLAN, machine


def only_the_cache_matters(configuration: Mapping[str, Any]) -> float:
    """Parameters that are not tuned have their defaults."""
    return larger_is_faster({"cache.size": 10, "cache.policy": "a", **configuration})


def bench_of(directory: Path, **options: Any) -> Bench:
    options = {"answers": True, "noise": 0.02, **options}
    return pretend_bench(directory, machine(only_the_cache_matters, **options), idle=("idle", "spare"))


def plan(kind: str, **changes: Any) -> StudyPlan:
    return replace(PLAN, reduce=kind, optimizer="dds", **changes)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Observation]:
    """Everything that an optimizer is told."""
    recorded: list[Observation] = []
    original = Optimizer.tell

    def tell(self: Optimizer, observations: Any) -> None:
        listed = list(observations)
        recorded.extend(listed)
        original(self, listed)

    monkeypatch.setattr(Optimizer, "tell", tell)
    return recorded


def test_only_what_is_on_the_path_is_tuned_and_the_report_says_why(tmp_path: Path, told: list[Observation]) -> None:
    bench = bench_of(tmp_path)
    study, procedure = begun(bench, plan("critical-path"))
    finished = procedure.run()
    trials = list(bench.store.trials(study.id))
    assert set(trials[0].configuration) == {f"{s}.{p}" for s in ("cache", "idle", "spare") for p in ("size", "policy")}
    assert all(set(t.configuration) == {"cache.size", "cache.policy"} for t in trials if t.purpose == "search")
    assert all(set(observation.configuration) == {"cache.size", "cache.policy"} for observation in told)
    assert finished.verdict is not None
    summary = summarise(finished, trials, bench.application, pretend_types())
    assert summary.reduction is not None
    reduction = summary.reduction
    assert (reduction.kept, reduction.parameters, reduction.parameters_before) == (("cache",), 2, 6)
    assert {removal.reason for removal in reduction.removed} == {"it appears in no trace"}
    text = page(summary, trials)
    assert "1 of 3 services and 2 of 6 parameters" in text
    assert "it appears in no trace" in text
    assert {change.service for change in summary.changes} == {"cache"}


def test_a_resumed_study_keeps_its_reduction(tmp_path: Path) -> None:
    def stop(count: int) -> None:
        if count == 7:
            raise KeyboardInterrupt

    bench = bench_of(tmp_path, on_deploy=stop)
    _, procedure = begun(bench, plan("critical-path"))
    with pytest.raises(KeyboardInterrupt):
        procedure.run()
    before = bench.store.get("s1").decisions.reduction
    bench = replace(bench, testbed=replace_machine(bench))
    again(bench).run()
    assert bench.store.get("s1").decisions.reduction == before
    searched = [t for t in bench.store.trials("s1") if t.purpose == "search" and t.state is TrialState.COMPLETED]
    assert len(searched) == 6
    assert not [event for event in bench.store.events("s1") if event["kind"] == "replay diverged"]


def replace_machine(bench: Bench) -> Any:
    bench.testbed.on_deploy = lambda count: None  # type: ignore[attr-defined]
    return bench.testbed


def test_soft_removes_nothing_and_tells_priors_with_every_trial(tmp_path: Path, told: list[Observation]) -> None:
    bench = bench_of(tmp_path)
    study, procedure = begun(bench, plan("soft"))
    finished = procedure.run()
    assert all(
        observation.priors == {"cache": 1.0, "idle": 0.05, "spare": 0.05}
        for observation in told
        if observation.value is not None
    )
    assert len(told[0].configuration) == 6
    trials = list(bench.store.trials(study.id))
    for optimizer, unused in (("dds", False), ("bo-gp", True), ("not installed", False)):
        asked = replace(finished, plan=replace(finished.plan, optimizer=optimizer))
        summary = summarise(asked, trials, bench.application, pretend_types())
        assert summary.unused_priors is unused
        assert any("takes no priors" in note for note in notes(summary)) is unused


def test_known_bottlenecks(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    study, procedure = begun(bench, plan("bottlenecks", bottlenecks=("idle",)))
    procedure.run()
    searched = [t for t in bench.store.trials(study.id) if t.purpose == "search"]
    assert all(set(t.configuration) == {"idle.size", "idle.policy"} for t in searched)


def test_a_cut_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    _, procedure = begun(bench, plan("critical-path", thresholds={"path_ms": 1e6}))
    with pytest.raises(InputError, match="would leave nothing to tune"):
        procedure.run()


def test_without_a_reduction_no_priors_are_told(tmp_path: Path, told: list[Observation]) -> None:
    bench = bench_of(tmp_path)
    study, procedure = begun(bench, plan("none"))
    finished = procedure.run()
    assert all(observation.priors == {} for observation in told)
    summary = summarise(finished, list(bench.store.trials(study.id)), bench.application, pretend_types())
    assert summary.reduction is None
    assert {subset.kept for subset in summary.subsets} == {("cache",)}


def test_traces_that_no_service_joins_do_not_reduce_a_space(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, answers=False)
    study, procedure = begun(bench, plan("critical-path"))
    with pytest.raises(InputError, match=r"in 0% of the default's traces.*tracing\.propagation"):
        procedure.run()
    (default, *_) = bench.store.trials(study.id)
    assert {window.joined for window in default.measurements} == {0.0}
    assert all(any("critical path is not known" in text for text in window.warnings) for window in default.measurements)


def test_a_share_of_joined_traces_is_kept_with_the_window(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    study, procedure = begun(bench, plan("none"))
    procedure.run()
    assert {window.joined for trial in bench.store.trials(study.id) for window in trial.measurements} == {1.0}
