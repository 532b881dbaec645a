"""Growth of counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rates:
    """Growth per second of counters that come and go: one that was not there before adds nothing."""

    window_s: float
    _before: tuple[float, dict[str, float]] | None = field(default=None, init=False)
    _last: float | None = field(default=None, init=False)

    def growth_of(self, now_s: float, counters: Mapping[str, float] | None) -> float | None:
        """Return the growth as ``growth`` does; None: the counters cannot be read, and counting begins anew."""
        if counters is None:
            self._before = self._last = None
            return None
        return self.growth(now_s, counters)

    def growth(self, now_s: float, counters: Mapping[str, float]) -> float | None:
        """Return the growth of all counters together over the last window, per second; None before its end."""
        if self._before is None:
            self._before = now_s, dict(counters)
            return None
        before_s, before = self._before
        if now_s - before_s >= self.window_s:
            grown = sum(max(0.0, value - before[name]) for name, value in counters.items() if name in before)
            self._last = grown / (now_s - before_s)
            self._before = now_s, dict(counters)
        return self._last
