"""A study's report: one self-contained HTML page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from numpy.typing import NDArray

from framework.critical_path.comparison import windows
from framework.critical_path.reduce import overlap
from framework.model import Estimate, Measurement, Trial
from framework.report import plots
from framework.report.arms import arm, chosen, fresh
from framework.report.figure import labelled
from framework.report.rates import at_highest, at_highest_in_words, rates_in_words
from framework.report.search_model import model_lines, predictions
from framework.report.summary import Summary
from framework.report.trace_plots import contrast
from framework.study.importance import SCREENING, importance
from optimizer.analysis.importance import Explained

MODEL_FIT = "How well the model predicts"
ENVIRONMENT = Environment(
    loader=PackageLoader("framework.report", "templates"),
    autoescape=select_autoescape(),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(summary: Summary, trials: Sequence[Trial]) -> str:
    """Write the HTML page of a study in any state; it loads nothing from elsewhere."""
    return ENVIRONMENT.get_template("study.html").render(contents(summary, trials, importance(summary.study, trials)))


def contents(summary: Summary, trials: Sequence[Trial], explained: Explained | None) -> dict[str, Any]:
    """Return the variables of a study's template; ``explained``: importances, which take longest to compute."""
    return {
        "summary": summary,
        "study": summary.study,
        "trials": trials,
        "figures": _figures(summary, trials, explained),
        "checks": _checks(trials),
        "interval": interval,
        "overlap": overlap,
        "rates": rates_in_words(summary.study.plan),
        "figure_lines": {MODEL_FIT: model_lines(summary.model, summary.study)},
    }


def _figures(summary: Summary, trials: Sequence[Trial], explained: Explained | None) -> dict[str, Markup]:
    """Draw title -> SVG, for every figure that there are data for."""
    figures = {"Convergence": plots.convergence(trials, summary.objective, summary.unit)}
    best_trial = chosen(summary.study, trials)
    plan = summary.study.plan
    default, best = (at_highest(plan, arm(trials, label, best_trial)) for label in ("default", "best"))
    at = at_highest_in_words(plan)
    if default and best:
        figures["Verdict: fresh pairs"] = plots.pairs(fresh(trials, best_trial), summary.objective, summary.unit)
        figures[f"Latency distribution{at}"] = plots.latency({"default": _samples(default), "best": _samples(best)})
        figures[f"Time in each service{at}"] = plots.services(_shares(default), _shares(best))
        if all(m.services for m in (*default, *best)):
            figures[f"Where the difference comes from{at}"] = contrast(windows(default, best), "default", "best")
    elif any(t.measurements for t in trials):
        own = [m for t in trials if t.purpose == "default" for m in t.measurements if not m.invalid]
        valid = at_highest(plan, own)
        if _samples(valid):
            figures[f"Latency distribution{at}"] = plots.latency({"default": _samples(valid)})
        figures[f"Time in each service{at}"] = plots.services(_shares(valid), {})
    figures |= _importance(summary, explained)
    if summary.model is not None:
        figures[MODEL_FIT] = predictions(summary.model, summary.objective, summary.unit)
    if summary.phases:
        figures["Where a repetition's time goes"] = plots.bars(summary.phases, "seconds per repetition, mean")
    if summary.cpu:
        shares = {name: 100 * share for name, share in summary.cpu.items()}
        figures["CPU during the window"] = plots.bars(shares, "share of the machine [%], mean")
    if summary.study.modelled:
        figures = {title: labelled(svg) for title, svg in figures.items()}
    return {title: Markup(svg) for title, svg in figures.items()}  # our own SVG, no user text unescaped


def _importance(summary: Summary, explained: Explained | None) -> dict[str, str]:
    if explained is None:
        return {}
    if summary.study.plan.optimizer == SCREENING:
        label = "mean absolute change of log(objective) when the service moves; lines: 95 % intervals"
        return {"What mattered: screening, service by service": plots.importances(explained.groups, label)}
    if explained.explained <= 0:
        return {}  # a model that predicts no better than the mean explains nothing
    label = (
        f"fraction of the variance lost without it; the model explains {explained.explained:.0%} of trials that it "
        f"has not seen\n({explained.trials} trials; lines: 95 % intervals over resampled trials)"
    )
    tied = {"What mattered: tied parameters (in how many services)": plots.importances(explained.tied, label)}
    return {
        "What mattered: services": plots.importances(explained.groups, label),
        **(tied if explained.tied else {}),
        "What mattered: parameters": plots.importances(explained.parameters, label),
    }


def _samples(measurements: Sequence[Measurement]) -> list[NDArray[np.float32]]:
    return [m.latencies_ms for m in measurements if len(m.latencies_ms)]


def _shares(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Return service -> mean share of the critical path, percent."""
    rows = [{s.service: 100 * s.share.value for s in m.services} for m in measurements]
    names = {name for row in rows for name in row}
    return {name: statistics.mean(row.get(name, 0.0) for row in rows) for name in names}


def _checks(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return lowest, median and highest value of each check of measurement.md, over all valid repetitions."""
    valid = [m for t in trials for m in t.measurements if not m.invalid]
    if not valid:
        return []
    rows = {
        "requests per window": [float(m.requests) for m in valid],
        "failed requests": [float(m.failed_requests) for m in valid],
        "achieved rate [requests/s]": [m.achieved_rps for m in valid],
        "generator lag p99 [ms]": [m.lag_p99_ms for m in valid if m.lag_p99_ms is not None],
        "stolen CPU [%]": [100 * m.stolen_cpu for m in valid if m.stolen_cpu is not None],
        "CPU pressure, some [%]": [100 * m.pressure_cpu for m in valid if m.pressure_cpu is not None],
        "spans missing [%]": [
            100 * (m.spans_created - m.spans_read) / m.spans_created for m in valid if m.spans_created
        ],
    }
    return [
        {"what": name, "low": min(values), "median": statistics.median(values), "high": max(values)}
        for name, values in rows.items()
        if values
    ]


def interval(estimate: Estimate, factor: float = 1.0) -> str:
    return f"{factor * estimate.value:.2f} [{factor * estimate.low:.2f}, {factor * estimate.high:.2f}]"
