"""The figure of what a service suffers."""

from __future__ import annotations

from framework.placement.slowdowns import Slowdown
from framework.report.figure import BRIGHT
from framework.report.sensitivity import sensitivity_plot


def test_every_stressor_of_the_service_is_drawn() -> None:
    names = [f"stressor{number}" for number in range(len(BRIGHT) + 2)]
    slowdowns = [Slowdown("a", name, level, 1.0 + level, 2.0, 1.0, 3.0, 2) for name in names for level in (0.5, 1.0)]
    drawn = sensitivity_plot("a", [*slowdowns, Slowdown("b", "other", 1.0, 9.0, 9.0, 9.0, 9.0, 1)], "at 10 requests/s")
    assert all(name in drawn for name in names)
    assert "other" not in drawn
    assert "a: at 10 requests/s" in drawn
