"""What a service suffers beside stressors, as a figure."""

from __future__ import annotations

from collections.abc import Sequence

from framework.placement.slowdowns import Slowdown
from framework.report.figure import BRIGHT, DEFAULT, figure, svg

_SPREAD = 0.6  # of the room of a stressor, for its intensities


def sensitivity_plot(service: str, found: Sequence[Slowdown], title: str) -> str:
    """Latency beside each stressor over that without it: for each intensity the mean with the range of its blocks, and
    p95 as a hollow mark; the most harmful stressor first.  ``found``: slowdowns, of which the service's are drawn.
    """
    mine = [one for one in found if one.service == service]
    worst = {one.stressor: one.mean for one in sorted(mine, key=lambda one: one.mean)}
    stressors = sorted(worst, key=lambda kind: -worst[kind])
    intensities = sorted({one.intensity for one in mine})
    drawing, axes = figure(7.6, 3.4)
    axes.axhline(1.0, color=DEFAULT, linewidth=0.9, linestyle="--")
    for number, intensity in enumerate(intensities):
        rows = [one for one in mine if one.intensity == intensity]
        beside = _SPREAD * ((number + 0.5) / len(intensities) - 0.5)
        at = [stressors.index(one.stressor) + beside for one in rows]
        colour = BRIGHT[number % len(BRIGHT)]
        axes.vlines(at, [one.low for one in rows], [one.high for one in rows], color=colour, linewidth=1.4)
        axes.plot(at, [one.mean for one in rows], "o", color=colour, markersize=5, label=f"{intensity:g}")
        axes.plot(at, [one.p95 for one in rows], "o", color=colour, markersize=5, fillstyle="none")
    axes.set_xticks(range(len(stressors)), [kind.replace("-", "\n") for kind in stressors])
    axes.set_ylabel("times the latency without it")
    axes.set_title(f"{service}: {title}", loc="left", fontsize=9)
    axes.legend(frameon=False, title="threads x duty cycle", fontsize=8, title_fontsize=8)
    return svg(drawing)
