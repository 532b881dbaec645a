"""The reader of traces."""

from __future__ import annotations

from typing import Protocol

from framework.model import (
    Running,
)
from framework.model.spans import SpanTable


class TraceReader(Protocol):
    """Reads the spans of a window."""

    def created(self, running: Running) -> int | None:
        """Return how many spans the services have created, after a flush of their exporters; None: not counted."""

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Return all spans of traces whose root starts in [start_ns, end_ns).  Raises TracesMissing.

        ``expected``: the number of spans to wait for; None: unknown.
        """
