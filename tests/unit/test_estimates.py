"""Quantiles and means: published ranks, and properties of any sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from framework.errors import InputError
from framework.model.estimates import mean, probability_of, quantile, ranks, rate

samples = st.lists(st.floats(0.001, 1e6) | st.just(math.inf), min_size=1, max_size=300)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(100, 90, 100), (1000, 936, 964), (5000, 4719, 4781), (72, 64, 72), (71, 63, 72)]
)
def test_ranks_of_p95(count: int, low: int, high: int) -> None:
    # Below 72 samples the upper rank lies past the sample: no two-sided 95 % bound.
    assert ranks(count, 0.95) == (low, high)


@settings(deadline=None)
@given(st.integers(1, 3000), st.floats(0.01, 0.999))
def test_ranks_cover_and_no_narrower_side_would(count: int, probability: float) -> None:
    low, high = ranks(count, probability)
    law = stats.binom(count, probability)
    assert law.cdf(low - 1) <= 0.025 + 1e-12
    assert law.sf(high - 1) <= 0.025 + 1e-12
    assert law.cdf(low) >= 0.025 - 1e-12
    assert law.sf(high - 2) >= 0.025 - 1e-12


def test_a_quantile_is_a_sample_with_its_interval() -> None:
    p95 = quantile(np.arange(1000, 0, -1), 0.95)
    assert (p95.value, p95.low, p95.high, p95.count) == (950, 936, 964, 1000)


def test_below_72_samples_p95_has_no_upper_bound() -> None:
    assert quantile(np.arange(71), 0.95).high == math.inf
    assert quantile(np.arange(72), 0.95).high == 71


def test_failed_requests_are_infinitely_slow() -> None:
    latency = np.concatenate([np.full(94, 1.0), np.full(6, math.inf)])
    assert quantile(latency, 0.95).value == math.inf
    assert quantile(latency, 0.90).value == 1.0
    assert mean(latency).value == math.inf


@settings(deadline=None)
@given(samples, st.sampled_from([0.5, 0.95, 0.99, 0.999]))
def test_a_quantile_lies_in_its_interval_and_splits_the_sample(values: list[float], probability: float) -> None:
    estimate = quantile(values, probability)
    assert estimate.low <= estimate.value <= estimate.high
    at_most = sum(value <= estimate.value for value in values) / len(values)
    below = sum(value < estimate.value for value in values) / len(values)
    assert at_most >= probability - 1e-9
    assert below < probability + 1e-9


@settings(deadline=None)
@given(samples, st.floats(0.001, 1000))
def test_quantiles_follow_the_unit(values: list[float], factor: float) -> None:
    plain, scaled = quantile(values, 0.5), quantile([value * factor for value in values], 0.5)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx(
        (plain.value * factor, plain.low * factor, plain.high * factor)
    )


def test_the_mean_of_few_samples_is_student_s() -> None:
    values = [4.0, 5.0, 9.0, 6.0]
    estimate = mean(values)
    low, high = stats.t.interval(0.95, 3, loc=6.0, scale=stats.sem(values))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((6.0, low, high))


def test_batches_widen_the_interval_of_a_mean_that_remembers() -> None:
    rng = np.random.default_rng(1)
    memory = np.convolve(rng.normal(size=2099), np.ones(100) / 10, mode="valid")
    ordered, shuffled = mean(memory), mean(rng.permutation(memory))
    assert ordered.high - ordered.low > 3 * (shuffled.high - shuffled.low)


def test_one_sample_has_a_mean_and_no_interval() -> None:
    estimate = mean([3.0])
    assert (estimate.value, estimate.low, estimate.high) == (3.0, -math.inf, math.inf)


def test_a_rate_has_the_exact_poisson_interval() -> None:
    estimate = rate(10, 2.0)
    # Garwood's interval of 10 events, as tabled: 4.80 to 18.39.
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((5.0, 4.80 / 2, 18.39 / 2), abs=0.005)
    assert rate(0, 1.0).low == 0


@pytest.mark.parametrize(("name", "probability"), [("p50", 0.5), ("p95", 0.95), ("p99.9", 0.999), ("p5", 0.05)])
def test_names_of_quantiles(name: str, probability: float) -> None:
    assert probability_of(name) == pytest.approx(probability)


@pytest.mark.parametrize("name", ["p", "p0", "p100", "95", "q95", "p-5", "median", "p9999"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="unknown quantity"):
        probability_of(name)


def test_no_samples_no_number() -> None:
    with pytest.raises(InputError):
        quantile([], 0.5)
    with pytest.raises(InputError):
        mean([])
    with pytest.raises(InputError):
        ranks(10, 1.0)
