"""How every figure looks, and its way into a page: SVG text, no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import io
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DEFAULT, BEST, OTHER, BAD = "#6b7280", "#0f766e", "#93c5fd", "#dc2626"
_STYLE: Any = {  # matplotlib types its keys as one long Literal
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "tailor",
    "svg.fonttype": "none",
}


def figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of ``width`` x ``height`` inches with one pair of axes."""
    with rc_context(_STYLE):
        made = Figure(figsize=(width, height), layout="constrained")
        return made, made.add_subplot()


def svg(made: Figure) -> str:
    """The figure as an SVG element."""
    buffer = io.StringIO()
    with rc_context(_STYLE):
        made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
