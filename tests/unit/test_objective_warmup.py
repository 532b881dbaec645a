"""The length of the warm-up: MSER on made-up levels, and on runs that settle, or do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import InputError, MeasurementInvalid
from framework.objective.warmup import level, mser, warmup_s
from tests.runs import run


def test_a_level_that_starts_high_is_cut_where_it_settles() -> None:
    assert mser([9, 7, 5, *[1, 2] * 20]) == 3


def test_a_steady_level_is_not_cut() -> None:
    assert mser([4.0] * 30) == 0


def test_a_few_alike_bins_at_the_end_do_not_attract_the_cut() -> None:
    assert mser([*[1, 2] * 20, 1, 1, 1, 1]) < 36


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=6, max_size=60))
def test_no_other_cut_leaves_a_smaller_error(bins: list[float]) -> None:
    def error(cut: int) -> float:
        left = np.array(bins[cut:])
        return float(left.var() / len(left))

    assert error(mser(bins)) <= min(error(cut) for cut in range(len(bins) - 5)) + 1e-9


def test_too_few_bins() -> None:
    with pytest.raises(InputError):
        mser([1, 2, 3, 4, 5])


def settling(seed: int, settled_s: float, *, requests: int = 5000) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Log-normal latencies at 200 requests/s, four times as slow at first, falling to their level by ``settled_s``."""
    rng = np.random.default_rng(seed)
    at_s = np.arange(requests) / 200
    return np.exp(rng.normal(np.log(5), 0.5, requests)) * (1 + 3 * np.clip(1 - at_s / settled_s, 0, 1))


def test_the_warm_up_of_a_run_that_settles() -> None:
    runs = [run(settling(seed, 4.0)) for seed in range(3)]
    assert 3.0 <= warmup_s(runs) <= 5.0


def test_a_steady_run_needs_next_to_none() -> None:
    steady = np.exp(np.random.default_rng(5).normal(np.log(5), 0.5, 5000))
    assert warmup_s([run(steady)]) <= 1.0


def test_a_run_that_never_settles_is_refused() -> None:
    with pytest.raises(MeasurementInvalid, match="had not settled by the middle"):
        warmup_s([run(settling(1, 25.0) ** 2)])


def test_bins_without_a_good_reply_are_left_out() -> None:
    load = run(np.where(np.arange(5000) // 40 == 3, np.inf, 5.0))
    assert np.flatnonzero(np.isnan(level(load))).tolist() == [3]
    assert warmup_s([load]) == 0.0


def test_no_reply_no_warm_up() -> None:
    load = run(np.full(5000, 5.0))
    with pytest.raises(MeasurementInvalid, match="0 of 125 bins"):
        warmup_s([replace(load, ok=np.zeros(5000, dtype=np.bool_))])
    with pytest.raises(InputError):
        warmup_s([])
