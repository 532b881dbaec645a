"""The correction for the machine's speed: it takes out of values the part that the speed explains, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.model import Objective, Term, Trial, TrialState
from framework.objective.speed import PRIOR_MEAN, at_speed, sensitivity, slowness, typical
from framework.objective.trial import trial_value
from optimizer.space import Configuration
from tests.unit.test_statistics_trial import measurement

P95 = Objective((Term("p95", 1.0),))


def trial(number: int, windows: Sequence[tuple[float, float]], arm: int = 0, *, known: bool = True) -> Trial:
    """``windows``: (logarithm of the slowness, value)."""
    measurements = tuple(
        replace(measurement(value), tick_us=math.exp(slow) if known else None) for slow, value in windows
    )
    value = trial_value([value for _, value in windows])
    return Trial("s", number, "search", Configuration({"a": arm}), TrialState.COMPLETED, value=value,
                 measurements=measurements)  # fmt: skip


def study(slope: float, noise: float, trials: int = 20, seed: int = 1) -> list[Trial]:
    """Trials of three windows; their true values are 10, 11, 12, ..., and the machine's speed varies by 10 %."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(trials):
        slow = rng.normal(4.0, 0.1, 3)
        values = (10.0 + number) * np.exp(slope * (slow - 4.0) + rng.normal(0.0, noise, 3))
        made.append(trial(number + 1, list(zip(slow.tolist(), values.tolist(), strict=True)), number))
    return made


@pytest.mark.parametrize("slope", [0.5, 1.0, 1.8])
def test_the_slope_is_found_whatever_the_configurations_values_are(slope: float) -> None:
    sensed = sensitivity(study(slope, 0.03), P95)
    assert sensed is not None
    assert abs(sensed.slope - slope) < 4 * sensed.error
    assert sensed.windows == 60
    assert sensed.explained > 0.5


def test_values_at_equal_speed_lie_closer_to_the_truth() -> None:
    trials = study(1.4, 0.03)
    sensed, reference = sensitivity(trials, P95), typical(trials)
    truth = np.log(10.0 + np.arange(20))

    def spread(values: Sequence[Trial]) -> float:
        return float(np.std(np.log([measurement.value or 0.0 for measurement in values]) - truth))

    adjusted = [at_speed(measured, sensed, reference) for measured in trials]
    assert spread(adjusted) < 0.5 * spread(trials)
    for at_equal_speed in adjusted:
        assert at_equal_speed.value == pytest.approx(trial_value([m.value or 0.0 for m in at_equal_speed.measurements]))


def test_a_machine_that_tells_nothing_changes_little() -> None:
    """Windows that do not go with the speed: the slope found is near zero, however much was believed."""
    sensed = sensitivity(study(0.0, 0.02), P95)
    assert sensed is not None
    assert abs(sensed.slope) < 0.15
    assert sensed.explained < 0.1


def test_before_anything_is_known_what_is_believed_counts() -> None:
    sensed = sensitivity([trial(1, [(4.0, 10.0)])], P95)
    assert sensed is not None
    assert sensed.slope == PRIOR_MEAN


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-2.0, 8.0), st.floats(0.1, 1e3)), min_size=1, max_size=5), st.floats(-1.0, 1.0))
def test_a_machine_that_is_slower_throughout_changes_nothing(windows: list[tuple[float, float]], by: float) -> None:
    """Slope and ratios depend on differences of the speed only."""
    before, after = trial(1, windows), trial(1, [(slow + by, value) for slow, value in windows])
    first, second = sensitivity([before], P95), sensitivity([after], P95)
    assert first is not None
    assert second is not None
    assert first.slope == pytest.approx(second.slope, rel=1e-6, abs=1e-9)
    adjusted, adjusted_slower = at_speed(before, first, typical([before])), at_speed(after, second, typical([after]))
    assert adjusted.value == pytest.approx(adjusted_slower.value)
    assert adjusted.value == pytest.approx(before.value), "the reference is its own speed"


def test_what_was_not_measured_stays_as_it_is() -> None:
    unknown = trial(1, [(4.0, 10.0), (4.1, 11.0)], known=False)
    assert sensitivity([unknown], P95) is None
    assert typical([unknown]) is None
    some = study(1.0, 0.01)
    assert at_speed(unknown, sensitivity(some, P95), typical(some)) is unknown
    assert slowness(measurement(1.0)) is None


def test_only_latencies_follow_the_speed() -> None:
    assert sensitivity(study(1.0, 0.01), Objective((Term("throughput", -1.0),))) is None
