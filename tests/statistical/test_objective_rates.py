"""Coverage of the intervals, and rates of alarm of the check of stationarity on queues that remember.

Fixed seeds; bounds are 99.9 % quantiles of binomial counts.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from framework.model.estimates import quantile
from framework.objective.stationarity import change

pytestmark = pytest.mark.statistical

BURN_IN = 2000


def sojourn_times(rng: np.random.Generator, requests: int, load: float) -> NDArray[np.float64]:
    """Times in an M/M/1 queue in its steady state, in units of the mean service time (Lindley's recursion)."""
    service = rng.exponential(1, requests + BURN_IN)
    steps = service[:-1] - rng.exponential(1 / load, requests + BURN_IN - 1)
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    times: NDArray[np.float64] = (walk - np.minimum.accumulate(walk) + service)[BURN_IN:]
    return times


@pytest.mark.parametrize(("samples", "probability"), [(100, 0.95), (1000, 0.95), (1000, 0.5), (500, 0.99)])
def test_quantile_intervals_cover(samples: int, probability: float) -> None:
    rng = np.random.default_rng([20260106, samples])
    truth = -np.log(1 - probability)
    missed = 0
    for _ in range(2000):
        interval = quantile(rng.exponential(1, samples), probability)
        missed += not interval.low <= truth <= interval.high
    assert missed <= stats.binom.ppf(0.999, 2000, 0.05)


def test_a_queue_at_rest_is_stationary() -> None:
    rng = np.random.default_rng(20260107)
    windows = [change(sojourn_times(rng, 4000, 0.6), alpha=0.001, relative=0.5) for _ in range(1000)]
    alarms = sum(shift is not None and shift.moved for shift in windows)
    assert alarms < 10  # under 1 %


def test_independent_latencies_keep_to_alpha() -> None:
    # At alpha 1 %, where a thousand windows can tell; without the demand for a relevant change.
    rng = np.random.default_rng(20260108)
    windows = [change(rng.exponential(1, 4000), alpha=0.01, relative=0.0) for _ in range(1000)]
    alarms = sum(shift is not None and shift.moved for shift in windows)
    assert alarms <= stats.binom.ppf(0.999, 1000, 0.01)


def test_a_queue_that_becomes_three_times_as_slow_is_not() -> None:
    rng = np.random.default_rng(20260109)
    ramp = np.linspace(1, 3, 4000)
    windows = [change(sojourn_times(rng, 4000, 0.6) * ramp, alpha=0.001, relative=0.5) for _ in range(200)]
    alarms = sum(shift is not None and shift.moved for shift in windows)
    assert alarms >= 180
