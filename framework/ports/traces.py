"""The reader of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from framework.model import (
    Running,
)
from framework.model.spans import RootSpan, SpanTable


class TraceReader(Protocol):
    """Reads the spans of a window."""

    def created(self, running: Running) -> int | None:
        """Return how many spans the services have created, after a flush of their exporters; None: not counted."""

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        """Return all spans of traces whose root starts in [start_ns, end_ns).  Raises TracesMissing.

        ``expected``: the number of spans to wait for; None: unknown.
        """


@runtime_checkable
class JoiningReader(Protocol):
    """Reads traces by their ids from a store that does not have the load generator's root spans."""

    def join(self, running: Running, roots: Sequence[RootSpan]) -> SpanTable:
        """Return the traces of these root spans, oldest first, each joined to its root.  Raises TracesMissing.

        A trace that the store does not know consists of its root.
        """
