"""The style of every figure, and its SVG text for a page: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported by the functions that draw: most commands draw nothing
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEFAULT, BEST, OTHER, BAD = "#6b7280", "#0f766e", "#93c5fd", "#dc2626"
BRIGHT = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")  # Paul Tol's palette, for categories
_WIDTH = re.compile(r'viewBox="0 0 ([0-9.]+) ')
STYLE: Any = {  # matplotlib types its keys as one long Literal
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "tailor",
    "svg.fonttype": "none",
}


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure of ``width`` x ``height`` inches with one pair of axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawing = Figure(figsize=(width, height), layout="constrained")
        return drawing, drawing.add_subplot()


def panels(count: int, across: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make ``count`` pairs of axes on the same scales, ``across`` in a row, each ``width`` x ``height`` inches."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    across = min(across, count)
    down = -(-count // across)
    with rc_context(STYLE):
        drawing = Figure(figsize=(width * across, height * down), layout="constrained")
        axes = drawing.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel().tolist()
        for empty in axes[count:]:
            empty.remove()
        for lowest in axes[count - across : count]:  # of each column
            lowest.tick_params(labelbottom=True)
        return drawing, axes[:count]


def svg(drawing: Figure) -> str:
    """Return the figure as an SVG element."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context(STYLE):
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def labelled(drawing: str, label: str = "modelled, not measured") -> str:
    """Add a label to the upper right corner of an SVG, so that a copy of it has the label too."""
    width = _WIDTH.search(drawing)
    place = float(width[1]) - 4 if width else 100.0
    text = (
        f'<text x="{place:g}" y="9" text-anchor="end" font-size="9" font-style="italic" fill="#b45309">{label}</text>'
    )
    return drawing.replace("</svg>", f"{text}</svg>")
