"""A fixed part of the fuzzing campaign (experiments/fuzz-traces): the same cases on every machine."""

from __future__ import annotations

import pytest

from tests.hostile_traces import campaign, case


def test_cases_are_reproducible() -> None:
    assert [case(1, number) for number in range(50)] == [case(1, number) for number in range(50)]


@pytest.mark.slow
def test_nothing_crashes_and_every_sum_is_right() -> None:
    outcome = campaign(1, lambda done: done < 40_000)  # half a minute; the long one is in experiments/fuzz-traces
    assert outcome.failed == []
    # The cases reach what they are for.
    assert outcome.traces > 1000
    assert {"malformed field", "missing parent", "duplicate span id", "roots other than one"} <= set(outcome.rejected)
