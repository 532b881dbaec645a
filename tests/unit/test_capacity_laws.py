"""Scaling laws: known ones are fitted, intervals cover what was left out, and no law is asked too far away."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.capacity.law_draws import LAWS, throughput
from framework.capacity.laws import LEAST_RPS, MOST_RPS, fit, misfits
from framework.errors import FieldError
from framework.model.capacity import ScalingPoint

SIZES = np.array([1, 2, 3, 4, 6, 8, 12, 16], float)


def points(a: float, b: float, *, noise: float = 0.0, seed: int = 0, stated: bool = False) -> list[ScalingPoint]:
    rps = throughput(SIZES, 1000, a, b) * np.exp(noise * np.random.default_rng(seed).standard_normal(len(SIZES)))
    return [
        ScalingPoint(cores, value, noise * value * stated) for cores, value in zip(SIZES, rps.tolist(), strict=True)
    ]


@pytest.mark.parametrize(("name", "a", "b"), [("linear", 0.0, 0.0), ("amdahl", 0.05, 0.0), ("usl", 0.03, 0.001)])
def test_a_law_without_noise_is_told(name: str, a: float, b: float) -> None:
    law = fit(points(a, b))
    assert law.name == name
    assert [law.g, law.a, law.b] == pytest.approx([1000, a, b], abs=1e-8)
    assert law.predict(64).rps.likely == pytest.approx(float(throughput(64, 1000, a, b)))


KINDS = ("linear", "amdahl", "usl", "usl with little coherence")
SEEN = 1e-4  # coherence that costs 29 % on 64 cores without contention


def systems(kind: str, count: int, seed: int) -> list[tuple[float, float]]:
    """Draw contention and coherence of systems of one kind."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    contention = np.exp(random.uniform(np.log(1e-3), np.log(0.3), count)) * (kind != "linear")
    low, high = (SEEN, 3e-3) if kind == "usl" else (1e-6, SEEN)
    coherence = np.exp(random.uniform(np.log(low), np.log(high), count)) * kind.startswith("usl")
    return list(zip(contention.tolist(), coherence.tolist(), strict=True))


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.03])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_four_times_the_measured_size_of_each_kind(kind: str, noise: float) -> None:
    """Of 80 systems of each kind at least 90 % are inside; of the tenth that a plan risks, twice as many at most."""
    covered, too_few = [], []
    for seed, (a, b) in enumerate(systems(kind, 80, 20)):
        law = fit(points(a, b, noise=noise, seed=seed, stated=seed % 4 > 0 or noise < 0.01), seed)
        interval, truth = law.predict(64).rps, float(throughput(64, 1000, a, b))
        covered.append(interval.low <= truth <= interval.high)
        too_few.append(truth < np.quantile(law.rps_of_draws(64.0), 0.1))
    assert np.mean(covered) >= 0.9
    assert np.mean(too_few) <= 0.2


@pytest.mark.parametrize(("noise", "width"), [(0.0005, 0.2), (0.002, 0.3), (0.01, 0.7)])
def test_how_wide_intervals_are_at_four_times_the_measured_size(noise: float, width: float) -> None:
    """Nine of ten are no wider than 30 % where each of eight sizes is known to 0.2 %."""
    widths = []
    for kind in KINDS[:3]:
        for seed, (a, b) in enumerate(systems(kind, 120, 30)):
            interval = fit(points(a, b, noise=noise, seed=seed, stated=True), seed).predict(64).rps
            widths.append((interval.high - interval.low) / interval.likely)
    assert np.quantile(widths, 0.9) <= width


def test_the_interval_is_narrow_where_the_points_say_much() -> None:
    interval = fit(points(0.05, 0.0005, noise=0.001, stated=True)).predict(64).rps
    assert interval.high - interval.low < 0.3 * interval.likely


def test_no_extrapolation_beyond_four_times_unless_asked() -> None:
    law = fit(points(0.05, 0.0))
    assert not law.predict(64).extrapolated
    with pytest.raises(FieldError, match=r"cores: found 65; allowed: 1 to 64, 4 times the 16 measured"):
        law.predict(65)
    assert law.predict(65, extrapolate=True).extrapolated
    with pytest.raises(FieldError, match="allowed: 1 to 32"):
        law.predict(33, most_times=2)


def test_one_point_is_a_linear_law_whose_interval_says_how_little_is_known() -> None:
    law = fit([ScalingPoint(16, 1_123_453)])
    assert law.name == "linear"
    assert law.missed == dict.fromkeys(LAWS)
    near, far = law.predict(16).rps, law.predict(64).rps
    assert near.likely == pytest.approx(1_123_453)
    assert near.high - near.low < 0.2 * near.likely
    assert far.high - far.low > 0.5 * far.likely


@pytest.mark.parametrize(
    "point", [ScalingPoint(0, 5), ScalingPoint(1, 0), ScalingPoint(1, float("nan")), ScalingPoint(1, 5, -1)]
)
def test_a_bad_point_is_refused(point: ScalingPoint) -> None:
    with pytest.raises(FieldError, match="points"):
        fit([point])
    with pytest.raises(FieldError, match="at least one number of cores"):
        fit([])


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (((8, 100.0), (4, 200.0)), "on 8 cores it gives"),
        (((4, 100.0), (4, 200.0)), "100/s were measured"),
        (((1, 100.0), (2, 190.0), (4, 350.0)), ""),
        (((4, 100.0),), ""),
    ],
)
def test_a_law_that_misses_its_points_is_said_to(points: tuple[tuple[float, float], ...], says: str) -> None:
    said = misfits(fit([ScalingPoint(cores, rps) for cores, rps in points]), "reads")
    assert says in " ".join(said)
    assert bool(said) == bool(says)


def test_a_law_at_a_rough_point_is_no_misfit() -> None:
    rough = [ScalingPoint(4, 100.0, 60.0), ScalingPoint(4, 200.0, 60.0)]
    assert not misfits(fit(rough), "reads")


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.floats(1, 4096), st.floats(LEAST_RPS, MOST_RPS), st.just(0.0) | st.floats(5e-324, 0.9)),
        min_size=1,
        max_size=6,
    )
)
def test_no_points_break_the_fit(points: list[tuple[float, float, float]]) -> None:
    """A rate known to 1e-300, or rates twenty orders apart: there is a law, and it is a number."""
    law = fit([ScalingPoint(cores, rps, share * rps) for cores, rps, share in points])
    assert math.isfinite(law.g)
    assert law.g > 0
    assert 0 <= law.a <= 1
    assert law.b >= 0
    prediction = law.predict(law.measured_cores).rps
    assert 0 < prediction.low <= prediction.likely <= prediction.high


@pytest.mark.parametrize("rps", [0.0, 1e-7, 1e13, float("inf"), float("nan"), -1.0])
def test_rates_that_no_node_has_are_refused(rps: float) -> None:
    with pytest.raises(FieldError, match="points"):
        fit([ScalingPoint(4.0, rps)])
