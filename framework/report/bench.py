"""A race in tables and figures: ranks, differences that are more than chance, convergence, seconds per ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from framework.report.export import write_text
from framework.report.figure import figure, svg
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
    drawn = write_text(directory / "convergence.svg", convergence(runs))
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


def convergence(runs: Sequence[Run]) -> str:
    """Value over the default's by evaluations, median and quartiles over problems and seeds; an SVG."""
    names = sorted({one.optimizer for one in runs})
    drawn, axes = figure(7.0, 4.0)
    for name in names:
        mine = [np.array(one.values) / one.values[0] for one in runs if one.optimizer == name]
        length = min(len(values) for values in mine)
        stacked = np.stack([values[:length] for values in mine])
        low, middle, high = np.quantile(stacked, [0.25, 0.5, 0.75], axis=0)
        [line] = axes.plot(middle, label=name, linewidth=1.5)
        axes.fill_between(np.arange(length), low, high, alpha=0.08, color=line.get_color(), linewidth=0)
    axes.set_yscale("log")
    axes.set_xlabel("evaluations")
    axes.set_ylabel("true value / the default's")
    axes.legend(fontsize=7, ncols=2)
    return svg(drawn)
