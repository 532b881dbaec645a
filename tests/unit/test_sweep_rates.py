"""The rates of a sweep: rising until one does not hold, then between it and the last that held."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framework.model import Estimate, Step
from framework.study.sweep import rising_steps

P95 = Estimate(10.0, 9.0, 11.0, 100)


@pytest.mark.parametrize(
    ("holds", "rates"),
    [
        ({200.0: False}, [100.0, 200.0, 150.0, 175.0]),
        ({200.0: False, 150.0: False}, [100.0, 200.0, 150.0, 125.0]),
        ({200.0: False, 150.0: None}, [100.0, 200.0, 150.0]),  # disturbed: it does not lower the knee
        ({100.0: False}, [100.0]),
        ({}, [100.0, 200.0, 400.0]),
        ({200.0: None}, [100.0, 200.0, 400.0]),
    ],
)
def test_the_rates_that_are_measured(holds: Mapping[float, bool | None], rates: list[float]) -> None:
    measured = rising_steps(
        lambda rate: Step(rate, P95, holds.get(rate, True), ""), start_rps=100.0, factor=2.0, maximum_rps=500.0
    )
    assert [step.rate_rps for step in measured] == rates
