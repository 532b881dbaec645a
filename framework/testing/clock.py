"""Virtual time for tests."""

from __future__ import annotations


class VirtualClock:
    """Clock whose time passes only in ``sleep``."""

    def __init__(self) -> None:
        self.ns = 1_700_000_000_000_000_000

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)
