"""Where spans are read."""

from __future__ import annotations

from typing import Protocol

from framework.model import (
    Running,
)
from framework.model.spans import SpanTable


class TraceReader(Protocol):
    """Reads the spans of a window."""

    def created(self, running: Running) -> int | None:
        """Spans that the services created in the window, after their exporters are flushed; None: not counted."""

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """All spans of traces whose root starts in the window.  Raises TracesMissing."""
