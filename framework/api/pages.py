"""Templates of the dashboard, and the figure that only the dashboard shows."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import ChoiceLoader, PackageLoader

from framework.model import Study, Trial
from framework.report.page import ENVIRONMENT
from framework.report.plots import parallel
from optimizer.analysis.importance import Explained

PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("framework.api", "templates"), PackageLoader("framework.report", "templates")])
)
AXES = 8  # most of them in a figure of parallel coordinates


def coordinates(study: Study, trials: Sequence[Trial], explained: Explained | None) -> str:
    """Draw parallel coordinates (SVG) of the important parameters, else of those that the best configuration changes.

    Empty where fewer than three trials have a value, or there is no such parameter.
    """
    valued = [t for t in trials if t.told_value is not None and t.purpose in ("default", "search")]
    if len(valued) < 3:
        return ""
    names = (
        [parameter.name for parameter in explained.parameters[:AXES]] if explained and explained.explained > 0 else []
    )
    if not names:
        default = valued[0].configuration
        best = min(valued, key=lambda t: float(t.told_value or 0.0)).configuration
        names = [name for name in best if best[name] != default.get(name)][:AXES]
    return parallel(valued, names, study.space) if names else ""
