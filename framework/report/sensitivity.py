"""A figure of a service's slowdowns under stressors."""

from __future__ import annotations

from collections.abc import Sequence

from framework.placement.slowdowns import Slowdown
from framework.report.figure import BRIGHT, DEFAULT, figure, svg

_SPREAD = 0.6  # share of a stressor's width that its intensities take


def sensitivity_plot(service: str, slowdowns: Sequence[Slowdown], title: str) -> str:
    """Plot a service's latency under each stressor over that without it, the most harmful stressor first.

    For each intensity: the mean with the range of its blocks, and p95 as a hollow mark.
    ``slowdowns``: of this and other services.
    """
    of_service = [slowdown for slowdown in slowdowns if slowdown.service == service]
    worst = {slowdown.stressor: slowdown.mean for slowdown in sorted(of_service, key=lambda slowdown: slowdown.mean)}
    stressors = sorted(worst, key=lambda kind: -worst[kind])
    intensities = sorted({slowdown.intensity for slowdown in of_service})
    drawing, axes = figure(7.6, 3.4)
    axes.axhline(1.0, color=DEFAULT, linewidth=0.9, linestyle="--")
    for number, intensity in enumerate(intensities):
        rows = [slowdown for slowdown in of_service if slowdown.intensity == intensity]
        offset = _SPREAD * ((number + 0.5) / len(intensities) - 0.5)
        at = [stressors.index(row.stressor) + offset for row in rows]
        colour = BRIGHT[number % len(BRIGHT)]
        axes.vlines(at, [row.low for row in rows], [row.high for row in rows], color=colour, linewidth=1.4)
        axes.plot(at, [row.mean for row in rows], "o", color=colour, markersize=5, label=f"{intensity:g}")
        axes.plot(at, [row.p95 for row in rows], "o", color=colour, markersize=5, fillstyle="none")
    axes.set_xticks(range(len(stressors)), [kind.replace("-", "\n") for kind in stressors])
    axes.set_ylabel("times the latency without it")
    axes.set_title(f"{service}: {title}", loc="left", fontsize=9)
    axes.legend(frameon=False, title="threads x duty cycle", fontsize=8, title_fontsize=8)
    return svg(drawing)
