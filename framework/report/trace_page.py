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


def trace_page(found: Analysis, compared: Groups | None = None, other: str = "") -> str:
    """``compared``: this set against another one, whose name is ``other``."""
    figures = [(title, text, Markup(svg)) for title, text, svg in _figures(found, compared, other)]
    return ENVIRONMENT.get_template("traces.html").render(found=found, figures=figures, interval=_interval)


def _figures(found: Analysis, compared: Groups | None, other: str) -> list[tuple[str, str, str]]:
    typical, slow = _examples(found)
    figures = [
        (
            "Where the time of requests goes",
            "At each moment a request waits for one service; the shares add up to 100 %.",
            trace_plots.shares(found),
        ),
        (
            "The critical path by the way down",
            f"From the root down, over {min(found.table.traces, trace_plots.MOST_TRACES):,} requests.",
            trace_plots.flame(found),
        ),
        (
            "A typical request",
            "The request of median latency; its spans, and in red what it waited for.",
            trace_plots.gantt(found, typical),
        ),
        ("A slow request", "The request at the 99th percentile.", trace_plots.gantt(found, slow)),
        ("The service graph", "Darker: a larger share of the critical path.", trace_plots.service_graph(found)),
    ]
    if found.tail is not None:
        text = (
            f"{found.tail.second} slowest requests ({found.tail.second_ms.value:.3g} ms in the mean) against "
            f"{found.tail.first} typical ones ({found.tail.first_ms.value:.3g} ms): the differences add up."
        )
        plot = trace_plots.contrast(found.tail, "typical", "slowest 5 %")
        figures.insert(1, ("What makes slow requests slow", text, plot))
    if compared is not None:
        text = f"{compared.first_ms.value:.3g} ms in the mean against {compared.second_ms.value:.3g} ms: {other}"
        figures.insert(0, ("This set against the other", text, trace_plots.contrast(compared, "this set", "the other")))
    return figures


def _examples(found: Analysis) -> tuple[int, int]:
    """The traces at the median and at the 99th percentile of latency."""
    order = np.argsort(found.table.root_ns, kind="stable")
    last = len(order) - 1
    return int(order[last // 2]), int(order[math.ceil(0.99 * last)])


def _interval(estimate: Estimate, factor: float = 1.0) -> str:
    sides = [f"{factor * side:.3g}" if math.isfinite(side) else "open" for side in (estimate.low, estimate.high)]
    return f"{factor * estimate.value:.3g} [{sides[0]}, {sides[1]}]"
