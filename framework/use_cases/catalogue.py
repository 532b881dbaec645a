"""What there is to choose from, described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optimizer.registry import load_all


def optimizers() -> Sequence[Mapping[str, Any]]:
    """Every optimizer; a broken plug-in says why it is."""
    plugins = load_all()
    working = [
        {
            "name": name,
            "summary": kind.summary,
            "source": kind.source,
            "options": {option: known.default for option, known in kind.options_known.items()},
            "needs_budget": kind.needs_budget,
        }
        for name, kind in plugins.working.items()
    ]
    broken = [
        {"name": name, "summary": f"broken: {error}", "source": "", "options": {}, "needs_budget": False}
        for name, error in plugins.broken.items()
    ]
    return working + broken
