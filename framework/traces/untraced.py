"""The reader of an application without tracing: there are no spans, so p95 is the load generator's own."""

from __future__ import annotations

from framework.model import Running
from framework.model.spans import SpanTable
from framework.traces.columns import SpanColumns


class Untraced:
    """Reads no spans; implements ``framework.ports.traces.TraceReader``."""

    def created(self, running: Running) -> int | None:
        """Return that spans are not counted."""
        return None

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Return a table without spans."""
        table, _ = SpanColumns().table()
        return table
