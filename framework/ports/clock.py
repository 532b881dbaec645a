"""The clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as a dependency, so that tests can use virtual time."""

    def now_ns(self) -> int:
        """Return the time since the Unix epoch [ns]."""

    def monotonic(self) -> float:
        """Return the time of a clock that is never set back [s]."""

    def sleep(self, seconds: float) -> None: ...
