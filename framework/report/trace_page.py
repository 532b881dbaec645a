"""The HTML page of an analysis of traces: one file, nothing loaded from elsewhere."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from framework.critical_path.analysis import Analysis
from framework.critical_path.comparison import Groups
from framework.model import Estimate
from framework.report import trace_plots
from framework.report.page import ENVIRONMENT


def trace_page(analysis: Analysis, compared: Groups | None = None, other: str = "") -> str:
    """Write the HTML page; ``compared``: a comparison with another set of traces, whose name is ``other``."""
    figures = [(title, text, Markup(svg)) for title, text, svg in _figures(analysis, compared, other)]
    return ENVIRONMENT.get_template("traces.html").render(analysis=analysis, figures=figures, interval=_interval)


def _figures(analysis: Analysis, compared: Groups | None, other: str) -> list[tuple[str, str, str]]:
    typical, slow = _examples(analysis)
    figures = [
        (
            "Where the time of requests goes",
            "At each moment a request waits for one service; the shares add up to 100 %.",
            trace_plots.shares(analysis),
        ),
        (
            "The critical path by the way down",
            f"From the root down, over {min(analysis.table.traces, trace_plots.MOST_TRACES):,} requests.",
            trace_plots.flame(analysis),
        ),
        (
            "A typical request",
            "The request of median latency; its spans, and in red what it waited for.",
            trace_plots.gantt(analysis, typical),
        ),
        ("A slow request", "The request at the 99th percentile.", trace_plots.gantt(analysis, slow)),
        ("The service graph", "Darker: a larger share of the critical path.", trace_plots.service_graph(analysis)),
    ]
    if analysis.tail is not None:
        text = (
            f"{analysis.tail.second} slowest requests ({analysis.tail.second_ms.value:.3g} ms in the mean) against "
            f"{analysis.tail.first} typical ones ({analysis.tail.first_ms.value:.3g} ms): the differences add up."
        )
        plot = trace_plots.contrast(analysis.tail, "typical", "slowest 5 %")
        figures.insert(1, ("What makes slow requests slow", text, plot))
    if compared is not None:
        text = f"{compared.first_ms.value:.3g} ms in the mean against {compared.second_ms.value:.3g} ms: {other}"
        figures.insert(0, ("This set against the other", text, trace_plots.contrast(compared, "this set", "the other")))
    return figures


def _examples(analysis: Analysis) -> tuple[int, int]:
    """Return the numbers of the traces at the median and at the 99th percentile of latency."""
    order = np.argsort(analysis.table.root_ns, kind="stable")
    last = len(order) - 1
    return int(order[last // 2]), int(order[math.ceil(0.99 * last)])


def _interval(estimate: Estimate, factor: float = 1.0) -> str:
    sides = [f"{factor * side:.3g}" if math.isfinite(side) else "open" for side in (estimate.low, estimate.high)]
    return f"{factor * estimate.value:.3g} [{sides[0]}, {sides[1]}]"
