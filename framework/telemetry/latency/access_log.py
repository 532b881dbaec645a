"""Tail latencies of the lines that a web server adds to its log of requests.

A request counts when its line is read, not at the time that stands in it: clocks and formats of logs differ.  So a
server that collects lines before it writes them (``buffer=`` of nginx) has to flush them more often than a window is
long.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from framework.errors import FieldError, Transient
from framework.telemetry.latency.histogram import exact_quantile
from framework.telemetry.latency.log_follower import LogFollower
from framework.telemetry.latency.registry import SOURCES
from framework.telemetry.latency.source import IDLE, Place, Source

WINDOW_S = 2.0
LEAST_PERIOD_S, STEPS = 0.1, 8
EXAMPLE = "/var/log/nginx/access.log"
GROUPS_MS = {"seconds": 1e3, "ms": 1.0, "us": 1e-3}
"""Group of a regular expression -> its unit [ms]."""

_LAST_NUMBER = re.compile(r"""(?<![\w.:/+-])(\d+(?:\.\d+)?)["'\])}\s]*$""")


class Times:
    """Reader of the time of a request from a line of a log.

    ``pattern``: chooses lines; its group ``seconds``, ``ms`` or ``us`` is the time.  Without such a group the number
    at the line's end is, in seconds, as of nginx's ``$request_time``; a line that ends otherwise has none: the last of
    its numbers may be its bytes.  Raises FieldError.
    """

    def __init__(self, pattern: str) -> None:
        allowed = f"a regular expression with one of the groups {', '.join(GROUPS_MS)}, or with no named group"
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise FieldError("latency", f"{pattern}: {error}", allowed) from error
        groups = tuple(self._pattern.groupindex)
        if len(groups) > 1 or not set(groups) <= GROUPS_MS.keys():
            raise FieldError("latency", pattern, allowed)
        self._group = groups[0] if groups else ""

    def of(self, line: bytes) -> float | None:
        """Return the time of a line's request [ms]; None where the line has none."""
        text = line.decode(errors="replace")
        match = self._pattern.search(text)
        if match is None:
            return None
        number = match if self._group else _LAST_NUMBER.search(text)
        if number is None:
            return None
        try:
            value = float(number[self._group or 1] or "") * GROUPS_MS[self._group or "seconds"]
        except ValueError:
            return None
        return value if math.isfinite(value) and value >= 0 else None


class AccessLogSource:
    """Implements ``framework.telemetry.latency.source.Source``.  A window begins with the guard, at the log's end."""

    def __init__(self, path: Path, times: Times, quantile: float, window_s: float) -> None:
        self.window_s, self.period_s = window_s, max(LEAST_PERIOD_S, window_s / STEPS)
        self._path, self._times, self._quantile = path, times, quantile
        self._follower = LogFollower(path)
        self._looked: deque[tuple[float, float, list[float]]] = deque()
        """(from, to, times [ms]) of the looks of the last window."""
        self._last_s = 0.0

    def begin(self, now_s: float) -> Mapping[str, float]:
        """Go to the end of the file, and check that one of the lines before it has a time, where there are lines."""
        try:
            lines = self._follower.begin()
        except OSError as error:
            reason = f"{self._path}: {error.strerror or error}"
            raise FieldError("latency", reason, f"a log that is a regular file, such as {EXAMPLE}") from error
        if lines and all(self._times.of(line) is None for line in lines):
            last = lines[-1][:200].decode(errors="replace")
            raise FieldError(
                "latency", f"{self._path} with lines such as {last}",
                "lines that end with the request time in seconds, or FILE#REGEX with a group "
                + ", ".join(GROUPS_MS),
            )  # fmt: skip
        self._last_s = now_s
        return {}

    def look(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of the lines of the last window."""
        try:
            lines = self._follower.lines(now_s)
        except OSError as error:
            raise Transient(f"{self._path}: {error.strerror or error}") from error
        times = [time for line in lines if (time := self._times.of(line)) is not None]
        self._looked.append((self._last_s, now_s, times))
        half_s = (now_s - self._last_s) / 2  # looks are not exactly even, and a window of eight is to have eight
        self._last_s = now_s
        while len(self._looked) > 1 and self._looked[0][1] <= now_s - self.window_s + half_s:
            self._looked.popleft()
        inside = [time for _, _, times in self._looked for time in times]
        if not inside:
            return IDLE
        length_s = max(now_s - self._looked[0][0], self.period_s)
        return {"latency_ms": exact_quantile(self._quantile, inside), "rate_rps": len(inside) / length_s}

    def close(self) -> None:
        """Close the file."""
        self._follower.close()


@SOURCES.register("access-log")
def access_log(place: Place) -> Source:
    """Return the source of ``FILE`` or ``FILE#REGEX``; option: window [s].  Raises FieldError."""
    place.allow(("window",))
    path, _, pattern = place.text.partition("#")
    return AccessLogSource(Path(path).expanduser(), Times(pattern), place.quantile, place.window_s(WINDOW_S))
