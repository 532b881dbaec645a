"""Values over several request rates, and the verdict on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import FieldError, TrialFailed
from framework.model import Estimate, Measurement, Objective, OutcomeConstraint, Trial, TrialState
from framework.objective import compare_groups, constraints
from framework.objective.rates import Rates, at_rate, error_over, told_over, value_over
from framework.objective.rates_verdict import compare_over
from optimizer.space import Configuration

RATES = (100.0, 200.0, 300.0)
WORST = Rates(RATES, "worst", (1.0, 1.0, 1.0))
MEAN = Rates(RATES, "mean", (1.0, 2.0, 1.0))
VALUES = st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3)


def window(rate: float, value: float | None, repetition: int = 0, **more: object) -> Measurement:
    blank = Measurement(
        repetition, 0, (), (), value, {}, 100, 0, 1.0, 1.0, 0.0, 1.0, None, 0, None, None, {}, {}, (), {}, {},
        rate_rps=rate,
    )  # fmt: skip
    return replace(blank, **more)  # type: ignore[arg-type]  # any field


def windows(*repetitions: Sequence[float]) -> list[Measurement]:
    return [
        window(rate, value, number)
        for number, values in enumerate(repetitions)
        for rate, value in zip(RATES, values, strict=True)
    ]


def trial(number: int, *repetitions: Sequence[float], purpose: str = "search") -> Trial:
    measured = tuple(windows(*repetitions))
    return Trial("s", number, purpose, Configuration({}), TrialState.COMPLETED, value=1.0, measurements=measured)  # type: ignore[arg-type]  # a literal


def test_the_worst_is_relative_to_the_default_at_the_same_rate() -> None:
    default = windows((10.0, 20.0, 100.0))
    assert value_over(WORST, windows((11.0, 18.0, 50.0)), default) == pytest.approx(1.1), "though 50 ms are the most"
    assert value_over(WORST, default, default) == 1.0


def test_the_mean_is_the_weighted_geometric_one() -> None:
    default = windows((10.0, 20.0, 100.0))
    value = value_over(MEAN, windows((20.0, 20.0, 50.0)), default)
    assert value == pytest.approx((2.0 * 1.0**2 * 0.5) ** 0.25)


@given(VALUES, VALUES, VALUES)
def test_the_order_of_means_does_not_depend_on_the_default(
    first: list[float], second: list[float], default: list[float]
) -> None:
    """Fleming & Wallace, 1986; the reason for the geometric mean."""
    ratio = value_over(MEAN, windows(first), windows(default)) / value_over(MEAN, windows(second), windows(default))
    own = value_over(MEAN, windows(first), windows(second))
    assert ratio == pytest.approx(own, rel=1e-9)


@given(VALUES, VALUES, st.floats(0.1, 10.0), st.integers(0, 2))
def test_the_unit_of_a_rate_changes_nothing(
    values: list[float], default: list[float], factor: float, place: int
) -> None:
    scaled = [[v * factor if i == place else v for i, v in enumerate(row)] for row in (values, default)]
    for rates in (WORST, MEAN):
        expected = value_over(rates, windows(values), windows(default))
        assert value_over(rates, windows(scaled[0]), windows(scaled[1])) == pytest.approx(expected, rel=1e-9)


@given(VALUES, VALUES)
def test_the_worst_is_not_below_the_mean(values: list[float], default: list[float]) -> None:
    worst = value_over(WORST, windows(values), windows(default))
    assert worst >= value_over(MEAN, windows(values), windows(default)) * (1 - 1e-12)


def test_repetitions_are_averaged_before_the_worst_is_taken() -> None:
    """The worst of each repetition would be too large: noise decides which rate it is."""
    default = windows((10.0, 10.0, 10.0), (10.0, 10.0, 10.0))
    measured = windows((8.0, 10.0, 10.0), (12.5, 10.0, 10.0))
    assert value_over(WORST, measured, default) == pytest.approx(1.0)


def test_invalid_windows_do_not_count_and_a_missing_rate_is_an_error() -> None:
    default = windows((10.0, 20.0, 100.0))
    disturbed = [*default, window(100.0, 99.0, invalid=("disturbed",))]
    assert value_over(WORST, disturbed, default) == 1.0
    with pytest.raises(TrialFailed, match="no valid window at 300 requests/s"):
        value_over(WORST, default[:2], default)
    with pytest.raises(TrialFailed, match=r"at 300 requests/s the objective is 0 and the default's 100"):
        value_over(MEAN, windows((1.0, 1.0, 0.0)), default)


def test_each_rate_is_corrected_by_its_own_drift() -> None:
    """The machine became slower at the highest rate only, for default and candidate alike."""
    first = trial(1, (10.0, 20.0, 100.0), purpose="default")
    later = trial(3, (10.0, 20.0, 400.0), purpose="drift")
    # Between both in trial order: half of the slowdown, in logarithms.
    measured = trial(2, (9.0, 18.0, 180.0))
    assert told_over(WORST, measured, [first, later]) == pytest.approx(0.9)
    assert told_over(WORST, measured, [first]) == pytest.approx(1.8), "nothing is known of the drift"


def test_the_error_of_the_worst_is_that_of_its_rate() -> None:
    default = trial(1, (10.0, 10.0, 10.0), (10.0, 10.0, 10.0), purpose="default")
    noisy = trial(2, (10.0, 10.0, 10.0), (10.0, 10.0, 20.0))
    level = default.measurements
    error = error_over(WORST, noisy, [default], level)
    deviation = math.log(2) / math.sqrt(2) / math.sqrt(2)  # of two values, pooled over two trials of one degree each
    assert error == pytest.approx(deviation / math.sqrt(2))
    # Where a quiet rate is the worst, its error is small.
    quiet = trial(3, (30.0, 10.0, 10.0), (30.0, 10.0, 20.0))
    assert error_over(WORST, quiet, [default], level) == 0.0


def test_the_error_of_the_mean_counts_what_rates_have_in_common() -> None:
    """A deployment that is slow at every rate: the mean over rates has the whole error, not a third of its variance."""
    default = trial(1, (10.0, 10.0, 10.0), purpose="default")
    measured = trial(2, (10.0, 20.0, 40.0), (20.0, 40.0, 80.0))
    error = error_over(MEAN, measured, [default], default.measurements)
    assert error == pytest.approx(math.log(2) / math.sqrt(2) / math.sqrt(2))


def test_a_trial_at_one_rate() -> None:
    measured = at_rate(trial(1, (1.0, 2.0, 4.0), (4.0, 2.0, 1.0)), 100.0)
    assert measured.value == pytest.approx(2.0)
    assert {m.rate_rps for m in measured.measurements} == {100.0}
    assert at_rate(measured, 200.0).value is None


@pytest.mark.parametrize(
    ("rates", "over", "weights", "field"),
    [
        ((100.0,), "worst", (1.0,), "rates"),
        ((), "worst", (), "rates"),
        ((200.0, 100.0), "worst", (1.0, 1.0), "rates"),
        ((100.0, 100.0), "worst", (1.0, 1.0), "rates"),
        ((0.0, 100.0), "worst", (1.0, 1.0), "rates"),
        ((-1.0, 100.0), "worst", (1.0, 1.0), "rates"),
        ((1.0, math.inf), "worst", (1.0, 1.0), "rates"),
        ((1.0, math.nan), "worst", (1.0, 1.0), "rates"),
        ((1.0, 2.0), "median", (1.0, 1.0), "over"),
        ((1.0, 2.0), "mean", (1.0,), "weights"),
        ((1.0, 2.0), "mean", (1.0, 0.0), "weights"),
        ((1.0, 2.0), "mean", (1.0, math.nan), "weights"),
    ],
)
def test_impossible_rates_are_refused(
    rates: tuple[float, ...], over: str, weights: tuple[float, ...], field: str
) -> None:
    with pytest.raises(FieldError) as error:
        Rates(rates, over, weights)  # type: ignore[arg-type]  # hostile
    assert error.value.field == field


def test_a_limit_holds_at_every_rate() -> None:
    def with_p99(rate: float, value: float) -> Measurement:
        return window(rate, 1.0, quantities={"p99": Estimate(value, value, value, 1)})

    measured = replace(trial(1), measurements=tuple(map(with_p99, RATES, (5.0, 10.0, 44.0))))
    below = OutcomeConstraint("p99", "at most", 40.0)
    above = OutcomeConstraint("p99", "at least", 4.0)
    excesses = constraints(measured, Objective(subject_to=(below, above)))
    assert excesses == {"p99 <= 40": pytest.approx(0.1), "p99 >= 4": pytest.approx(-0.25)}


# ---------------------------------------------------------------------- the verdict

Arm = Mapping[int, Mapping[float, float]]


def arms(ratios: Sequence[float], pairs: int = 10, noise: float = 0.02, seed: int = 1) -> tuple[Arm, Arm]:
    """Return default and best with these true ratios at the rates, and log-normal noise."""
    rng = np.random.default_rng(seed)
    levels = dict(zip(RATES, (10.0, 20.0, 100.0), strict=True))
    factors = [dict.fromkeys(RATES, 1.0), dict(zip(RATES, ratios, strict=True))]
    default, best = (
        {
            pair: {rate: levels[rate] * factor[rate] * math.exp(noise * rng.standard_normal()) for rate in RATES}
            for pair in range(pairs)
        }
        for factor in factors
    )
    return default, best


def test_an_improvement_has_to_show_at_every_rate() -> None:
    verdict = compare_over(WORST, *arms((0.9, 0.8, 0.5)))
    assert verdict is not None
    assert verdict.statement == "improvement"
    assert verdict.rate_rps == 100.0
    assert verdict.gain.value == pytest.approx(0.1, abs=0.03)
    assert verdict.best_ms.value / verdict.default_ms.value == pytest.approx(0.9, abs=0.03)
    assert [v.rate_rps for v in verdict.per_rate] == list(RATES)
    assert verdict.p_value == max(v.p_value for v in verdict.per_rate)
    loses = compare_over(WORST, *arms((1.2, 0.8, 0.5)))
    assert loses is not None
    assert loses.statement == "worse"
    assert loses.per_rate[2].statement == "improvement"
    assert loses.no_worse == "undecided"
    mean = compare_over(MEAN, *arms((1.2, 0.8, 0.5)))
    assert mean is not None
    assert mean.statement == "improvement"
    assert mean.rate_rps is None
    assert mean.gain.value == pytest.approx(1 - (1.2 * 0.8**2 * 0.5) ** 0.25, abs=0.03)


@given(st.integers(0, 10_000), st.integers(6, 12))
def test_the_interval_of_the_worst_contains_its_estimate(seed: int, pairs: int) -> None:
    verdict = compare_over(WORST, *arms((1.0, 0.95, 1.0), pairs, noise=0.1, seed=seed))
    assert verdict is not None
    ratio = verdict.log_ratio
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.value == max(v.log_ratio.value for v in verdict.per_rate)
    assert verdict.gain.low <= verdict.gain.value <= verdict.gain.high
    assert 0.95 <= verdict.coverage < 1.0
    assert (verdict.statement == "improvement") == all(v.statement == "improvement" for v in verdict.per_rate)


@pytest.mark.parametrize("pairs", [6, 10])
def test_equal_configurations_are_seldom_called_different(pairs: int) -> None:
    """Both errors of the worst case keep their level, 2.5 % each; the largest ratio of each pair would not.

    600 studies: more than 27 false statements of a kind that has 2.5 % come once in 500.
    """
    statements = [compare_over(WORST, *arms((1.0, 1.0, 1.0), pairs, noise=0.1, seed=seed)) for seed in range(600)]
    kinds = [verdict.statement for verdict in statements if verdict is not None]
    assert kinds.count("improvement") <= 27
    assert kinds.count("worse") <= 27


def test_a_rate_that_gains_nothing_is_seldom_overlooked() -> None:
    """The other rates gain much, so that only this rate stands between the study and a false improvement."""
    verdicts = [compare_over(WORST, *arms((1.0, 0.7, 0.7), noise=0.1, seed=seed)) for seed in range(600)]
    assert sum(v is not None and v.statement == "improvement" for v in verdicts) <= 27


def test_the_largest_ratio_of_each_pair_would_not_do() -> None:
    """The reason why rates are compared for themselves first: equal configurations would often be called worse."""
    worse = 0
    for seed in range(100):
        default, best = arms((1.0, 1.0, 1.0), noise=0.1, seed=seed)
        largest = {pair: max(best[pair][rate] / default[pair][rate] for rate in RATES) for pair in default}
        verdict = compare_groups(dict.fromkeys(largest, 1.0), largest)
        worse += verdict is not None and verdict.statement == "worse"
    assert worse > 50


def test_a_pair_without_a_rate_is_left_out() -> None:
    default, best = arms((0.9, 0.8, 0.5), pairs=8)
    short = {**best, 3: {100.0: 1.0}}
    verdict = compare_over(WORST, default, short)
    assert verdict is not None
    assert verdict.pairs == 7
    assert compare_over(WORST, default, {0: best[0]}) is None


def test_at_each_rate_the_comparison_is_that_of_one_rate() -> None:
    default, best = arms((0.9, 0.8, 0.5))
    verdict = compare_over(WORST, default, best)
    assert verdict is not None
    at_200 = compare_groups({n: v[200.0] for n, v in default.items()}, {n: v[200.0] for n, v in best.items()})
    assert replace(verdict.per_rate[1], rate_rps=None) == at_200
