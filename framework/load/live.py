"""A load that runs in the background while a guard reads its latencies, and the sensor that reads them.

The generator tells several times a second which requests ended, and how long others have been waiting
(apps/common/loadgen/live.go).  A service that stands still lets no request end, so those that wait count too.
"""

from __future__ import annotations

import base64
import binascii
import math
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.errors import Interrupted, LoadFailed, TailorError
from framework.load.container import ContainerLoad
from framework.model import LoadPlan, Running
from framework.ports.clock import Clock

LIVE_S = 0.1
KEPT_S = 60.0
STALE_PERIODS = 3
STALE_S = 1.0
"""A newest window that is older than so many periods, and than this, tells nothing of now: on a busy machine the engine
passes an event on only after some tenths of a second."""

FAILED_US = 0xFFFFFFFF
"""Latency of a failed request in the generator's events (loadgen/live.go)."""

THREAD = "tailor-live-load"
STOP_S = 30.0
"""Time allowed for the end of a stopped run: the next event of the generator, and its container's removal."""


@dataclass(frozen=True, slots=True)
class LiveWindow:
    """One event of the generator.  ``from_ns``, ``at_ns``: its edges on the generator's clock.

    ``due``: requests that were due in it.  ``latencies_ms``: of those that ended in it, infinite for failed ones, in no
    order, shape (ended,).  ``waiting_ms``: time since each request that is in flight was due, shape (in flight,).
    """

    from_ns: int
    at_ns: int
    due: int
    latencies_ms: NDArray[np.float64]
    waiting_ms: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recent:
    """The last seconds of a load.  Arrays as those of a window; ``waiting_ms`` is the newest window's.

    ``rate_rps``: requests that were due, per second; None where no window lies in these seconds.  ``age_s``: time since
    the newest window's end; infinite where there is none.
    """

    latencies_ms: NDArray[np.float64]
    waiting_ms: NDArray[np.float64]
    rate_rps: float | None
    age_s: float

    def quantile_ms(self, quantile: float) -> float | None:
        """Return a quantile of the latencies (inverse of their distribution); None where there are no requests.

        A request in flight that has waited longer than the quantile of those that ended counts as if it ended now: its
        latency is at least that.  Infinite where the quantile falls among the failed.
        """
        ended = _quantile(self.latencies_ms, quantile)
        longer = self.waiting_ms if ended is None else self.waiting_ms[self.waiting_ms > ended]
        return _quantile(np.concatenate([self.latencies_ms, longer]), quantile)


def _quantile(values: NDArray[np.float64], quantile: float) -> float | None:
    """Return the smallest value that at least a share ``quantile`` does not exceed; exact beside infinite values."""
    if not values.size:
        return None
    rank = max(math.ceil(quantile * values.size), 1) - 1
    return float(np.partition(values, rank)[rank])


def live_window(event: Mapping[str, Any]) -> LiveWindow:
    """Decode a "window" event.  Raises LoadFailed where it is damaged."""
    try:
        latencies, waiting = _microseconds(event["latencies"]), _microseconds(event["waiting"])
        if (latencies.size, waiting.size) != (event["finished"], event["in_flight"]):
            raise ValueError(f"{latencies.size} latencies and {waiting.size} waiting requests do not fit its counts")
        latencies_ms = np.where(latencies == FAILED_US, np.inf, latencies / 1e3)
        from_ns, at_ns, due = (int(event[name]) for name in ("from_ns", "at_ns", "due"))
        if max(abs(from_ns), abs(at_ns), abs(due)) >= 2**63:
            raise ValueError("a number of more than 64 bits")
        return LiveWindow(from_ns, at_ns, due, latencies_ms, waiting / 1e3)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise LoadFailed(f"the generator's window cannot be read: {type(error).__name__}: {error}") from error


def _microseconds(packed: str) -> NDArray[np.uint32]:
    """Unpack base64 of little-endian 32-bit numbers.  Raises ValueError."""
    try:
        return np.frombuffer(base64.b64decode(packed, validate=True), "<u4").astype(np.uint32)
    except binascii.Error as error:
        raise ValueError(f"damaged numbers: {error}") from error


class LiveLoad:
    """Runs a load in a thread and keeps the windows of the last seconds; as a context manager it stops the load.

    Windows are placed on this process's clock by the smallest delay with which any came, so that neither a clock that
    is set nor another machine's clock matters, and windows that come late are seen to be late.
    """

    def __init__(self, load: ContainerLoad, clock: Clock, *, live_s: float = LIVE_S, kept_s: float = KEPT_S) -> None:
        """Set up the load.  ``live_s``: the time between two windows, whole milliseconds.  ``kept_s``: windows kept."""
        self._load, self._clock = load, clock
        self._live_ms, self._kept_ns = max(round(live_s * 1e3), 1), round(kept_s * 1e9)
        self._windows: deque[LiveWindow] = deque()
        self._delay_ns = math.inf
        self._lock = threading.Lock()
        self._stop, self._finished = threading.Event(), threading.Event()
        self._problem: TailorError | None = None
        self._thread: threading.Thread | None = None

    @property
    def live_s(self) -> float:
        """Return the time between two windows."""
        return self._live_ms / 1e3

    @property
    def finished(self) -> bool:
        """Return whether the load has come to the end of its plan."""
        return self._finished.is_set()

    def missing(self) -> str:
        """Say what is missing for a run, in a plain sentence; empty where nothing is."""
        return self._load.missing()

    def start(self, plan: LoadPlan, running: Running) -> None:
        """Begin to drive the load of a plan, once; it sends no root spans, whatever the plan says."""
        self._thread = threading.Thread(
            target=self._drive, args=(replace(plan, trace=False), running), name=THREAD, daemon=True
        )
        self._thread.start()

    def _drive(self, plan: LoadPlan, running: Running) -> None:
        try:
            self._load.follow(plan, running, self._take, live_ms=self._live_ms)
            self._finished.set()
        except TailorError as error:
            if not (isinstance(error, Interrupted) and self._stop.is_set()):
                self._problem = error

    def _take(self, event: Mapping[str, Any]) -> None:
        if self._stop.is_set():
            raise Interrupted("the load is no longer needed")
        window = live_window(event)
        with self._lock:
            self._delay_ns = min(self._delay_ns, round(self._clock.monotonic() * 1e9) - window.at_ns)
            self._windows.append(window)
            while self._windows[0].at_ns <= window.at_ns - self._kept_ns:
                self._windows.popleft()

    def latencies(self, now_s: float, window_s: float) -> Recent:
        """Return the requests of windows that ended in the last ``window_s`` before a time of the monotonic clock."""
        with self._lock:
            windows, delay_ns = list(self._windows), self._delay_ns
        nothing = np.empty(0)
        if not windows:
            return Recent(nothing, nothing, None, math.inf)
        now_ns = round(now_s * 1e9) - round(delay_ns)  # on the generator's clock
        chosen = [window for window in windows if window.at_ns > now_ns - round(window_s * 1e9)]
        length_s = sum(window.at_ns - window.from_ns for window in chosen) / 1e9
        return Recent(
            np.concatenate([nothing, *(window.latencies_ms for window in chosen)]),
            windows[-1].waiting_ms,
            sum(window.due for window in chosen) / length_s if length_s > 0 else None,
            (now_ns - windows[-1].at_ns) / 1e9,
        )

    def check(self) -> None:
        """Raise what ended the load, if anything did: LoadFailed, InputError, MissingPrerequisite, ..."""
        if self._problem is not None:
            raise self._problem
        ended = self._thread is not None and not self._thread.is_alive()
        if ended and not self._stop.is_set() and not self.finished:
            raise LoadFailed("the thread that drives the load has ended: a bug, its traceback is in the log")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the plan; return whether it has come.  Raises as ``check``."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        self.check()
        return self.finished

    def stop(self) -> None:
        """End the load where it has not ended, and wait until its container is gone.  Raises LoadFailed if it stays."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            raise LoadFailed(f"the load did not end within {STOP_S:.0f} s after it was stopped")

    def __enter__(self) -> LiveLoad:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class LoadLatency:
    """Tail latency and rate of a live load; implements ``framework.ports.sensor.Sensor``."""

    name = "load"
    gives = ("latency_ms", "rate_rps")

    def __init__(self, load: LiveLoad, *, quantile: float = 0.95, window_s: float = 2.0) -> None:
        """Read a load, which belongs to its owner: a sensor that is closed does not stop it."""
        self._load, self._quantile, self._window_s = load, quantile, window_s

    def missing(self) -> str:
        """Say what this machine lacks for the load."""
        return self._load.missing()

    def read(self, now_s: float) -> Mapping[str, float]:
        """Return the readings of the last seconds.

        Nothing where the newest window is stale, which counts as a violation.  Where no request was due and none waits,
        the service is idle: both are 0.
        """
        recent = self._load.latencies(now_s, self._window_s)
        if recent.age_s > max(STALE_S, STALE_PERIODS * self._load.live_s) or recent.rate_rps is None:
            return {}
        latency_ms = recent.quantile_ms(self._quantile)
        return {"latency_ms": latency_ms or 0.0, "rate_rps": recent.rate_rps}

    def close(self) -> None:
        """Let go of nothing: whoever started the load stops it."""
