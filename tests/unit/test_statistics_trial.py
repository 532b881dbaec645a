"""A trial's value, the pooled spread, and the correction for drift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import InputError
from framework.model import Measurement, Trial, TrialState
from framework.objective.trial import baseline_at, drift_corrected, pooled_spread, standard_error, trial_value
from optimizer.space import Configuration

positive = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=6)


def measurement(value: float | None, *, invalid: bool = False) -> Measurement:
    return Measurement(
        repetition=0, attempt=0, invalid=("disturbed",) if invalid else (), infeasible=(), value=value, quantities={},
        requests=1, failed_requests=0, achieved_rps=1, wanted_rps=1, lag_p99_ms=0, generator_p95_ms=1, spans_created=1,
        spans_read=1, stolen_cpu=0, pressure_cpu=0, cpu={}, service_cpu_s={}, services=(), statistics={}, phases={},
    )  # fmt: skip


def trial(number: int, *values: float) -> Trial:
    measurements = tuple(measurement(value) for value in values)
    state, value = TrialState.COMPLETED, trial_value(values)
    return Trial("s", number, "search", Configuration({}), state, value=value, measurements=measurements)


def test_the_value_is_the_geometric_mean() -> None:
    assert trial_value([2.0, 8.0]) == pytest.approx(4.0)
    assert trial_value([-100.0, -110.0]) == pytest.approx(-105.0)


@pytest.mark.parametrize("values", [[], [1.0, math.inf], [math.nan]])
def test_missing_data_is_no_number(values: list[float]) -> None:
    with pytest.raises(InputError):
        trial_value(values)


@settings(deadline=None)
@given(positive, st.floats(0.01, 100))
def test_the_value_lies_between_its_repetitions_and_follows_the_unit(values: list[float], unit: float) -> None:
    value = trial_value(values)
    assert min(values) * (1 - 1e-9) <= value <= max(values) * (1 + 1e-9)
    assert trial_value([value * unit for value in values]) == pytest.approx(value * unit)


def test_the_spread_pools_within_trials_only() -> None:
    spread = pooled_spread([[1.0, math.e], [100.0, 100 * math.e], [7.0]])
    assert spread is not None
    # Two trials, each with logarithms one apart: a variance of 1/2 each, whatever lies between the trials.
    assert spread.deviation == pytest.approx(math.sqrt(0.5))
    assert (spread.degrees, spread.log) == (2, True)
    assert pooled_spread([[1.0], [2.0]]) is None


def test_the_standard_error_uses_the_whole_study() -> None:
    others = [trial(1, 1.0, math.e), trial(2, 10.0, 10 * math.e)]
    assert standard_error(trial(3, 5.0), others) == pytest.approx(math.sqrt(0.5))
    # The trial itself counts once, though it may be among the others already.
    own = trial(2, 10.0, 10 * math.e)
    assert standard_error(own, others) == pytest.approx(math.sqrt(0.5 / 2))
    assert standard_error(trial(1, 5.0), []) is None


def test_the_error_of_a_negative_objective_is_relative() -> None:
    assert standard_error(trial(1, -100.0, -110.0), []) == pytest.approx(
        np.std([-100, -110], ddof=1) / math.sqrt(2) / 105
    )


def test_a_trial_without_a_valid_repetition_has_no_error() -> None:
    empty = Trial(
        "s", 1, "search", Configuration({}), TrialState.FAILED, measurements=(measurement(None, invalid=True),)
    )
    with pytest.raises(InputError):
        standard_error(empty, [])


def test_baselines_are_interpolated_on_logarithms() -> None:
    baselines = [(0.0, 1.0), (10.0, math.e)]
    assert baseline_at(5, baselines) == pytest.approx(0.5)
    assert baseline_at(0, baselines) == pytest.approx(0.0)
    # Past the last: the mean of the last two; before the first: of the first two.
    assert baseline_at(20, [*baselines, (15.0, math.e**3)]) == pytest.approx(2.0)
    assert baseline_at(-1, baselines) == pytest.approx(0.5)


def test_a_drift_common_to_both_cancels() -> None:
    # The machine becomes slower by 10 % with every trial; candidates are 20 % better than the default throughout.
    slow = {number: 1.1**number for number in range(11)}
    baselines = [trial(number, 10 * slow[number]) for number in (0, 5, 10)]
    told = [drift_corrected(trial(number, 8 * slow[number]), baselines) for number in (2, 3, 7)]
    assert told == pytest.approx([8.0, 8.0, 8.0])


def test_without_a_baseline_or_a_ratio_the_value_stands() -> None:
    assert drift_corrected(trial(1, 8.0), []) == pytest.approx(8.0)
    assert drift_corrected(trial(1, -8.0), [trial(0, -10.0)]) == pytest.approx(-8.0)


@settings(deadline=None)
@given(st.sets(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 20), st.floats(0.1, 100))
def test_steady_baselines_change_nothing(places: set[int], place: int, value: float) -> None:
    baselines = [trial(number, 10.0) for number in places]
    assert drift_corrected(trial(place, value), baselines) == pytest.approx(value)
