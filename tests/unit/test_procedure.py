"""The order of a study, on a pretend machine: everything above the adapters is real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.errors import DeploymentFailed, TestbedUnavailable, TrialFailed
from framework.model import StudyPlan, Trial, TrialState
from framework.report.summary import summarise
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine, larger_is_faster
from tests.fakes import again, begun, pretend_bench

PLAN = StudyPlan(
    "app", "random", {}, iterations=6, repetitions=2, warmup_s=2.0, window_s=20.0, rate_rps=100.0, seed=1, pairs=6,
    drift_every=3,
)  # fmt: skip


def machine(scale: Callable[[Any], float] = larger_is_faster, **options: Any) -> PretendMachine:
    return PretendMachine(VirtualClock(), scale, **options)


def purposes(trials: list[Trial]) -> list[str]:
    return [t.purpose for t in trials if t.state is not TrialState.ABORTED]


def test_a_study_measures_the_default_first_and_ends_with_fresh_pairs(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    study, procedure = begun(bench, PLAN)
    finished = procedure.run()
    trials = list(bench.store.trials(study.id))
    order = purposes(trials)
    assert order[0] == "default"
    assert order.count("search") == 6
    assert order.count("drift") == 2
    assert order[-12:] == ["verdict"] * 12
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    assert finished.verdict.pairs == 6
    best = next(t for t in trials if t.number == finished.best)
    assert best.purpose == "search"
    assert all(len(t.measurements) == (1 if t.purpose == "verdict" else 2) for t in trials if t.value is not None)


def test_trials_are_read_from_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole study with the latencies of every request takes long to read."""
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    study, procedure = begun(bench, PLAN)
    read: list[str] = []
    trials = bench.store.trials

    def counted(study: str) -> Sequence[Trial]:
        read.append(study)
        return trials(study)

    monkeypatch.setattr(bench.store, "trials", counted)
    procedure.run()
    assert read == []
    assert [t.number for t in procedure._trials.all()] == [t.number for t in trials(study.id)]
    for kept, stored in zip(procedure._trials.all(), trials(study.id), strict=True):
        assert (kept.value, kept.told_value, kept.standard_error, kept.state, kept.measurements) == (
            stored.value, stored.told_value, stored.standard_error, stored.state, stored.measurements,
        )  # fmt: skip


def test_the_verdict_pairs_share_arrivals_and_differ_in_order(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    study, procedure = begun(bench, PLAN)
    procedure.run()
    verdict = [t for t in bench.store.trials(study.id) if t.purpose == "verdict"]
    firsts = {t.pair: t.label for t in reversed(verdict)}
    assert set(firsts) == set(range(6))
    assert set(firsts.values()) == {"default", "best"}


def test_where_nothing_is_better_there_is_no_claim_and_no_pair(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(scale=lambda c: 10.0 + abs(int(c["cache.size"]) - 10)))
    study, procedure = begun(bench, PLAN)
    assert procedure.run().verdict is None
    assert "verdict" not in purposes(list(bench.store.trials(study.id)))


def test_failed_trials_do_not_end_a_study(tmp_path: Path) -> None:
    def breaks(count: int) -> None:
        if count in (5, 6):
            raise DeploymentFailed("exited with code 1", "cache", "out of memory")

    bench = pretend_bench(tmp_path, machine(on_deploy=breaks))
    study, procedure = begun(bench, PLAN)
    finished = procedure.run()
    failed = [t for t in bench.store.trials(study.id) if t.state is TrialState.FAILED]
    assert failed
    assert all("out of memory" in t.reason for t in failed)
    assert finished.best is not None


def test_a_default_that_cannot_be_measured_ends_the_study_until_it_can(tmp_path: Path) -> None:
    broken = [True]

    def breaks(count: int) -> None:
        if broken:
            raise DeploymentFailed("exited with code 1", "cache", "bad flag")

    bench = pretend_bench(tmp_path, machine(on_deploy=breaks))
    _, procedure = begun(bench, PLAN)
    with pytest.raises(TrialFailed, match="bad flag"):
        procedure.run()
    broken.clear()
    assert again(bench).run().verdict is not None
    assert purposes(list(bench.store.trials("s1")))[:3] == ["default", "default", "search"]


def test_an_engine_that_goes_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    pretend = machine()
    gone = iter([True, True, False])

    def away(count: int) -> None:
        if count == 4 and next(gone, False):
            raise TestbedUnavailable("no answer")

    pretend.on_deploy = away
    bench = pretend_bench(tmp_path, pretend)
    study, procedure = begun(bench, PLAN)
    procedure.run()
    aborted = [t for t in bench.store.trials(study.id) if t.state is TrialState.ABORTED]
    assert len(aborted) == 2


def test_a_trial_that_failed_by_the_testbed_s_own_fault_is_measured_again_and_blames_nobody(tmp_path: Path) -> None:
    pretend = machine()
    faults = {4: "a node was lost"}

    def breaks(count: int) -> None:
        pretend.fault = faults.pop(count, "")
        if pretend.fault or count == 9:
            raise DeploymentFailed("exited with code 1", "cache", "connection lost")

    pretend.on_deploy = breaks
    bench = pretend_bench(tmp_path, pretend)
    study, procedure = begun(bench, PLAN)
    procedure.run()
    trials = bench.store.trials(study.id)
    [aborted] = [t for t in trials if t.state is TrialState.ABORTED]
    assert "a node was lost" in aborted.reason
    failed = [t for t in trials if t.state is TrialState.FAILED]
    assert failed
    assert all("connection lost" in t.reason for t in failed)
    after = trials[trials.index(aborted) + 1]
    assert (after.configuration, after.state) == (aborted.configuration, TrialState.COMPLETED)


@pytest.mark.parametrize("stop_at", [1, 9, 20])
def test_a_killed_study_goes_on_as_if_nothing_had_happened(tmp_path: Path, stop_at: int) -> None:
    """The interrupted study tries the same configurations and measures nothing finished again."""
    (tmp_path / "whole").mkdir()
    whole = pretend_bench(tmp_path / "whole", machine())
    begun(whole, PLAN)[1].run()
    expected = [t.configuration for t in whole.store.trials("s1") if t.purpose in ("search", "verdict")]

    class Killed(BaseException):
        pass

    def kill(count: int) -> None:
        if count == stop_at:
            raise Killed

    pretend = machine(on_deploy=kill)
    bench = pretend_bench(tmp_path, pretend)
    with pytest.raises(Killed):
        begun(bench, PLAN)[1].run()
    pretend.on_deploy = lambda count: None
    finished = again(bench).run()
    trials = [t for t in bench.store.trials("s1") if t.state is not TrialState.ABORTED]
    assert [t.configuration for t in trials if t.purpose in ("search", "verdict")] == expected
    assert purposes(trials).count("default") == 1
    assert purposes(trials).count("drift") == 2
    assert finished.best is not None
    assert not [e for e in bench.store.events("s1") if e["kind"] == "replay diverged"]


def test_an_invalid_repetition_is_measured_again_and_kept_with_its_reason(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(invalid_once={1}))
    study, procedure = begun(bench, PLAN)
    procedure.run()
    default = bench.store.trials(study.id)[0]
    assert [bool(m.invalid) for m in default.measurements] == [True, False, False]
    assert "lag" in " ".join(default.measurements[0].invalid)
    assert default.state is TrialState.COMPLETED


def test_a_repetition_that_stays_invalid_leaves_the_trial_without_a_value(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(invalid_once={5, 6, 7}))
    study, procedure = begun(bench, replace(PLAN, drift_every=0))
    procedure.run()
    [failed] = [t for t in bench.store.trials(study.id) if t.state is TrialState.FAILED]
    assert failed.value is None
    assert "3 attempts" in failed.reason


def test_a_clear_loser_is_not_repeated(tmp_path: Path) -> None:
    scale = lambda c: 100.0 if c["cache.size"] != 10 else 10.0  # noqa: E731  # a one-line landscape
    bench = pretend_bench(tmp_path, machine(scale=scale))
    study, procedure = begun(bench, PLAN)
    procedure.run()
    searched = [t for t in bench.store.trials(study.id) if t.purpose == "search"]
    assert all(len(t.measurements) == 1 for t in searched if t.configuration["cache.size"] != 10)


def test_a_target_stops_the_search_once_confirmed(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine())
    study, procedure = begun(bench, replace(PLAN, iterations=40, target_ms=20.0))
    procedure.run()
    trials = list(bench.store.trials(study.id))
    assert "confirm" in purposes(trials)
    assert purposes(trials).count("search") < 40


def test_a_time_limit_becomes_a_number_of_configurations(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine())
    study, procedure = begun(bench, replace(PLAN, iterations=100, time_limit_s=1200.0))
    procedure.run()
    recorded = bench.store.get(study.id)
    assert recorded.plan.iterations == 100, "the plan stays as it was asked for"
    assert recorded.effective_plan.iterations == recorded.decisions.iterations
    assert recorded.effective_plan.iterations < 100
    assert bench.clock.now_ns() - VirtualClock().now_ns() < 1.3 * 1200e9


def test_rivals_are_compared_in_the_same_pairs(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    study, procedure = begun(bench, replace(PLAN, rivals={"expert": {"cache.size": 9}}))
    finished = procedure.run()
    assert set(finished.rivals) == {"expert", "default to expert"}
    labels = {t.label for t in bench.store.trials(study.id) if t.purpose == "verdict"}
    assert labels == {"default", "best", "expert"}


def test_without_a_search_named_configurations_are_compared_with_the_default(tmp_path: Path) -> None:
    bench = pretend_bench(tmp_path, machine(noise=0.02))
    rivals = {"expert": {"cache.size": 20}, "other": {"cache.size": 40}}
    study, procedure = begun(bench, replace(PLAN, optimizer="dds", iterations=0, rivals=rivals))
    finished = procedure.run()
    trials = bench.store.trials(study.id)
    assert [t.label for t in trials if t.purpose != "verdict"] == ["default"]
    assert sorted(t.label for t in trials if t.purpose == "verdict") == sorted(["default", "expert", "other"] * 6)
    assert finished.verdict is None
    assert set(finished.rivals) == {"default to expert", "default to other"}
    assert finished.rivals["default to other"].gain.value > finished.rivals["default to expert"].gain.value > 0.1
    assert "Nothing was searched" in summarise(finished, trials, bench.application, bench.types).headline


def test_every_optimizer_runs_a_study(tmp_path: Path) -> None:
    for name in ("random", "dds", "dds-grow", "bo-gp"):
        (tmp_path / name).mkdir()
        bench = pretend_bench(tmp_path / name, machine(noise=0.05))
        _, procedure = begun(bench, replace(PLAN, optimizer=name, pairs=2))
        assert procedure.run().best is not None
