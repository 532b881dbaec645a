"""The additive Gaussian process: its gradient, what it interpolates, and what it learns about parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizer.models.additive import MAX_FITTED, AdditiveProcess, Layout, _PairTerms, _spread
from optimizer.models.tied_parameters import TiedParameters

RNG = np.random.default_rng(0)
TWO_GROUPS = Layout(np.array([0, 1, 2, 3, 3]), np.array([0, 0, 1, 1]), np.ones(4))


def sample(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    x = RNG.random((n, 5))
    x[:, 3] = RNG.integers(2, size=n)
    x[:, 4] = 1 - x[:, 3]
    return x


def test_the_gradient_is_that_of_the_loss() -> None:
    x = sample(12)
    y = np.sin(3 * x[:, 0]) + x[:, 2]
    alike = TiedParameters(np.array([0, 2]), np.array([0, 2]), np.zeros(2), np.ones(2), 0, 0)
    layout = replace(TWO_GROUPS, sets=(alike,))
    process = AdditiveProcess(layout, x, y, np.full(12, 0.01))
    given = _PairTerms(layout, process._parts, x, layout.features(x)), y, np.full(12, 0.01)
    theta = process._centre + 0.3 * RNG.standard_normal(len(process._centre))
    _, gradient = process._loss(theta, *given)
    for j in range(len(theta)):
        step = np.zeros_like(theta)
        step[j] = 1e-5
        above, below = (process._loss(theta + sign * step, *given)[0] for sign in (1, -1))
        assert gradient[j] == pytest.approx((above - below) / 2e-5, rel=1e-3, abs=1e-4)


def test_it_interpolates_and_is_sure_only_where_it_knows() -> None:
    x = sample(40)
    y = np.sin(3 * x[:, 0]) + 0.5 * x[:, 2] - x[:, 3]
    y = (y - y.mean()) / y.std()
    process = AdditiveProcess(TWO_GROUPS, x, y, np.full(40, 1e-4))
    mean, deviation = process.predict(x)
    np.testing.assert_allclose(mean, y, atol=0.15)
    far = np.full((1, 5), 5.0)
    assert process.predict(far)[1][0] > 3 * deviation.max()


def test_of_many_points_hyperparameters_see_some_and_the_mean_all() -> None:
    x = sample(3 * MAX_FITTED)
    y = np.sin(3 * x[:, 0]) + 0.5 * x[:, 2] - x[:, 3]
    y = (y - y.mean()) / y.std()
    rows = _spread(y, MAX_FITTED)
    assert len(set(rows.tolist())) == MAX_FITTED
    assert {int(np.argmin(y)), int(np.argmax(y))} <= set(rows.tolist())
    mean, _ = AdditiveProcess(TWO_GROUPS, x, y, np.full(len(y), 1e-4)).predict(x)
    np.testing.assert_allclose(mean, y, atol=0.15)


def test_it_learns_which_parameters_matter() -> None:
    layout = Layout(np.arange(6), np.array([0, 0, 1, 1, 2, 2]), np.ones(6))
    x = RNG.random((50, 6))
    y = np.sin(4 * x[:, 2])
    process = AdditiveProcess(layout, x, (y - y.mean()) / y.std(), np.full(50, 1e-3))
    assert int(np.argmax(process.relevance)) == 2
    assert process.relevance.max() == pytest.approx(1.0)


def test_weights_say_what_matters_before_the_data_do() -> None:
    x = RNG.random((3, 2))
    y = np.array([0.0, 0.1, -0.1])
    layout = Layout(np.arange(2), np.array([0, 1]), np.array([1.8, 0.2]))
    process = AdditiveProcess(layout, x, y, np.full(3, 0.1))
    assert process.relevance[0] > 2 * process.relevance[1]


def test_one_group_is_an_ordinary_process() -> None:
    layout = Layout(np.arange(2), np.zeros(2, dtype=np.int64), np.ones(2))
    x = RNG.random((20, 2))
    y = x[:, 0] - x[:, 1]
    process = AdditiveProcess(layout, x, y, np.full(20, 1e-4))
    assert len(process.variances) == 1
    np.testing.assert_allclose(process.predict(x)[0], y, atol=0.1)


def test_expected_points_do_not_move_the_mean_and_lower_the_doubt() -> None:
    layout = Layout(np.arange(2), np.zeros(2, dtype=np.int64), np.ones(2))
    x = RNG.random((10, 2))
    process = AdditiveProcess(layout, x, np.sin(5 * x[:, 0]), np.full(10, 0.01))
    new = np.array([[0.9, 0.9]])
    mean, deviation = process.predict(new)
    more = process.with_more(new, mean)
    assert more.predict(new)[0] == pytest.approx(mean, abs=0.05)
    assert more.predict(new)[1] < deviation


def test_two_processes_asked_at_once_answer_as_each_by_itself() -> None:
    x, more, far = sample(15), sample(4), sample(9)
    process = AdditiveProcess(TWO_GROUPS, x, np.sin(3 * x[:, 0]), np.full(15, 0.01))
    nothing = np.array([0.05] * 12 + [1e9] * 3 + [0.05] * 4)  # three points that say nothing
    wider = process.widened(more, np.array([0.0] * 15 + [-1.0] * 4), nothing)
    mean, deviation, other = process.predict_both(wider, far)
    np.testing.assert_allclose((mean, deviation), process.predict(far), rtol=1e-9)
    x, y = np.concatenate([x[:12], more]), np.array([0.0] * 12 + [-1.0] * 4)
    without = AdditiveProcess(TWO_GROUPS, x, y, np.full(16, 0.05), process._theta)
    np.testing.assert_allclose(other, without.predict(far)[0], atol=1e-6)


def test_the_means_of_its_own_points_are_what_it_predicts_there() -> None:
    x = sample(20)
    process = AdditiveProcess(TWO_GROUPS, x, np.sin(3 * x[:, 0]) + 0.1 * RNG.standard_normal(20), np.full(20, 0.01))
    np.testing.assert_allclose(process.means, process.predict(x)[0], atol=1e-9)
