"""Comparisons at equal speed claim no more than they may, and see what the plain ones cannot.

Study after study is drawn: search trials with three windows each, then pairs; the machine's speed varies between
windows, latency follows it by a power, and has noise of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from framework.model import Objective, Study, StudyPlan, StudyState, Term, Trial, Verdict
from framework.report.speed import equal_speed
from framework.testing.pretend import MACHINE
from tests.unit.test_objective_speed import trial

STUDIES = 1_000
PAIRS = 10
PLAN = StudyPlan("app", "random", {}, 8, 3, 5.0, 10.0, 100.0, 1, PAIRS)
P95 = Objective((Term("p95", 1.0),))


def verdict(rng: np.random.Generator, ratio: float, slope: float) -> Verdict:
    """Return the verdict at equal speed of a study whose best has ``ratio`` times the default's value."""

    def windows(level: float, count: int) -> list[tuple[float, float]]:
        slow = rng.normal(4.0, 0.1, count)
        values = level * np.exp(slope * (slow - 4.0) + rng.normal(0.0, 0.04, count))
        return list(zip(slow.tolist(), values.tolist(), strict=True))

    levels = [10.0 * ratio, *(10.0 + number for number in range(2, 9))]  # the first is the best
    trials: list[Trial] = [trial(number, windows(level, 3), number) for number, level in enumerate(levels, start=1)]
    for pair in range(PAIRS):
        for label, level in (("default", 10.0), ("best", 10.0 * ratio)):
            measured = trial(len(trials) + 1, windows(level, 1), 0 if label == "default" else 1)
            trials.append(replace(measured, purpose="verdict", label=label, pair=pair))
    study = Study("s", "now", StudyState.COMPLETED, PLAN, "0", {}, MACHINE, {}, "docker", best=1)
    comparison = equal_speed(study, trials, P95)
    assert comparison is not None
    assert comparison.verdict is not None
    return comparison.verdict


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("slope", [0.0, 1.4, 2.5])
def test_where_nothing_is_better_few_claim_it(slope: float) -> None:
    """At most 5 % of the studies, and no more than chance allows above (one-sided, 1 in 10,000)."""
    rng = np.random.default_rng(1)
    verdicts = [verdict(rng, 1.0, slope) for _ in range(STUDIES)]
    claims = sum(answer.statement != "no improvement shown" for answer in verdicts)
    assert claims <= stats.binom.ppf(1 - 1e-4, STUDIES, 0.05), claims


@pytest.mark.slow
@pytest.mark.statistical
def test_the_interval_covers_the_truth_and_is_narrow() -> None:
    rng = np.random.default_rng(2)
    verdicts = [verdict(rng, 0.94, 1.4) for _ in range(STUDIES)]
    covered = sum(answer.log_ratio.low <= math.log(0.94) <= answer.log_ratio.high for answer in verdicts)
    assert covered >= stats.binom.ppf(1e-4, STUDIES, 0.95), covered
    assert np.median([answer.log_ratio.high - answer.log_ratio.low for answer in verdicts]) < 0.1
    assert sum(answer.statement == "improvement" for answer in verdicts) > 0.8 * STUDIES
