"""Optimizers against each other, from recorded studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from framework.model import Study, StudyPlan, StudyState, Trial, TrialState
from framework.report.optimizer_comparison import contenders, race_plot
from framework.testing.pretend import MACHINE
from optimizer.space import Configuration


def study(optimizer: str, testbed: str = "docker") -> Study:
    plan = StudyPlan("apps/shop", optimizer, {}, 3, 1, 5.0, 20.0, 100.0, 1, 10)
    return Study(
        "s", "2026-01-01T00:00:00", StudyState.COMPLETED, plan, "", {}, MACHINE, {}, testbed, modelled=testbed == "twin"
    )


def trials(*values: float | None) -> Sequence[Trial]:
    """The default, then the search."""
    searched = [
        Trial("s", number, "search", Configuration({}), TrialState.COMPLETED, told_value=value, phases={"ask": 0.5})
        for number, value in enumerate(values, start=1)
    ]
    return [replace(searched[0], purpose="default"), *searched[1:]]


def test_optimizers_are_put_side_by_side() -> None:
    optimizers = contenders(
        [
            (study("dds"), trials(10.0, 12.0, None, 8.0)),
            (study("dds"), trials(20.0, 10.0)),
            (study("dds", "twin"), trials(10.0, 9.0)),
            (study("random"), trials(None, 3.0)),
            (study("random"), trials(-5.0, -6.0)),
            (study("tpe"), trials(10.0)),
        ]
    )
    assert [optimizer.name for optimizer in optimizers] == ["dds", "dds (modelled)"], (
        "without a default or a search there is no ratio"
    )
    measured = optimizers[0]
    assert measured.curves == ((1.0, 1.0, 1.0, 0.8), (1.0, 0.5))
    assert measured.ratio == pytest.approx(0.65)
    assert (measured.studies, measured.improvements, measured.gain, measured.ask_s) == (2, 0, None, 0.5)
    assert "modelled, not measured" in race_plot(optimizers)
    assert "modelled" not in race_plot(optimizers[:1])
