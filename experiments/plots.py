"""Figures of the experiments' gains, with the paper's numbers next to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from framework.report.figure import BEST, DEFAULT, figure, svg

Expected: TypeAlias = "float | Sequence[float]"
"""A fraction, or the least and the largest of several."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Of an arm over the default, as fractions: the value, its interval, and single results where there are some."""

    value: float
    low: float
    high: float
    single: Sequence[float] = ()


def gains_figure(gains: Mapping[str, Gain], paper: Mapping[str, Expected], label: str) -> str:
    """A row for each arm, with the paper's number where it has one; an SVG.  ``label``: what value and interval are."""
    made, axes = figure(7.0, 0.3 * len(gains) + 0.9)
    axes.axvline(0.0, color=DEFAULT, linewidth=0.8)
    for row, gain in enumerate(gains.values()):
        axes.plot([100 * value for value in gain.single], [row] * len(gain.single), "|", color=DEFAULT, alpha=0.5)
        axes.plot([100 * gain.low, 100 * gain.high], [row, row], color=BEST, linewidth=2)
        axes.plot(100 * gain.value, row, "o", color=BEST, label=label if row == 0 else None)
    told = {name: _ends(paper[name]) for name in gains if name in paper}
    for number, (name, ends) in enumerate(told.items()):
        row = list(gains).index(name)
        axes.plot(
            [100 * end for end in ends], [row + 0.25] * len(ends), "D-", color="black", markersize=4, fillstyle="none",
            label="the paper, on its application" if number == 0 else None,
        )  # fmt: skip
    axes.set_yticks(range(len(gains)), list(gains))
    axes.invert_yaxis()
    axes.set_xlabel("gain of p95 over the default [%]")
    made.legend(frameon=False, loc="outside lower center", ncols=2)
    return svg(made)


def _ends(expected: Expected) -> list[float]:
    return [expected] if isinstance(expected, int | float) else [min(expected), max(expected)]
