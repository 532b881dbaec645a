"""Servers of metrics, of which one value is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A value, and when it was taken [s since 1970]."""

    value: float
    taken_s: float


class MetricServer(Protocol):
    """Answers queries in its own language."""

    @property
    def shown(self) -> str:
        """Its address without user and password."""

    def newest(self, query: str) -> MetricValue:
        """Return the newest value of a query.  Raises Transient unless there is an answer with exactly one series."""

    def close(self) -> None:
        """Let go of what it uses."""
