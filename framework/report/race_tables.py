"""A race in tables and figures: ranks, differences that are more than chance, convergence, seconds per ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from framework.config.writing import write_text
from framework.report.figure import BEST, BRIGHT, panels, svg
from optimizer.benchmark.race import Run
from optimizer.benchmark.statistics import Standing, against, standing


def standings(runs: Sequence[Run], checkpoints: Sequence[int]) -> Mapping[int, Standing]:
    """After each number of evaluations that some problem was run for by every optimizer."""
    found = {}
    for evaluations in checkpoints:
        try:
            found[evaluations] = standing(runs, evaluations)
        except ValueError:
            continue
    return found


def write_tables(runs: Sequence[Run], directory: Path, title: str, ours: str = "") -> list[Path]:
    """``tables.md`` and ``convergence.svg`` in ``directory``; returns their paths."""
    longest = max(len(one.values) for one in runs) - 1
    checkpoints = sorted({n for n in (15, 30, 50, 100) if n <= longest} | {longest})
    found = standings(runs, checkpoints)
    text = [f"# {title}", "", *_ranks(found), "", *_seconds(runs)]
    for evaluations, one in found.items():
        reference = ours if ours in one.optimizers else next(iter(one.mean_ranks))
        if len(one.optimizers) > 1:
            text += ["", *_differences(one, reference, evaluations)]
    for family in sorted({one.family for one in runs}):
        chosen = [one for one in runs if one.family == family]
        text += ["", f"## {family}", "", *_ranks(standings(chosen, checkpoints))]
    tables = write_text(directory / "tables.md", "\n".join(text) + "\n")
    drawn = write_text(directory / "convergence.svg", convergence(runs, ours))
    return [tables, drawn]


def _ranks(found: Mapping[int, Standing]) -> list[str]:
    names = list(found[max(found)].mean_ranks)
    count = {n: len(one.problems) for n, one in found.items()}
    head = "| mean rank | " + " | ".join(f"after {n} ({count[n]} problems)" for n in found) + " |"
    rows = [
        "| " + name + " | " + " | ".join(f"{one.mean_ranks[name]:.2f}" for one in found.values()) + " |"
        for name in names
    ]
    return [head, "|---" * (len(found) + 1) + "|", *rows]


def _seconds(runs: Sequence[Run]) -> list[str]:
    rows = []
    for name in sorted({one.optimizer for one in runs}):
        asks = np.concatenate([np.array(one.ask_s[1:]) for one in runs if one.optimizer == name])
        failed = sum(one.failures for one in runs if one.optimizer == name)
        low, middle, high = 1e3 * np.quantile(asks, [0.25, 0.5, 0.95]) if len(asks) else (0.0, 0.0, 0.0)
        rows.append(f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} | {failed} |")
    return ["| ms per ask | 25 % | median | 95 % | failed trials |", "|---|---|---|---|---|", *rows]


def _differences(one: Standing, ours: str, evaluations: int) -> list[str]:
    rows = [f"| {d.optimizer} | {d.ratio:.3f} | {d.wins} : {d.losses} | {d.p:.2g} |" for d in against(one, ours)]
    head = f"| {ours} after {evaluations} against | ratio of values | wins : losses | p (Wilcoxon, Holm) |"
    return [head, "|---|---|---|---|", *rows]


def convergence(runs: Sequence[Run], ours: str = "") -> str:
    """Value over the default's by evaluations, median and quartiles over problems and seeds; an SVG.

    A panel for each optimizer, the best at the end first, with ``ours`` (or else the best) in each to compare with.
    """
    quartiles = {}
    for name in {one.optimizer for one in runs}:
        mine = [np.array(one.values) / one.values[0] for one in runs if one.optimizer == name]
        length = min(len(values) for values in mine)
        quartiles[name] = np.quantile(np.stack([values[:length] for values in mine]), [0.25, 0.5, 0.75], axis=0)
    ranked = sorted(quartiles, key=lambda name: (quartiles[name][1][-1], name))
    ours = ours if ours in quartiles else ranked[0]
    others = [name for name in ranked if name != ours] or [ours]
    drawn, axes = panels(len(others), 4, 1.9, 1.7)
    for name, place in zip(others, axes, strict=True):
        for shown, colour in ((name, BRIGHT[0]), (ours, BEST)):
            low, middle, high = quartiles[shown]
            place.fill_between(np.arange(len(low)), low, high, alpha=0.25, color=colour, linewidth=0)
            place.plot(middle, color=colour, linewidth=1.6)
        place.set_yscale("log")
        place.set_title(name, fontsize=9)
    axes[0].legend([axes[0].lines[-1]], [ours], fontsize=7, frameon=False)
    drawn.supxlabel("evaluations", fontsize=9)
    drawn.supylabel("true value / the default's", fontsize=9)
    return svg(drawn)
