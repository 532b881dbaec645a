"""The check of stationarity on plain shapes; its rates of alarm are in tests/statistical."""

from __future__ import annotations

import math

import numpy as np
import pytest

from framework.objective.stationarity import change


def noise(requests: int = 4000, sigma: float = 0.5) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.exp(np.random.default_rng(1).normal(0, sigma, requests))


def test_a_ramp_is_found_either_way() -> None:
    ramp = noise() * np.linspace(1, 3, 4000)
    up, down = (change(values, alpha=0.001, relative=0.5) for values in (ramp, ramp[::-1]))
    assert up is not None
    assert down is not None
    assert (up.moved, down.moved) == (True, True)
    assert up.ratio == pytest.approx(2.2, rel=0.1)
    assert down.ratio == pytest.approx(1 / up.ratio)


def test_a_step_in_the_middle_is_found() -> None:
    shift = change(noise() * np.where(np.arange(4000) < 2000, 1, 2), alpha=0.001, relative=0.5)
    assert shift is not None
    assert shift.moved


def test_a_tail_that_moves_alone_is_found() -> None:
    # A cache fills: the share of slow misses falls from 20 % to 2 %, and the median does not move.
    rng = np.random.default_rng(2)
    slow = rng.random(4000) < np.linspace(0.2, 0.02, 4000)
    shift = change(noise(sigma=0.1) * np.where(slow, 10, 1), alpha=0.001, relative=0.5)
    assert shift is not None
    assert (shift.moved, shift.level) == (True, "p90")


def test_a_change_that_is_sure_but_small_is_let_pass() -> None:
    shift = change(noise(sigma=0.1) * np.linspace(1, 1.3, 4000), alpha=0.001, relative=0.5)
    assert shift is not None
    assert shift.p_value < 1e-6
    assert not shift.moved


def test_failed_requests_do_not_break_the_fit() -> None:
    values = noise()
    values[::50] = math.inf
    shift = change(values, alpha=0.001, relative=0.5)
    assert shift is not None
    assert not shift.moved
    assert change(np.full(4000, math.inf), alpha=0.001, relative=0.5) is not None


def test_a_constant_level_and_a_short_window() -> None:
    shift = change(np.full(480, 2.0), alpha=0.001, relative=0.5)
    assert shift is not None
    assert (shift.moved, shift.ratio, shift.p_value) == (False, 1.0, 1.0)
    assert change(np.full(479, 2.0), alpha=0.001, relative=0.5) is None
