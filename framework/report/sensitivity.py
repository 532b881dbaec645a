"""What a service suffers beside stressors, as a figure."""

from __future__ import annotations

from collections.abc import Sequence

from framework.placement.profile import Slowdown
from framework.report.figure import BRIGHT, DEFAULT, figure, svg

MARKS = ("o", "s", "^")  # so that more stressors than colours can be told apart


def sensitivity_plot(service: str, found: Sequence[Slowdown], title: str) -> str:
    """Latency beside each stressor over that without it, against the stressor's intensity: the mean with the range of
    its blocks, and p95 as a hollow mark.  ``found``: slowdowns, of which those of the service are drawn.
    """
    mine = [one for one in found if one.service == service]
    drawing, axes = figure(7.6, 3.4)
    for number, stressor in enumerate(sorted({one.stressor for one in mine})):
        rows = sorted((one for one in mine if one.stressor == stressor), key=lambda one: one.intensity)
        colour, mark = BRIGHT[number % len(BRIGHT)], MARKS[number // len(BRIGHT) % len(MARKS)]
        at = [one.intensity for one in rows]
        axes.plot(at, [one.mean for one in rows], "-", marker=mark, color=colour, markersize=4, label=stressor)
        axes.plot(at, [one.p95 for one in rows], mark, color=colour, markersize=5, fillstyle="none")
        axes.vlines(at, [one.low for one in rows], [one.high for one in rows], color=colour, linewidth=1.2)
    axes.axhline(1.0, color=DEFAULT, linewidth=0.9, linestyle="--")
    axes.set_xlabel("intensity of the stressor (threads times the part of the time that they work)")
    axes.set_ylabel("times the latency without it")
    axes.set_title(f"{service}: {title}", loc="left")
    axes.legend(frameon=False, ncols=2, fontsize=8)
    return svg(drawing)
