"""What takes long to find out and seldom changes is remembered for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lately(Generic[T]):
    """Callable: what ``find`` gave within the last so many seconds, else what it gives now."""

    def __init__(self, find: Callable[[], T], seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._find, self._seconds, self._now = find, seconds, now
        self._found: tuple[float, T] | None = None  # replaced as one thing: threads may ask at the same time

    def __call__(self) -> T:
        at, found = self._found or (-math.inf, None)
        now = self._now()
        if found is None or now - at >= self._seconds:
            found = self._find()
            self._found = now, found
        return found
