"""Optimizers against each other on one application, from the studies that there are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from framework.model import Study, Trial
from framework.report.figure import figure, marked, svg


@dataclass(frozen=True, slots=True)
class Contender:
    """One optimizer on one kind of testbed.

    ``ratios``: of each study, the lowest value that the search saw over the default's: optimistic, for it is the best
    of many noisy values.  ``gains``: of each verdict, from fresh data.  ``curves``: lowest so far over the default's,
    after each configuration.  ``ask_s``: median seconds of an ask.
    """

    optimizer: str
    modelled: bool
    studies: int
    improvements: int
    gains: tuple[float, ...]
    ratios: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    ask_s: float | None

    @property
    def name(self) -> str:
        return f"{self.optimizer} (modelled)" if self.modelled else self.optimizer

    @property
    def gain(self) -> float | None:
        """The median of its verdicts."""
        return statistics.median(self.gains) if self.gains else None

    @property
    def ratio(self) -> float:
        """The median of its studies."""
        return statistics.median(self.ratios)


def contenders(found: Iterable[tuple[Study, Sequence[Trial]]]) -> list[Contender]:
    """Those with at least one study that has a default and a search, by name; measured and modelled ones apart."""
    groups: dict[tuple[str, bool], list[tuple[Study, Sequence[Trial]]]] = {}
    for study, trials in found:
        if len(_curve(trials)) > 1:
            groups.setdefault((study.plan.optimizer, study.modelled), []).append((study, trials))
    return [_contender(name, modelled, group) for (name, modelled), group in sorted(groups.items())]


def race_plot(found: Sequence[Contender]) -> str:
    """Lowest value so far over the default's against configurations tried; a thin line a study, a thick median."""
    drawing, axes = figure(7.6, 3.4)
    for one in found:
        [line] = axes.plot([], [], linewidth=2.2, label=one.name)
        for curve in one.curves:
            axes.step(range(len(curve)), curve, where="post", color=line.get_color(), linewidth=0.7, alpha=0.45)
        length = max(len(curve) for curve in one.curves)
        padded = np.array([[*curve, *[curve[-1]] * (length - len(curve))] for curve in one.curves])
        line.set_data(range(length), np.median(padded, axis=0))
        line.set_drawstyle("steps-post")
    axes.axhline(1.0, color="#9ca3af", linewidth=0.9, linestyle="--")
    axes.relim()
    axes.autoscale_view()
    axes.set_xlabel("configurations tried")
    axes.set_ylabel("lowest so far / default")
    axes.legend(frameon=False)
    drawn = svg(drawing)
    return marked(drawn, "some of it modelled, not measured") if any(one.modelled for one in found) else drawn


def _contender(name: str, modelled: bool, group: Sequence[tuple[Study, Sequence[Trial]]]) -> Contender:
    verdicts = [study.verdict for study, _ in group if study.verdict is not None]
    curves = tuple(tuple(_curve(trials)) for _, trials in group)
    searched = [one for _, trials in group for one in trials if one.purpose == "search"]
    asks = [one.phases["ask"] for one in searched if "ask" in one.phases]
    return Contender(
        optimizer=name,
        modelled=modelled,
        studies=len(group),
        improvements=sum(one.statement == "improvement" for one in verdicts),
        gains=tuple(one.gain.value for one in verdicts),
        ratios=tuple(curve[-1] for curve in curves),
        curves=curves,
        ask_s=statistics.median(asks) if asks else None,
    )


def _curve(trials: Sequence[Trial]) -> list[float]:
    """Empty where the default has no value, or one that ratios mean nothing of."""
    default = next((one.told_value for one in trials if one.purpose == "default" and one.told_value is not None), None)
    if default is None or default <= 0:
        return []
    lowest, curve = 1.0, [1.0]
    for one in trials:
        if one.purpose == "search":
            value = one.told_value if one.told_value is not None else math.inf
            lowest = min(lowest, value / default)
            curve.append(lowest)
    return curve
