"""Left-out predictions are those of a model without the point, and noise is called noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr

from optimizer.analysis.fitted import MIN_CONFIGURATIONS, MOST_CONFIGURATIONS, Fitted, fitted
from optimizer.analysis.model_fit import model_fit, rank_correlation
from optimizer.models.additive import AdditiveProcess, Layout
from optimizer.space import Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

SPACE = SearchSpace(
    [
        Parameter(f"{group}.{name}", "real", 0.5, low=0, high=1, group=group)
        for group in ("a", "b", "c")
        for name in ("threads", "heap", "pool")
    ]
    + [Parameter("c.kind", "categorical", "u", choices=("u", "v", "w"), group="c")]
)


def told(count: int, seed: int, *, effect: float = 1.0, noise: float = 0.02) -> list[Observation]:
    """Return observations of a function of two parameters, in noise; without ``effect`` of noise alone."""
    rng = np.random.default_rng(seed)
    observations = []
    for _ in range(count):
        configuration = SPACE.from_unit(rng.random(len(SPACE)))
        x, y = float(configuration["a.threads"]), float(configuration["b.heap"])
        value = 10 * math.exp(effect * (x + 0.5 * y * y) + noise * float(rng.standard_normal()))
        observations.append(Observation(configuration, ObservationState.COMPLETED, value, value * noise))
    return observations


def model_of(observations: list[Observation]) -> Fitted:
    model = fitted(SPACE, observations)
    assert model is not None
    return model


@given(seed=st.integers(0, 10**6), count=st.integers(4, 25), noise=st.floats(1e-4, 1.0))
@settings(max_examples=25, deadline=None)
def test_a_left_out_prediction_is_that_of_a_refit_without_the_point(seed: int, count: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.random((count, 5)), rng.standard_normal(count)
    layout = Layout(np.array([0, 1, 2, 3, 3]), np.array([0, 0, 1, 1]), np.ones(4))
    errors = noise * rng.random(count)
    process = AdditiveProcess(layout, x, y, errors)
    mean, deviation = process.left_out()
    for place in range(count):
        rest = np.arange(count) != place
        alone = AdditiveProcess(layout, x[rest], y[rest], errors[rest], process._theta)
        expected, spread = alone.predict(x[[place]])
        own = process._errors[place]
        assert mean[place] == pytest.approx(expected[0], abs=1e-6)
        assert deviation[place] == pytest.approx(math.sqrt(spread[0] ** 2 + own), rel=1e-5)


def test_a_function_is_ordered_and_noise_is_not() -> None:
    fit = model_fit(model_of(told(40, 1)))
    assert fit.orders
    assert fit.low < fit.correlation < fit.high
    assert fit.correlation > 0.7
    assert fit.density > fit.constant_density + 0.3
    inside = [point.low <= point.measured <= point.high for point in fit.points]
    assert np.mean(inside) > 0.8
    assert not model_fit(model_of(told(40, 1, effect=0.0, noise=0.1))).orders


def test_of_many_searches_in_noise_few_are_called_ordered() -> None:
    """One-sided at 2.5 %; more than 9 of 120 have a probability below 0.2 %."""
    searches = [model_fit(model_of(told(10 + seed % 30, seed, effect=0.0, noise=0.1))) for seed in range(120)]
    assert sum(fit.orders for fit in searches) <= 9
    assert np.mean([fit.density - fit.constant_density for fit in searches]) < 0, "a constant is as good or better"


@given(scale=st.floats(1e-3, 1e4))
@settings(max_examples=10, deadline=None)
def test_the_unit_of_the_objective_does_not_matter(scale: float) -> None:
    first = told(20, 3)
    scaled = [replace(o, value=scale * (o.value or 0), standard_error=scale * (o.standard_error or 0)) for o in first]
    fit, other = model_fit(model_of(first)), model_fit(model_of(scaled))
    assert other.correlation == pytest.approx(fit.correlation, abs=0.02)
    assert other.density == pytest.approx(fit.density, abs=0.02)
    for point, same in zip(fit.points, other.points, strict=True):
        assert same.measured == pytest.approx(scale * point.measured)
        assert same.predicted == pytest.approx(scale * point.predicted, rel=0.02)


def test_the_order_of_the_tells_does_not_matter_and_repeated_configurations_are_one() -> None:
    observations = told(12, 4)
    again = [*reversed(observations), observations[0]]
    assert model_fit(model_of(again[:-1])) == model_fit(model_of(observations))
    assert len(model_fit(model_of(again)).points) == 12


def test_values_at_or_below_0_are_not_logarithms() -> None:
    observations = [replace(o, value=(o.value or 0) - 20) for o in told(20, 5)]
    fit = model_fit(model_of(observations))
    assert min(point.measured for point in fit.points) < 0
    assert fit.orders


def test_a_disaster_counts_no_more_than_a_bad_value() -> None:
    observations = told(30, 6)
    observations[3] = replace(observations[3], value=1e6)
    fit = model_fit(model_of(observations))
    assert math.isfinite(fit.density)
    assert fit.correlation > 0.3
    assert max(point.measured for point in fit.points) == pytest.approx(1e6), "shown as it was measured"


def test_too_few_too_many_and_equal_values_have_no_model() -> None:
    assert fitted(SPACE, told(MIN_CONFIGURATIONS - 1, 7)) is None
    assert fitted(SPACE, told(MIN_CONFIGURATIONS, 7)) is not None
    assert fitted(SPACE, told(MOST_CONFIGURATIONS + 1, 7)) is None
    assert fitted(SPACE, [replace(o, value=3.0) for o in told(10, 7)]) is None


def test_the_constant_model_is_a_normal_distribution() -> None:
    model = model_of(told(15, 8))
    expected = norm.logpdf(model.scaled, model.scaled.mean(), model.scaled.std()).mean()
    assert model_fit(model).constant_density == pytest.approx(float(expected))


@given(values=st.lists(st.floats(-5, 5), min_size=4, max_size=30, unique=True), seed=st.integers(0, 999))
@settings(max_examples=50, deadline=None)
def test_the_rank_correlation_has_an_interval(values: list[float], seed: int) -> None:
    measured = np.array(values)
    predicted = np.random.default_rng(seed).permutation(measured)
    correlation, low, high = rank_correlation(predicted, measured)
    assert correlation == pytest.approx(float(spearmanr(predicted, measured).statistic))
    assert -1 <= low <= correlation <= high <= 1
    assert rank_correlation(np.zeros(len(values)), measured)[0] == 0
