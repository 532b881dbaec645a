"""The expected gain of another trial: what it depends on, and where it is nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from optimizer.analysis.fitted import fitted
from optimizer.analysis.stopping import ExpectedGain, expected_gain
from optimizer.space import Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

SPACE = SearchSpace([Parameter(f"a.{name}", "real", 0.5, low=0, high=1, group="a") for name in "xyz"])


def told(count: int, noise: float = 0.02, effect: float = 1.0, shift: float = 0.0) -> list[Observation]:
    rng = np.random.default_rng(1)
    observations = []
    for _ in range(count):
        configuration = SPACE.from_unit(rng.random(3))
        x = SPACE.to_unit(configuration)
        value = 10 * math.exp(effect * float(((x - 0.4) ** 2).sum()) + noise * float(rng.standard_normal())) - shift
        observations.append(Observation(configuration, ObservationState.COMPLETED, value, abs(value) * noise))
    return observations


def gain_of(observations: list[Observation], space: SearchSpace = SPACE) -> ExpectedGain:
    model = fitted(space, observations)
    assert model is not None
    gain = expected_gain(model)
    assert gain is not None
    return gain


def test_it_falls_where_the_lowest_place_is_known() -> None:
    """Thirty values around the minimum, which is 10: there is nothing below."""
    spread = told(20)
    rng = np.random.default_rng(2)
    around = []
    for _ in range(30):
        configuration = SPACE.from_unit(0.4 + 0.05 * rng.standard_normal(3))
        value = 10 * math.exp(0.02 * float(rng.standard_normal()))
        around.append(Observation(configuration, ObservationState.COMPLETED, value, 0.02 * value))
    before, after = gain_of(spread), gain_of([*spread, *around])
    assert 0 < after.gain < 0.5 * before.gain
    assert after.gain < after.noise


def test_the_unit_and_the_order_do_not_matter() -> None:
    observations = told(20)
    in_us = [(o, 1e3 * (o.value or 0), 1e3 * (o.standard_error or 0)) for o in observations]
    scaled = [replace(o, value=value, standard_error=error) for o, value, error in in_us]
    assert gain_of(scaled).gain == pytest.approx(gain_of(observations).gain, rel=0.05)
    assert gain_of(observations[::-1]) == gain_of(observations)


def test_the_noise_of_the_values_is_in_their_own_unit() -> None:
    assert gain_of(told(40, noise=0.1)).noise == pytest.approx(0.1, rel=0.5)
    assert gain_of(told(40, shift=30.0)).noise > 0, "values below 0 are not logarithms"


def test_noise_hides_what_a_trial_would_gain() -> None:
    observations = told(20)
    noisier = [replace(o, standard_error=(o.value or 0) * 0.3) for o in observations]
    assert gain_of(noisier).gain < gain_of(observations).gain


def test_where_all_is_tried_there_is_nothing_to_gain() -> None:
    small = SearchSpace([Parameter("a.x", "integer", 1, low=1, high=9)])
    tried = [Observation(small.validate({"a.x": x}), ObservationState.COMPLETED, 10.0 + x, 0.1) for x in range(1, 10)]
    assert gain_of(tried, small).gain == 0.0
    assert gain_of(tried[:8], small).gain >= 0.0


def test_where_nothing_keeps_the_limits_nothing_is_said() -> None:
    broken = [replace(o, constraints={"p99": 1.0}) for o in told(12)]
    model = fitted(SPACE, broken)
    assert model is not None
    assert expected_gain(model) is None
