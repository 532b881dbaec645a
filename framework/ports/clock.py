"""Time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, so that tests can bend it."""

    def now_ns(self) -> int: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
