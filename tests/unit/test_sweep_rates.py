"""The rates of a sweep: rising until one does not hold, then between it and the last that held; what it concludes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framework.model import Estimate, Step
from framework.study.sweep import conclude, rising_steps

P95 = Estimate(10.0, 9.0, 11.0, 100)


@pytest.mark.parametrize(
    ("holds", "rates"),
    [
        ({200.0: False}, [100.0, 200.0, 150.0, 175.0]),
        ({200.0: False, 150.0: False}, [100.0, 200.0, 150.0, 125.0]),
        ({200.0: False, 150.0: None}, [100.0, 200.0, 150.0]),  # disturbed: it does not lower the knee
        ({100.0: False}, [100.0, 50.0, 75.0, 87.5]),  # the first rate was too high
        ({100.0: False, 50.0: False, 25.0: False, 12.5: False}, [100.0, 50.0, 25.0, 12.5]),
        ({100.0: False, 50.0: None}, [100.0, 50.0, 25.0, 37.5, 43.8]),  # disturbed: it says nothing of lower ones
        ({100.0: None, 200.0: None, 400.0: None}, [100.0, 200.0, 400.0]),
        ({}, [100.0, 200.0, 400.0]),
        ({200.0: None}, [100.0, 200.0, 400.0]),
    ],
)
def test_the_rates_that_are_measured(holds: Mapping[float, bool | None], rates: list[float]) -> None:
    measured = rising_steps(
        lambda rate: Step(rate, P95, holds.get(rate, True), ""), start_rps=100.0, factor=2.0, maximum_rps=500.0
    )
    assert [step.rate_rps for step in measured] == rates


def test_a_machine_that_is_disturbed_three_times_is_left_alone() -> None:
    measured = rising_steps(lambda rate: Step(rate, None, None, ""), start_rps=1.0, factor=2.0, maximum_rps=500.0)
    assert [step.rate_rps for step in measured] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("second", "holds"),
    [(True, True), (False, False), (None, False)],  # the second window says more than one bad one
)
def test_a_rate_that_does_not_hold_is_measured_again(second: bool | None, holds: bool) -> None:
    answers = iter([True, False, second])
    measured = rising_steps(
        lambda rate: Step(rate, P95, next(answers), ""), start_rps=100.0, factor=2.0, maximum_rps=250.0, confirm=True
    )
    assert [(step.rate_rps, step.holds) for step in (next(measured), next(measured))] == [(100.0, True), (200.0, holds)]


def test_a_sweep_that_is_stopped_still_proposes_a_rate() -> None:
    sweep = conclude("shop", 50.0, [Step(100.0, P95, True, "")], stopped=True)
    assert (sweep.proposed_rps, sweep.stopped) == (60.0, True)
    assert sweep.statement == (
        "stopped before its end: no knee found; the highest rate that held is 100 requests/s (p95 limit 50 ms); tune "
        "at 60 requests/s or less"
    )


def test_what_fails_above_the_knee_is_said() -> None:
    steps = [Step(10.0, P95, True, ""), Step(20.0, None, False, "1 of 99 requests failed"), Step(30.0, None, False, "")]
    assert conclude("shop", 50.0, steps).statement == (
        "the knee is at 10 requests/s (p95 limit 50 ms; at 20: 1 of 99 requests failed); tune at 6 requests/s or less"
    )


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Step(2.0, P95, False, "p95 above 5 ms"), "at 2 requests/s p95 is 10 ms already: allow more than 5 ms"),
        (Step(2.0, None, False, "9 of 10 failed"), "at 2 requests/s: 9 of 10 failed; begin at a lower rate"),
        (Step(2.0, None, None, "stolen_cpu 0.4"), "every window was disturbed (stolen_cpu 0.4)"),
    ],
)
def test_a_sweep_without_a_rate_that_holds_says_what_to_do(step: Step, says: str) -> None:
    sweep = conclude("shop", 5.0, [step])
    assert sweep.proposed_rps is None
    assert says in sweep.statement


def test_low_rates_are_not_rounded_to_nothing() -> None:
    assert conclude("shop", 50.0, [Step(1.5, P95, True, "")]).proposed_rps == 0.9
