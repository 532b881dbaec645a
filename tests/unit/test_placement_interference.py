"""Scores, sensitivities and pressures: by hand, and in a world that is as the model says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import InputError
from framework.placement.interference import Interference, Loss, fitted, pressure_of, sensitivities, thesis_scores


def test_the_thesis_score_by_hand() -> None:
    losses = [
        Loss("rate", "l3", 1, 1.1), Loss("rate", "l3", 3, 1.5),  # (1 * 0.1 + 3 * 0.5) / 4 = 0.4
        Loss("rate", "l2", 1, 1.1), Loss("rate", "l2", 3, 1.1),  # 0.1
        Loss("geo", "l3", 1, 1.2), Loss("geo", "l3", 3, 1.2),  # 0.2
        Loss("geo", "l2", 1, 1.0), Loss("geo", "l2", 3, 1.0),  # 0
    ]  # fmt: skip
    table = thesis_scores(losses)
    assert table["rate"]["l3"] == pytest.approx(0.4)
    # damage: l3 (0.4 + 0.2) / 2 = 0.3, l2 0.05
    assert table["rate"][""] == pytest.approx((0.3 * 0.4 + 0.05 * 0.1) / 0.35)
    assert table["geo"][""] == pytest.approx(0.3 * 0.2 / 0.35)
    with pytest.raises(InputError, match="geo was not measured beside l2"):
        thesis_scores(losses[:6])


def test_services_that_nothing_harms_have_no_score() -> None:
    table = thesis_scores([Loss("a", "l3", 1, 0.98), Loss("b", "l3", 1, 1.0)])
    assert table["a"][""] == table["b"][""] == 0.0


@given(slope=st.floats(0, 2), intensities=st.lists(st.floats(0.1, 8), min_size=1, max_size=6))
def test_a_sensitivity_is_the_slope_that_made_the_losses(slope: float, intensities: list[float]) -> None:
    losses = [Loss("a", "l3", intensity, math.exp(slope * intensity)) for intensity in intensities]
    assert sensitivities(losses)["a"]["l3"] == pytest.approx(slope, abs=1e-9)


def test_a_stressor_that_helps_is_no_negative_sensitivity() -> None:
    assert sensitivities([Loss("a", "l3", 1, 0.9)]) == {"a": {"l3": 0.0}}


def test_a_pressure_is_read_off_the_stressors_own() -> None:
    known = {1.0: 0.2, 2.0: 0.3, 4.0: 0.3, 8.0: 0.7}
    assert pressure_of(0.1, known) == pytest.approx(0.5)
    assert pressure_of(0.25, known) == pytest.approx(1.5)
    assert pressure_of(0.3, known) == pytest.approx(2.0), "the smallest that explains it"
    assert pressure_of(0.5, known) == pytest.approx(6.0)
    assert pressure_of(1.4, known) == pytest.approx(16.0), "twice the strongest"
    assert pressure_of(-0.05, known) == 0.0
    assert pressure_of(0.4, {1.0: -0.1}) == 0.0, "a probe that nothing disturbs says nothing"
    with pytest.raises(InputError, match="own stressor"):
        pressure_of(0.1, {})


@given(first=st.floats(0, 1), second=st.floats(0, 1))
def test_more_loss_is_no_less_pressure(first: float, second: float) -> None:
    known = {0.5: 0.1, 1.0: 0.4, 2.0: 0.35, 4.0: 0.8}
    low, high = sorted((first, second))
    assert pressure_of(low, known) <= pressure_of(high, known) + 1e-12


def world(rng: np.random.Generator, services: int = 6) -> Interference:
    names = tuple(f"s{number}" for number in range(services))
    return Interference(
        names, ("core", "l3"), rng.uniform(0, 0.3, (services, 2)), rng.uniform(0, 1.5, (services, 2)), np.ones(2)
    )


def test_pairs_of_a_world_that_is_as_the_model_says_are_predicted() -> None:
    rng = np.random.default_rng(1)
    truth = world(rng)
    seen = Interference(truth.services, truth.resources, 2 * truth.sensitivity, truth.pressure, truth.weights)
    pairs = [
        (service, neighbour, truth.slowdown(service, [neighbour]))
        for service in truth.services
        for neighbour in truth.services
        if service != neighbour
    ]
    model, errors = fitted(seen, pairs)
    np.testing.assert_allclose(model.weights, 0.5)
    np.testing.assert_allclose(errors, 0.0, atol=1e-9)


def test_the_error_of_a_pair_is_from_a_fit_without_it() -> None:
    truth = world(np.random.default_rng(2))
    pairs = [("s0", "s1", truth.slowdown("s0", ["s1"])), ("s2", "s3", truth.slowdown("s2", ["s3"])), ("s4", "s5", 9.0)]
    _, errors = fitted(truth, pairs)
    others, _ = fitted(truth, pairs[:2])
    assert errors[2] == pytest.approx(others.slowdown("s4", ["s5"]) / 9.0 - 1)
    assert abs(errors[2]) > 0.5, "it is not explained by having been seen"
    with pytest.raises(InputError, match="at least 2"):
        fitted(truth, pairs[:1])


def test_neighbours_add_up() -> None:
    truth = world(np.random.default_rng(3))
    joint = math.log(truth.slowdown("s0", ["s1", "s2"]))
    sum_of_both = sum(math.log(truth.slowdown("s0", [neighbour])) for neighbour in ("s1", "s2"))
    assert joint == pytest.approx(sum_of_both)
    assert truth.slowdown("s0", []) == 1.0
