"""A source of tail latencies, its place, and the sensor that asks it in the background.

A guard's loop runs ten times a second and must never wait for a network or a disk.  So a thread asks the source, and
the loop gets the last answer, as long as it is no older than three windows: an older one is missing, which a guard
counts as a violation.  A source that answers, but had no request in its window, is an idle service and not a missing
one: its rate and its latency are 0, so that best-effort jobs may run at night.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Protocol

from framework.errors import FieldError, Transient

GIVES = ("latency_ms", "rate_rps")
IDLE: Mapping[str, float] = {"latency_ms": 0.0, "rate_rps": 0.0}
"""Readings of a source that answers and had no request in its window."""

WINDOWS = 3  # an answer older than so many windows is left out
SHORTEST_S, LONGEST_S = 0.2, 3600.0  # windows
PAUSE_S = 0.05  # between two questions, where an answer takes longer than the period
CLOSING_S = 1.0  # to wait for the thread at the end; one that waits for a network ends by itself

_PASSWORD = re.compile(r"(?:(?<=//)[^/@#?\s]*|[^/=#?\s]+:[^/@#?\s]*)@")


def without_password(text: str) -> str:
    """Return a text without the user and password of its address, to show it."""
    return _PASSWORD.sub("***@", text)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a source and its options, as a user wrote them, and the quantile that is wanted."""

    text: str
    quantile: float
    options: Mapping[str, str] = field(default_factory=dict)

    def allow(self, names: Collection[str]) -> None:
        """Check that no option has another name.  Raises FieldError."""
        for name in self.options:
            if name not in names:
                raise FieldError("latency", name, f"the options {', '.join(sorted(names))}")

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """Return an option that is a number from ``least`` to ``most``.  Raises FieldError."""
        text = self.options.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise FieldError("latency", f"{name}={text}", f"a number from {least:g} to {most:g}")
        return value

    def window_s(self, default: float) -> float:
        """Return the option ``window`` [s].  Raises FieldError."""
        return self.number("window", default, SHORTEST_S, LONGEST_S)


class Source(Protocol):
    """Where tail latencies are read.  Only one thread at a time calls it."""

    @property
    def window_s(self) -> float:
        """Length of the window that an answer is about [s]."""

    @property
    def period_s(self) -> float:
        """Time between two questions [s]."""

    def begin(self, now_s: float) -> Mapping[str, float]:
        """Check the place, and return its first readings, empty where there can be none yet.

        Raises FieldError where the place does not answer, or does not have what its text names.
        """

    def look(self, now_s: float) -> Mapping[str, float]:
        """Return the readings (``GIVES``) of the window that ends now, or a little ago where the source says so.

        ``now_s``: of the monotonic clock.  A reading that cannot be told is left out.  Raises Transient where the
        source does not answer.
        """

    def close(self) -> None:
        """Let go of what it uses."""


class BackgroundSensor:
    """Asks a source in a thread; implements ``framework.ports.sensor.Sensor``.  The thread starts with the first read.

    ``clock``: the monotonic clock whose time ``read`` is given.
    """

    gives = GIVES

    def __init__(self, name: str, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._source, self._clock = source, clock
        self._last: tuple[float, Mapping[str, float]] | None = None
        self._problem = ""
        self._stopped = Event()
        self._thread: Thread | None = None

    def begin(self) -> BackgroundSensor:
        """Ask the source for the first time, and wait for its answer.  Raises FieldError."""
        now_s = self._clock()
        try:
            self._last = now_s, self._source.begin(now_s)
        except FieldError:
            self._source.close()
            raise
        return self

    def missing(self) -> str:
        """Say why the source did not answer when it was last asked; empty where it did."""
        return self._problem

    def age_s(self, now_s: float) -> float:
        """Return the age of the last answer [s], counted from when it was asked for; infinity where there is none."""
        return math.inf if self._last is None else now_s - self._last[0]

    def read(self, now_s: float) -> Mapping[str, float]:
        """Return the last answer; empty where it is older than three windows.  Never waits for the source."""
        if self._thread is None and not self._stopped.is_set():
            self._thread = Thread(target=self._run, name=f"latency from {self.name}", daemon=True)
            self._thread.start()
        last = self._last
        if last is None or now_s - last[0] > WINDOWS * self._source.window_s:
            return {}
        return last[1]

    def close(self) -> None:
        """Stop asking.  A thread that waits for a network is not waited for longer than ``CLOSING_S``."""
        self._stopped.set()
        if self._thread is None:
            self._source.close()
        else:
            self._thread.join(CLOSING_S)  # it closes the source, which no other thread may use meanwhile

    def _run(self) -> None:
        wait_s = self._source.period_s
        while not self._stopped.wait(wait_s):
            began_s = self._clock()
            try:
                self._last, self._problem = (began_s, self._source.look(began_s)), ""
            except Transient as error:
                self._problem = str(error)
            except Exception as error:  # a source of another package may raise anything: the next look may succeed
                self._problem = f"{type(error).__name__}: {error}"
            wait_s = max(PAUSE_S, self._source.period_s - (self._clock() - began_s))
        self._source.close()
