"""The load generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framework.model import (
    LoadPlan,
    LoadResult,
    Running,
    Usage,
)
from framework.ports.testbed import Progress


class LoadGenerator(Protocol):
    """Drives an open-loop load and reports every request."""

    def run(self, plan: LoadPlan, running: Running, usage: Callable[[], Usage], progress: Progress) -> LoadResult:
        """Drive warm-up and window; call ``usage`` at the start and the end of the window.  Raises LoadFailed."""
