"""A comparison of optimizers on one application, from its studies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from framework.model import Study, Trial
from framework.report.figure import figure, labelled, svg


@dataclass(frozen=True, slots=True)
class Contender:
    """One optimizer on measured or on modelled testbeds.

    ``ratios``: for each study, the lowest value of the search over the default's; it is optimistic, as the minimum of
    many noisy values.  ``gains``: of each verdict, from fresh data.  ``curves``: the lowest value so far over the
    default's, after each configuration.  ``ask_s``: median seconds of an ask.
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
        """The median gain of its verdicts; None without one."""
        return statistics.median(self.gains) if self.gains else None

    @property
    def ratio(self) -> float:
        """The median ratio of its studies."""
        return statistics.median(self.ratios)


def contenders(studies: Iterable[tuple[Study, Sequence[Trial]]]) -> list[Contender]:
    """Group studies with a default and a search by optimizer, sorted by name; measured and modelled ones apart."""
    groups: dict[tuple[str, bool], list[tuple[Study, Sequence[Trial]]]] = {}
    for study, trials in studies:
        if len(_curve(trials)) > 1:
            groups.setdefault((study.plan.optimizer, study.modelled), []).append((study, trials))
    return [_contender(name, modelled, group) for (name, modelled), group in sorted(groups.items())]


def race_plot(contenders: Sequence[Contender]) -> str:
    """Plot the lowest value so far over the default's: a thin line for each study, a thick one for the median."""
    drawing, axes = figure(7.6, 3.4)
    for contender in contenders:
        [line] = axes.plot([], [], linewidth=2.2, label=contender.name)
        for curve in contender.curves:
            axes.step(range(len(curve)), curve, where="post", color=line.get_color(), linewidth=0.7, alpha=0.45)
        length = max(len(curve) for curve in contender.curves)
        padded = np.array([[*curve, *[curve[-1]] * (length - len(curve))] for curve in contender.curves])
        line.set_data(range(length), np.median(padded, axis=0))
        line.set_drawstyle("steps-post")
    axes.axhline(1.0, color="#9ca3af", linewidth=0.9, linestyle="--")
    axes.relim()
    axes.autoscale_view()
    axes.set_xlabel("configurations tried")
    axes.set_ylabel("lowest so far / default")
    axes.legend(frameon=False)
    picture = svg(drawing)
    modelled = any(contender.modelled for contender in contenders)
    return labelled(picture, "some of it modelled, not measured") if modelled else picture


def _contender(name: str, modelled: bool, group: Sequence[tuple[Study, Sequence[Trial]]]) -> Contender:
    verdicts = [study.verdict for study, _ in group if study.verdict is not None]
    curves = tuple(tuple(_curve(trials)) for _, trials in group)
    searched = [trial for _, trials in group for trial in trials if trial.purpose == "search"]
    asks = [trial.phases["ask"] for trial in searched if "ask" in trial.phases]
    return Contender(
        optimizer=name,
        modelled=modelled,
        studies=len(group),
        improvements=sum(verdict.statement == "improvement" for verdict in verdicts),
        gains=tuple(verdict.gain.value for verdict in verdicts),
        ratios=tuple(curve[-1] for curve in curves),
        curves=curves,
        ask_s=statistics.median(asks) if asks else None,
    )


def _curve(trials: Sequence[Trial]) -> list[float]:
    """Return the lowest value so far over the default's, by configuration; empty without a positive default."""
    default = next((t.told_value for t in trials if t.purpose == "default" and t.told_value is not None), None)
    if default is None or default <= 0:
        return []
    lowest, curve = 1.0, [1.0]
    for trial in trials:
        if trial.purpose == "search":
            value = trial.told_value if trial.told_value is not None else math.inf
            lowest = min(lowest, value / default)
            curve.append(lowest)
    return curve
