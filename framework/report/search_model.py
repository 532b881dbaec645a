"""The model of a study's search in words and as a figure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from framework.model import Study
from framework.model.decisions import SearchEnd
from framework.report.figure import BEST, DEFAULT, OTHER, figure, svg
from framework.study.search_model import WORTH, Outlook, SearchModel


def fit_in_words(model: SearchModel) -> str:
    """Say how well the model orders configurations that it was not shown."""
    fit = model.fit
    numbers = (
        f"rank correlation of left-out predictions with measured values {fit.correlation:.2f} [{fit.low:.2f}, "
        f"{fit.high:.2f}], log density {fit.density - fit.constant_density:+.2f} against a constant, "
        f"{len(fit.points)} configurations"
    )
    if fit.orders:
        return f"the model orders configurations better than chance ({numbers})"
    ranks = "the ranks are better than chance" if fit.low > 0 else "the ranks are no better than chance"
    values = "predicts values better than" if fit.density > fit.constant_density else "predicts values no better than"
    return f"the model is not shown to order configurations: {ranks}, and it {values} a constant does ({numbers})"


def outlook_in_words(outlook: Outlook | SearchEnd, *, verdict: bool) -> str:
    """Say what another trial is expected to gain.  ``verdict``: whether a comparison of pairs will have to show it."""
    part = outlook.gain / outlook.noise if outlook.noise else math.inf
    than = "a quarter of " if part < WORTH else ""  # below it, a search with a budget of its own stops
    of = "the verdict" if verdict else "a trial"
    duration = "" if outlook.trial_s is None or outlook.trial_s < 1 else f" ({outlook.trial_s:.0f} s)"
    compared = "less" if part < 1 else "more"
    return (
        f"another trial{duration} is expected to gain {100 * outlook.gain:.2g} %, {compared} than "
        f"{than}the noise of {of}, {100 * outlook.noise:.2g} %"
    )


def model_lines(model: SearchModel | None, study: Study) -> list[str]:
    """Return sentences on the model and on what another trial would gain; empty where there is no model."""
    if model is None:
        return []
    lines = [fit_in_words(model)]
    ended, verdict = study.decisions.ended, study.plan.pairs > 0
    if ended is not None:
        lines.append(
            f"the search stopped after {ended.trials} configurations: {outlook_in_words(ended, verdict=verdict)}"
        )
    elif model.outlook is not None:
        lines.append(outlook_in_words(model.outlook, verdict=verdict))
    return lines


def predictions(model: SearchModel, objective: str, unit: str) -> str:
    """Plot left-out predictions with their 95 % intervals against measured values; on the line they are equal."""
    drawing, axes = figure(5.2, 4.2)
    points = model.fit.points
    measured = np.array([point.measured for point in points])
    predicted = np.array([point.predicted for point in points])
    low, high = np.array([point.low for point in points]), np.array([point.high for point in points])
    axes.vlines(measured, low, high, color=OTHER, linewidth=1.2)
    axes.plot(measured, predicted, "o", color=BEST, markersize=4)
    if (measured > 0).all() and (low > 0).all():
        axes.set_xscale("log")
        axes.set_yscale("log")
    ends = [float(measured.min()), float(measured.max())]
    axes.plot(ends, ends, color=DEFAULT, linewidth=0.9, linestyle="--")
    in_unit = f" [{unit}]" if unit else ""
    axes.set_xlabel(f"measured {objective}{in_unit}")
    axes.set_ylabel(f"predicted from the others{in_unit}; lines: 95 %")
    return svg(drawing)


def search_model_document(model: SearchModel | None, *, verdict: bool) -> dict[str, Any] | None:
    """Return the JSON document of a study's model; None where there is none."""
    if model is None:
        return None
    fit = model.fit
    return {
        "fit": {
            "correlation": fit.correlation,
            "low": fit.low,
            "high": fit.high,
            "log_density": fit.density,
            "constant_log_density": fit.constant_density,
            "better_than_chance": fit.orders,
            "statement": fit_in_words(model),
            "predictions": [
                {
                    "trial": trial,
                    "measured": point.measured,
                    "predicted": point.predicted,
                    "low": point.low,
                    "high": point.high,
                }
                for trial, point in zip(model.trials, fit.points, strict=True)
            ],
        },
        "next_trial": None
        if model.outlook is None
        else {
            "gain": model.outlook.gain,
            "noise": model.outlook.noise,
            "statement": outlook_in_words(model.outlook, verdict=verdict),
        },
    }
