"""Limit of the requests per second that one caller may send."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from framework.api.problems import Refused

MOST_CALLERS = 10_000  # that are remembered
BURST_S = 2.0  # a caller may be this far ahead of its rate


class RateLimit:
    """A leaky bucket for each caller; ``per_second`` 0 lets everything through."""

    def __init__(self, per_second: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._now = per_second, now
        self._free_at: OrderedDict[str, float] = OrderedDict()  # caller -> when it is back at its rate
        self._lock = threading.Lock()

    def count(self, caller: str) -> None:
        """Count a request.  Raises Refused, 429, where the caller is too fast; a refused request does not count."""
        if not self._per_second:
            return
        with self._lock:
            wait = self._wait(caller)
        if wait > 0:
            detail = f"at most {self._per_second:g} requests a second; try again in {wait:.2f} s"
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, detail, **{"Retry-After": str(int(wait) + 1)})

    def _wait(self, caller: str) -> float:
        """Return the seconds until this caller may ask again; 0 or less where it may now."""
        now = self._now()
        free_at = max(now, self._free_at.pop(caller, now))
        wait = free_at - now - BURST_S
        self._free_at[caller] = free_at if wait > 0 else free_at + 1 / self._per_second
        if len(self._free_at) > MOST_CALLERS:
            self._free_at.popitem(last=False)
        return wait
