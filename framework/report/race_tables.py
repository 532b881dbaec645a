"""A race of optimizers in tables and figures: ranks, significant differences, convergence, time per ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from framework.config.writing import write_text
from framework.report.figure import BEST, BRIGHT, panels, svg
from optimizer.benchmark.race import Run
from optimizer.benchmark.statistics import Standing, against, standing


def standings(runs: Sequence[Run], checkpoints: Sequence[int]) -> Mapping[int, Standing]:
    """Rank the optimizers after each number of evaluations for which every one of them ran a common problem."""
    rankings = {}
    for evaluations in checkpoints:
        try:
            rankings[evaluations] = standing(runs, evaluations)
        except ValueError:
            continue
    return rankings


def write_tables(runs: Sequence[Run], directory: Path, title: str, ours: str = "") -> list[Path]:
    """Write ``tables.md`` and ``convergence.svg`` to ``directory``; return their paths."""
    longest = max(len(run.values) for run in runs) - 1
    checkpoints = sorted({n for n in (15, 30, 50, 100) if n <= longest} | {longest})
    rankings = standings(runs, checkpoints)
    text = [f"# {title}", "", *_ranks(rankings), "", *_milliseconds(runs)]
    for evaluations, ranking in rankings.items():
        reference = ours if ours in ranking.optimizers else next(iter(ranking.mean_ranks))
        if len(ranking.optimizers) > 1:
            text += ["", *_differences(ranking, reference, evaluations)]
    for family in sorted({run.family for run in runs}):
        chosen = [run for run in runs if run.family == family]
        text += ["", f"## {family}", "", *_ranks(standings(chosen, checkpoints))]
    tables = write_text(directory / "tables.md", "\n".join(text) + "\n")
    picture = write_text(directory / "convergence.svg", convergence(runs, ours))
    return [tables, picture]


def _ranks(rankings: Mapping[int, Standing]) -> list[str]:
    names = list(rankings[max(rankings)].mean_ranks)
    count = {n: len(ranking.problems) for n, ranking in rankings.items()}
    head = "| mean rank | " + " | ".join(f"after {n} ({count[n]} problems)" for n in rankings) + " |"
    rows = [
        "| " + name + " | " + " | ".join(f"{ranking.mean_ranks[name]:.2f}" for ranking in rankings.values()) + " |"
        for name in names
    ]
    return [head, "|---" * (len(rankings) + 1) + "|", *rows]


def _milliseconds(runs: Sequence[Run]) -> list[str]:
    rows = []
    for name in sorted({run.optimizer for run in runs}):
        asks = np.concatenate([np.array(run.ask_s[1:]) for run in runs if run.optimizer == name])
        failed = sum(run.failures for run in runs if run.optimizer == name)
        low, middle, high = 1e3 * np.quantile(asks, [0.25, 0.5, 0.95]) if len(asks) else (0.0, 0.0, 0.0)
        rows.append(f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} | {failed} |")
    return ["| ms per ask | 25 % | median | 95 % | failed trials |", "|---|---|---|---|---|", *rows]


def _differences(ranking: Standing, ours: str, evaluations: int) -> list[str]:
    rows = [f"| {d.optimizer} | {d.ratio:.3f} | {d.wins} : {d.losses} | {d.p:.2g} |" for d in against(ranking, ours)]
    head = f"| {ours} after {evaluations} against | ratio of values | wins : losses | p (Wilcoxon, Holm) |"
    return [head, "|---|---|---|---|", *rows]


def convergence(runs: Sequence[Run], ours: str = "") -> str:
    """Plot the value over the default's by evaluations, median and quartiles over problems and seeds, as an SVG.

    A panel for each optimizer, the lowest final median first; each also shows ``ours`` (without it: the best).
    """
    quartiles = {}
    for name in {run.optimizer for run in runs}:
        ratios = [np.array(run.values) / run.values[0] for run in runs if run.optimizer == name]
        length = min(len(values) for values in ratios)
        quartiles[name] = np.quantile(np.stack([values[:length] for values in ratios]), [0.25, 0.5, 0.75], axis=0)
    ranked = sorted(quartiles, key=lambda name: (quartiles[name][1][-1], name))
    ours = ours if ours in quartiles else ranked[0]
    others = [name for name in ranked if name != ours] or [ours]
    drawing, axes = panels(len(others), 4, 1.9, 1.7)
    for name, place in zip(others, axes, strict=True):
        for shown, colour in ((name, BRIGHT[0]), (ours, BEST)):
            low, middle, high = quartiles[shown]
            place.fill_between(np.arange(len(low)), low, high, alpha=0.25, color=colour, linewidth=0)
            place.plot(middle, color=colour, linewidth=1.6)
        place.set_yscale("log")
        place.set_title(name, fontsize=9)
    axes[0].legend([axes[0].lines[-1]], [ours], fontsize=7, frameon=False)
    drawing.supxlabel("evaluations", fontsize=9)
    drawing.supylabel("true value / the default's", fontsize=9)
    return svg(drawing)
