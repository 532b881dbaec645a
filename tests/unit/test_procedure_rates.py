"""Studies of several request rates, on a pretend machine: everything above the adapters is real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framework.controller import SETTLE_S, window_order
from framework.errors import LoadFailed
from framework.model import (
    LoadPlan,
    LoadResult,
    Objective,
    OutcomeConstraint,
    Running,
    TrialState,
    Usage,
)
from framework.model.spans import SpanTable
from framework.ports.testbed import Progress
from framework.study.planning import expected_windows
from framework.testing.clock import VirtualClock
from tests.fakes import again
from tests.rated_machine import (
    NOISE,
    PLAN,
    RATES,
    RatedMachine,
    better_at_high_rates_only,
    better_everywhere,
    machine,
    own_ratio,
    start,
    summary_of,
    trials_of,
)


def test_each_deployment_is_measured_at_each_rate(tmp_path: Path) -> None:
    rated = machine(noise=0.02)
    bench, procedure = start(tmp_path, rated)
    finished = procedure.run()
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    by_deployment: dict[int, list[float]] = {}
    for deployment, rate in rated.driven:
        by_deployment.setdefault(deployment, []).append(rate)
    assert all(sorted(rates) == list(RATES) for rates in by_deployment.values())
    assert len({tuple(rates) for rates in by_deployment.values()}) > 2, "in a random order"
    trials = trials_of(bench)
    assert all(len(t.measurements) == (3 if t.purpose == "verdict" else 6) for t in trials if t.value is not None)
    assert sum(len(t.measurements) for t in trials) == len(rated.driven)
    if all(t.state is TrialState.COMPLETED for t in trials if t.purpose != "minimal"):
        assert len([m for t in trials if t.purpose != "minimal" for m in t.measurements]) <= expected_windows(PLAN)


def test_values_are_ratios_to_the_default_at_the_same_rate(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine(better_at_high_rates_only))
    procedure.run()
    [default] = trials_of(bench, "default")
    assert default.value == default.told_value == 1.0
    for trial in trials_of(bench, "search"):
        ratios = [own_ratio(better_at_high_rates_only, trial.configuration, rate) for rate in RATES]
        assert trial.value == pytest.approx(max(ratios), rel=NOISE)
        assert trial.told_value == pytest.approx(max(ratios), rel=NOISE)


def test_what_loses_at_one_rate_is_not_recommended_in_the_worst_case_and_may_be_in_the_mean(tmp_path: Path) -> None:
    for over in ("worst", "mean"):
        (tmp_path / over).mkdir()
        plan = replace(PLAN, over=over)
        bench, procedure = start(tmp_path / over, machine(better_at_high_rates_only, noise=0.01), plan)
        finished = procedure.run()
        best = next(t for t in trials_of(bench) if t.number == finished.best)
        if over == "worst":
            assert finished.verdict is None, "the default is the best"
            assert best.purpose == "default"
            continue
        assert finished.verdict is not None
        assert finished.verdict.statement == "improvement"
        assert finished.verdict.per_rate[0].statement == "worse"
        assert finished.verdict.per_rate[2].statement == "improvement"


def test_weights_move_the_mean(tmp_path: Path) -> None:
    plan = replace(PLAN, over="mean", weights=(10.0, 1.0, 1.0))
    bench, procedure = start(tmp_path, machine(better_at_high_rates_only), plan)
    procedure.run()
    for trial in trials_of(bench, "search"):
        logs = [np.log(own_ratio(better_at_high_rates_only, trial.configuration, rate)) for rate in RATES]
        assert trial.value == pytest.approx(np.exp(np.dot([10, 1, 1], logs) / 12), rel=NOISE)


def test_the_order_is_balanced_and_equal_for_every_configuration(tmp_path: Path) -> None:
    orders = [tuple(window_order(PLAN, seed)) for seed in range(3000)]
    for block in range(0, 3000, 3):
        assert {order[0] for order in orders[block : block + 3]} == set(RATES)
    counts = Counter(orders)
    assert len(counts) == 6
    assert min(counts.values()) > 400, "each order has its share"
    assert window_order(replace(PLAN, rates=()), 7) == [300.0]
    rated = machine()
    bench, procedure = start(tmp_path, rated)
    procedure.run()
    verdict = {t.number: [m.rate_rps for m in t.measurements] for t in trials_of(bench, "verdict")}
    for trial in trials_of(bench, "verdict"):
        same_pair = [verdict[t.number] for t in trials_of(bench, "verdict") if t.pair == trial.pair]
        assert all(order == verdict[trial.number] for order in same_pair)


def test_windows_are_apart_and_only_the_first_has_the_deployment_in_its_time(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine())
    procedure.run()
    first, second, third, *_ = trials_of(bench, "default")[0].measurements
    assert first.phases["start"] == 8.0
    assert "settle" not in first.phases
    for later in (second, third):
        assert later.phases["settle"] == SETTLE_S
        assert "start" not in later.phases


def test_a_disturbed_window_is_measured_again_alone(tmp_path: Path) -> None:
    rated = machine(late={2})
    bench, procedure = start(tmp_path, rated)
    procedure.run()
    [default] = trials_of(bench, "default")
    first = [m for m in default.measurements if m.repetition == 0]
    assert [bool(m.invalid) for m in first] == [False, True, False, False]
    assert first[3].attempt == 1
    assert first[3].rate_rps == first[1].rate_rps
    assert default.value == 1.0
    assert rated.driven[3][0] == 2, "on a deployment of its own"


@dataclass
class CountingMachine(RatedMachine):
    """Its service creates one span for each request and counts them from the start of its process."""

    created_here: dict[int, int] = field(default_factory=dict)  # number of the deployment -> spans

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        load = super().run(plan, running, usage, progress)
        number = len(self.deployed)
        self.created_here[number] = self.created_here.get(number, 0) + load.spans_created
        return load

    def created(self, running: Running) -> int | None:
        return self.created_here.get(len(self.deployed), 0)

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        roots = super().read(running, start_ns, end_ns, expected)
        count = len(roots)
        twice: dict[str, Any] = {
            name: np.concatenate([getattr(roots, name)] * 2)
            for name in ("trace", "follows", "operation", "peer", "host", "address", "kind", "error", "start_ns")
        }
        return replace(
            roots,
            **twice,
            strings=[*roots.strings, "cache"],
            span_id=np.arange(1, 2 * count + 1, dtype=np.uint64),
            parent=np.concatenate([roots.parent, np.arange(count)]),
            service=np.concatenate([roots.service, np.full(count, 2, np.int32)]),
            end_ns=np.concatenate([roots.end_ns, roots.start_ns]),
        )


def test_spans_of_earlier_windows_are_not_counted_again(tmp_path: Path) -> None:
    rated = CountingMachine(VirtualClock(), lambda configuration: 1.0, noise=0.02)
    bench, procedure = start(tmp_path, rated, replace(PLAN, iterations=1, drift_every=0, pairs=0, minimal=0))
    procedure.run()
    windows = [m for t in trials_of(bench) for m in t.measurements]
    assert len(windows) == 12
    for window in windows:
        assert window.invalid == ()
        assert window.spans_created == window.spans_read == 2 * window.requests


def test_a_rate_that_is_never_valid_fails_the_trial_and_says_which(tmp_path: Path) -> None:
    rated = machine()
    original = rated.run

    def late_at_200(plan: LoadPlan, *more: Any) -> LoadResult:
        if plan.rate_rps == 200.0 and len(rated.deployed) > 2:
            rated.late.add(len(rated.driven) + 1)
        return original(plan, *more)

    rated.run = late_at_200  # type: ignore[method-assign, assignment]
    bench, procedure = start(tmp_path, rated, replace(PLAN, iterations=1, drift_every=0))
    procedure.run()
    [trial] = trials_of(bench, "search")
    assert trial.state is TrialState.FAILED
    assert "no valid repetition in 3 attempts: at 200 requests/s: " in trial.reason
    assert "at 100 requests/s" not in trial.reason


def test_saturation_at_one_rate_fails_the_trial_at_once(tmp_path: Path) -> None:
    def saturated(configuration: Mapping[str, Any], rate: float) -> bool:
        return rate == 300.0 and bool(configuration["cache.size"] != 10)

    rated = machine(fails=saturated)
    bench, procedure = start(tmp_path, rated)
    finished = procedure.run()
    assert finished.verdict is None
    for trial in trials_of(bench, "search"):
        assert trial.state is TrialState.INFEASIBLE
        assert trial.reason.startswith("at 300 requests/s: ")
        assert trial.measurements[-1].rate_rps == 300.0, "and no window after it"
        assert {m.repetition for m in trial.measurements} == {0}


def test_a_load_that_fails_fails_the_trial(tmp_path: Path) -> None:
    loads = iter(range(10_000))

    def breaks(rate: float) -> None:
        if next(loads) == 8:
            raise LoadFailed("ended")

    bench, procedure = start(tmp_path, machine(on_load=breaks))
    assert procedure.run().verdict is not None
    [failed] = [t for t in trials_of(bench) if t.state is TrialState.FAILED]
    assert failed.reason == "ended"


def test_a_clear_loser_is_not_repeated(tmp_path: Path) -> None:
    def far_worse(configuration: Mapping[str, Any], rate: float) -> float:
        return 100.0 if configuration["cache.size"] != 10 and rate == 200.0 else 10.0

    for over, repetitions in (("worst", 1), ("mean", 2)):
        (tmp_path / over).mkdir()
        bench, procedure = start(tmp_path / over, machine(far_worse), replace(PLAN, over=over))  # type: ignore[arg-type]
        procedure.run()
        for trial in trials_of(bench, "search"):
            if trial.configuration["cache.size"] != 10:
                assert len(trial.measurements) == 3 * repetitions, "10 times in the worst case, 2.2 times in the mean"
                assert trial.value == pytest.approx(10.0 if over == "worst" else 10 ** (1 / 3), rel=NOISE)


def test_limits_hold_at_every_rate(tmp_path: Path) -> None:
    """The mean over the rates would keep this limit; the highest rate does not."""
    limit = OutcomeConstraint("p50", "at most", 26.0)
    objective = Objective(subject_to=(limit,))
    plan = replace(PLAN, subject_to=("p50 <= 26",), iterations=12)
    bench, procedure = start(tmp_path, machine(noise=0.01), plan, objective=objective)
    finished = procedure.run()
    best = next(t for t in trials_of(bench) if t.number == finished.best)
    assert better_everywhere(best.configuration, 300.0) <= 26.0
    assert better_everywhere({"cache.size": 10}, 300.0) > 26.0
    [outcome] = summary_of(bench).outcomes
    assert outcome.default == pytest.approx(30.0, rel=0.05), "at the rate where it is exceeded most"
    assert outcome.kept


def test_drift_is_corrected_at_each_rate(tmp_path: Path) -> None:
    """From the fourth trial on the machine is slower, at the highest rate only."""
    rated = machine()

    def drifting(configuration: Mapping[str, Any], rate: float) -> float:
        slow = 4.0 if rate == 300.0 and len(rated.deployed) > 6 else 1.0
        return slow * better_everywhere(configuration, rate)

    rated.latency = drifting
    bench, procedure = start(tmp_path, rated, replace(PLAN, iterations=12, drift_every=2))
    procedure.run()
    late = trials_of(bench, "search")[-1]
    expected = max(own_ratio(better_everywhere, late.configuration, rate) for rate in RATES)
    assert late.told_value == pytest.approx(expected, rel=2 * NOISE)
    assert late.value is not None
    assert late.value > 1.3 * expected


@pytest.mark.parametrize("stop_at", [3, 22, 40, 61])
def test_a_killed_study_goes_on_where_it_was(tmp_path: Path, stop_at: int) -> None:
    (tmp_path / "whole").mkdir()
    whole, procedure = start(tmp_path / "whole", machine(noise=0.02))
    expected = procedure.run()

    class Killed(BaseException):
        pass

    loads = iter(range(10_000))

    def kill(rate: float) -> None:
        if next(loads) == stop_at:
            raise Killed

    rated = machine(noise=0.02, on_load=kill)
    bench, procedure = start(tmp_path, rated)
    with pytest.raises(Killed):
        procedure.run()
    rated.on_load = lambda rate: None
    finished = again(bench).run()
    assert finished.verdict is not None
    assert expected.verdict is not None
    assert [t.configuration for t in trials_of(bench, "search") if t.value is not None] == [
        t.configuration for t in trials_of(whole, "search")
    ]
    assert finished.verdict.statement == expected.verdict.statement
    assert finished.verdict.pairs == 6


def test_a_smaller_recommendation_is_compared_at_each_rate(tmp_path: Path) -> None:
    plan = replace(PLAN, iterations=24, minimal=1, pairs=10)
    _, procedure = start(tmp_path, machine(noise=0.01), plan)
    finished = procedure.run()
    assert finished.verdict is not None
    assert finished.verdict.statement == "improvement"
    assert [v.rate_rps for v in finished.verdict.per_rate] == list(RATES)
    for verdict in finished.rivals.values():
        assert [v.rate_rps for v in verdict.per_rate] == list(RATES)


def test_the_time_limit_counts_all_rates(tmp_path: Path) -> None:
    bench, procedure = start(tmp_path, machine(), replace(PLAN, iterations=500, time_limit_s=3600.0, minimal=0))
    began = bench.clock.monotonic()
    finished = procedure.run()
    assert finished.decisions.iterations is not None
    assert 5 < finished.decisions.iterations < 30
    assert bench.clock.monotonic() - began < 3600.0
