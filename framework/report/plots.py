"""The report's figures as SVG text: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.model import Sweep, Trial
from framework.report.figure import BAD, BEST, DEFAULT, OTHER, figure, labelled, svg
from optimizer.analysis.importance import Importance
from optimizer.space import SearchSpace


def convergence(trials: Sequence[Trial], objective: str, unit: str) -> str:
    """Plot every trial in order with its 95 % interval, the incumbent as a line, the default as a level."""
    drawing, axes = figure(7.6, 3.0)
    searched = [t for t in trials if t.purpose in ("default", "search", "drift")]
    incumbent: list[tuple[int, float]] = []
    for position, trial in enumerate(searched):
        if trial.told_value is None:
            axes.axvline(position, color=BAD, linewidth=0.8, linestyle=":")
            continue
        colour = DEFAULT if trial.purpose in ("default", "drift") else OTHER
        half = 1.96 * trial.standard_error if trial.standard_error is not None else 0.0
        low, high = trial.told_value * np.exp(-half), trial.told_value * np.exp(half)
        axes.plot([position, position], [low, high], color=colour, linewidth=1.6)
        axes.plot(position, trial.told_value, "o", color=colour, markersize=5)
        if trial.purpose != "drift":
            lowest = min(trial.told_value, incumbent[-1][1] if incumbent else np.inf)
            incumbent.append((position, lowest))
    if incumbent:
        axes.step(*zip(*incumbent, strict=True), where="post", color=BEST, linewidth=1.8, label="best so far")
        axes.axhline(incumbent[0][1], color=DEFAULT, linewidth=0.9, linestyle="--", label="default")
        axes.legend(frameon=False)
    axes.set_xticks(range(len(searched)), [str(t.number) for t in searched])
    axes.set_xlabel("trial (grey: default; dotted red: no value)")
    axes.set_ylabel(f"{objective} [{unit}]" if unit else objective)
    return svg(drawing)


def pairs(trials: Sequence[Trial], objective: str, unit: str) -> str:
    """Plot the verdict's pairs: default and best of each, joined by a line."""
    drawing, axes = figure(7.6, 2.8)
    arms = {label: _by_pair(trials, label) for label in ("default", "best")}
    for pair in sorted(arms["default"].keys() & arms["best"].keys()):
        values = [arms["default"][pair], arms["best"][pair]]
        axes.plot([pair + 1] * 2, values, color="#d1d5db", linewidth=1.5, zorder=1)
        axes.scatter([pair + 1] * 2, values, color=[DEFAULT, BEST], zorder=2, s=26)
    axes.scatter([], [], color=DEFAULT, label="default")
    axes.scatter([], [], color=BEST, label="best")
    axes.legend(frameon=False)
    axes.set_xticks([pair + 1 for pair in sorted(arms["default"].keys() & arms["best"].keys())])
    axes.set_xlabel("pair")
    axes.set_ylabel(f"{objective} [{unit}]" if unit else objective)
    axes.set_ylim(bottom=0)
    return svg(drawing)


def latency(samples: Mapping[str, Sequence[NDArray[np.float32]]]) -> str:
    """Plot the share of requests slower than a latency [ms], one thin line per repetition (they are never pooled)."""
    drawing, axes = figure(7.6, 3.0)
    for label, colour in (("default", DEFAULT), ("best", BEST)):
        for index, latencies in enumerate(samples.get(label, ())):
            values = np.sort(latencies[np.isfinite(latencies)])
            if not len(values):
                continue
            slower = 1.0 - np.arange(len(values)) / len(latencies)
            step = max(1, len(values) // 400)  # 400 points are enough; the last 40 are all kept below
            keep = np.r_[0 : len(values) : step, max(0, len(values) - 40) : len(values)]
            keep = np.unique(keep)
            axes.plot(
                values[keep], slower[keep], color=colour, linewidth=0.9, alpha=0.75, label=None if index else label
            )
    axes.axhline(0.05, color="#9ca3af", linewidth=0.8, linestyle=":")
    axes.text(axes.get_xlim()[1], 0.05, "p95 ", ha="right", va="bottom", color="#6b7280")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("end-to-end latency [ms], from the time a request was due")
    axes.set_ylabel("share of requests slower")
    axes.legend(frameon=False)
    return svg(drawing)


def services(default: Mapping[str, float], best: Mapping[str, float]) -> str:
    """Plot each service's share of the critical path, default against best (empty: not compared), largest first."""
    names = sorted(default.keys() | best.keys(), key=lambda name: max(default.get(name, 0.0), best.get(name, 0.0)))[
        -20:
    ]
    drawing, axes = figure(7.6, 0.6 + 0.27 * max(len(names), 3))
    places = np.arange(len(names))
    side = 0.2 if best else 0.0
    axes.barh(places + side, [default.get(n, 0.0) for n in names], height=0.38, color=DEFAULT, label="default")
    if best:
        axes.barh(places - side, [best.get(n, 0.0) for n in names], height=0.38, color=BEST, label="best")
    axes.set_yticks(places, names)
    axes.set_xlabel("share of the critical path: what requests waited for [%]")
    axes.legend(frameon=False, loc="lower right")
    return svg(drawing)


def bars(values: Mapping[str, float], label: str) -> str:
    """Plot horizontal bars in the order given: phases, CPU shares."""
    drawing, axes = figure(7.6, 0.6 + 0.26 * max(len(values), 2))
    names = list(values)[::-1]
    axes.barh(names, [values[name] for name in names], color=OTHER)
    for place, name in enumerate(names):
        axes.text(values[name], place, f" {values[name]:.2f}", va="center", fontsize=8)
    axes.set_xlabel(label)
    return svg(drawing)


def importances(ranked: Sequence[Importance], label: str) -> str:
    """Plot the 15 most important with their intervals; ``ranked``: the most important first."""
    shown = ranked[:15][::-1]
    drawing, axes = figure(7.6, 0.7 + 0.24 * max(2, len(shown)))
    axes.barh(range(len(shown)), [item.value for item in shown], color=OTHER)
    highs = [item.high if np.isfinite(item.high) else item.value for item in shown]
    axes.hlines(range(len(shown)), [item.low for item in shown], highs, color="#111827", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [item.name for item in shown])
    axes.set_xlabel(label)
    return svg(drawing)


def sweep_plot(sweep: Sweep) -> str:
    """Plot p95 against the rate, with its interval, the limit, the knee and the proposed rate."""
    drawing, axes = figure(7.6, 3.4)
    measured = [(step.rate_rps, step.p95) for step in sweep.steps if step.p95 is not None]
    rates = [rate for rate, _ in measured]
    axes.plot(rates, [p95.value for _, p95 in measured], "-o", color=BEST, markersize=4)
    axes.vlines(rates, [p95.low for _, p95 in measured], [p95.high for _, p95 in measured], color=BEST, linewidth=1.2)
    for step in sweep.steps:
        if step.p95 is None:
            axes.axvline(step.rate_rps, color=BAD, linewidth=0.8, linestyle=":")
    axes.axhline(sweep.limit_ms, color=BAD, linewidth=0.8, linestyle="--", label=f"limit {sweep.limit_ms:g} ms")
    if sweep.knee_rps is not None and sweep.proposed_rps is not None:
        axes.axvline(sweep.knee_rps, color=DEFAULT, linewidth=0.9, label=f"knee {sweep.knee_rps:g}/s")
        axes.axvline(
            sweep.proposed_rps, color=BEST, linewidth=0.9, linestyle="--", label=f"proposed {sweep.proposed_rps:g}/s"
        )
    axes.set_yscale("log")
    axes.set_xlabel("requests per second (dotted red: no value)")
    axes.set_ylabel("p95 [ms]")
    axes.set_title(f"{sweep.application}: rate sweep of the default configuration", loc="left")
    axes.legend(frameon=False)
    return labelled(svg(drawing)) if sweep.modelled else svg(drawing)


def sweeps_plot(sweeps: Mapping[str, Sweep]) -> str:
    """Plot p95 against the rate for several configurations of a model, with the limit and their knees."""
    drawing, axes = figure(7.6, 3.4)
    for (name, sweep), colour in zip(sweeps.items(), (DEFAULT, BEST, OTHER, BAD), strict=False):
        steps = [(step.rate_rps, step.p95) for step in sweep.steps if step.p95 and np.isfinite(step.p95.value)]
        knee = "none" if sweep.knee_rps is None else f"{sweep.knee_rps:g}/s"
        axes.plot(
            [rate for rate, _ in steps], [p95.value for _, p95 in steps], "-o", color=colour, markersize=4,
            label=f"{name}: knee {knee}",
        )  # fmt: skip
        for rate, p95 in steps:
            axes.vlines(rate, p95.low, p95.high, color=colour, linewidth=1.2)
        limit, application = sweep.limit_ms, sweep.application
    axes.axhline(limit, color=BAD, linewidth=0.8, linestyle="--", label=f"limit {limit:g} ms")
    axes.set_yscale("log")
    axes.set_xlabel("requests per second")
    axes.set_ylabel("p95 [ms]")
    axes.set_title(f"{application}: what its twin says", loc="left")
    axes.legend(frameon=False)
    return labelled(svg(drawing))


def parallel(trials: Sequence[Trial], names: Sequence[str], space: Mapping[str, Any]) -> str:
    """Plot parallel coordinates: a line for each trial over its parameters and told value, the best third dark.

    ``trials`` have told values; ``space`` is ``SearchSpace.to_dict()``.
    """
    parameters = {parameter.name: parameter for parameter in SearchSpace.from_dict(space).parameters}
    shown = [name for name in names if name in parameters]
    told = np.array([float(trial.told_value or 0.0) for trial in trials])
    span = float(np.ptp(told)) or 1.0
    drawing, axes = figure(7.6, 3.2)
    order = np.argsort(-told)  # the best are drawn last
    for place in order.tolist():
        configuration = trials[place].configuration
        row = [parameters[name].to_unit(configuration[name]) for name in shown if name in configuration]
        if len(row) < len(shown):
            continue
        best = told[place] <= np.quantile(told, 1 / 3)
        height = (told[place] - float(told.min())) / span
        axes.plot([*row, height], color=BEST if best else OTHER, linewidth=1.4 if best else 0.8, alpha=0.85)
    axes.set_xticks(range(len(shown) + 1), [*(name.replace(".", "\n") for name in shown), "objective"], fontsize=7)
    axes.set_yticks([0, 1], ["low", "high"])
    for place in range(len(shown) + 1):
        axes.axvline(place, color="#d1d5db", linewidth=0.6, zorder=0)
    return svg(drawing)


def _by_pair(trials: Sequence[Trial], label: str) -> dict[int, float]:
    chosen = [t for t in trials if t.purpose == "verdict" and t.label == label]
    return {t.pair: t.value for t in chosen if t.pair is not None and t.value is not None}
