"""The statistics of pairs: against scipy, against tables, and what must hold for any pairs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from framework.errors import InputError
from framework.objective import compare, coverage
from framework.objective.signed_rank import critical_rank, distribution, p_value, walsh_averages
from framework.objective.verdict import hodges_lehmann, log_ratios, upper_bound

# Charles Darwin's heights of crossed and self-fertilised maize (The Effects of Cross and Self Fertilisation, 1876).
DARWIN = [6.125, -8.375, 1.0, 2.0, 0.75, 2.875, 3.5, 5.125, 1.75, 3.625, 7.0, 3.0, 9.375, 7.5, -6.0]

values = st.floats(0.1, 1000)
pairs = st.lists(st.tuples(values, values), min_size=6, max_size=12)


def test_the_distribution_is_that_of_all_sign_patterns() -> None:
    ranks = [1.0, 2.5, 2.5, 4.0]
    sums = [2 * sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=4)]
    expected = np.bincount(np.array(sums, dtype=np.int64), minlength=21) / 16
    assert distribution(ranks) == pytest.approx(expected)


def test_darwin_s_maize() -> None:
    # T- = 24 of 120 in all: two-sided exact p = 0.0413.
    assert p_value(DARWIN) == pytest.approx(stats.wilcoxon(DARWIN, method="exact").pvalue)
    assert p_value(DARWIN) == pytest.approx(0.0413, abs=5e-5)
    assert hodges_lehmann(DARWIN).value == pytest.approx(3.125)


@settings(deadline=None)
@given(st.lists(st.integers(-1000, 1000).filter(bool), min_size=1, max_size=15, unique_by=abs))
def test_p_agrees_with_scipy_where_there_are_no_ties(differences: list[int]) -> None:
    assert p_value(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


def test_p_with_ties_is_exact_and_zeros_are_left_out() -> None:
    # |d| = 1, 1, 2: mid-ranks 1.5, 1.5, 3; all positive is one of eight patterns.
    assert p_value([1, 1, 2, 0]) == pytest.approx(2 / 8)
    assert p_value([0, 0]) == 1.0


@pytest.mark.parametrize(
    ("pairs", "expected"), [(5, 0.0), (6, 0.96875), (7, 0.953125), (8, 0.9609375), (10, 0.951171875)]
)
def test_coverage(pairs: int, expected: float) -> None:
    assert coverage(pairs) == pytest.approx(expected)


def test_tabled_critical_values() -> None:
    # Wilcoxon's table, one-sided 0.025: reject at T <= 0, 2, 8, 25 for n = 6, 7, 10, 15.
    assert [critical_rank(n, 0.025)[0] - 1 for n in (6, 7, 10, 15)] == [0, 2, 8, 25]
    # One-sided 0.05: T <= 0, 2, 10 for n = 5, 6, 10.
    assert [critical_rank(n, 0.05)[0] - 1 for n in (5, 6, 10)] == [0, 2, 10]


def test_walsh_averages() -> None:
    assert walsh_averages([1.0, 3.0, 8.0]).tolist() == [1.0, 2.0, 3.0, 4.5, 5.5, 8.0]


def test_a_clear_improvement() -> None:
    default = [10.0, 12.0, 9.0, 11.0, 13.0, 10.5]
    verdict = compare(default, [value * 0.8 for value in default])
    assert (verdict.statement, verdict.no_worse, verdict.pairs) == ("improvement", "no worse", 6)
    assert verdict.gain.value == pytest.approx(0.2)
    assert verdict.p_value == pytest.approx(2 / 64)
    assert (verdict.default_ms.value, verdict.default_ms.low, verdict.default_ms.high) == (10.5, 9.0, 13.0)


def test_the_same_twice_shows_nothing_and_is_no_worse() -> None:
    verdict = compare([10.0] * 6, [10.0] * 6)
    assert (verdict.statement, verdict.no_worse, verdict.p_value) == ("no improvement shown", "no worse", 1.0)


def test_worse_is_said() -> None:
    verdict = compare([10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [20.0, 23.0, 22.0, 29.0, 24.0, 25.0])
    assert (verdict.statement, verdict.no_worse) == ("worse", "undecided")
    assert verdict.gain.value < 0


def test_five_pairs_cannot_show_anything_but_can_bound() -> None:
    verdict = compare([10.0] * 5, [5.0] * 5)
    assert verdict.statement == "no improvement shown"
    assert (verdict.log_ratio.low, verdict.log_ratio.high) == (-math.inf, math.inf)
    assert verdict.gain.low == -math.inf
    assert verdict.no_worse == "no worse"
    assert upper_bound([-1.0] * 4) == math.inf


def test_throughput_maximised_through_its_negative() -> None:
    verdict = compare([-100.0] * 6, [-110.0, -111.0, -112.0, -113.0, -114.0, -115.0])
    assert verdict.statement == "improvement"
    assert verdict.log_ratio.value < 0


def test_an_objective_that_changes_its_sign_is_compared_by_differences() -> None:
    default = [-1.0, 1.0, 2.0, -2.0, 0.0, 3.0]
    verdict = compare(default, [value - 3.0 for value in default])
    assert verdict.scale == "difference"
    assert verdict.statement == "improvement"
    assert verdict.gain.value == pytest.approx(3.0 / 1.5)  # the median size of the default's values is 1.5
    assert compare(default, default).statement == "no improvement shown"
    few = compare([0.0], [1.0])
    assert (few.gain.low, few.gain.high) == (-math.inf, math.inf)
    with pytest.raises(InputError, match="one sign"):
        log_ratios(default, default)


@pytest.mark.parametrize(
    ("default", "best"),
    [
        ([], []),
        ([1.0], [1.0, 2.0]),
        ([math.inf], [1.0]),
        ([math.nan], [1.0]),
    ],
)
def test_what_cannot_be_compared_is_refused(default: list[float], best: list[float]) -> None:
    with pytest.raises(InputError):
        compare(default, best)


@settings(deadline=None)
@given(pairs)
def test_the_statement_is_the_interval_s(pairs: list[tuple[float, float]]) -> None:
    default, best = zip(*pairs, strict=True)
    verdict = compare(default, best)
    ratio = verdict.log_ratio
    assert ratio.low <= ratio.value <= ratio.high
    says = {"improvement": ratio.high < 0, "worse": ratio.low > 0, "no improvement shown": ratio.low <= 0 <= ratio.high}
    assert says[verdict.statement]
    assert verdict.gain.low <= verdict.gain.value <= verdict.gain.high
    assert 0 < verdict.p_value <= 1


@settings(deadline=None)
@given(pairs, st.floats(0.01, 100))
def test_changing_sides_turns_the_sign_and_a_common_unit_changes_nothing(
    pairs: list[tuple[float, float]], unit: float
) -> None:
    default, best = zip(*pairs, strict=True)
    there, back = compare(default, best).log_ratio, compare(best, default).log_ratio
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low), abs=1e-9)
    scaled = compare([v * unit for v in default], [v * unit for v in best]).log_ratio
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((there.value, there.low, there.high), abs=1e-9)
