"""CPU counters at the edges of a window that is known only afterwards.

A generator of somebody else does not say when its warm-up ends.  So the counters are read a few times a second while it
runs, and their values at the edges are interpolated once its requests tell where these were.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from framework.errors import TailorError
from framework.model import Usage

THREAD = "tailor-usage"
EVERY_S = 0.5
FARTHEST_NS = 2_000_000_000  # from the nearest reading


class UsageSamples:
    """Readings of the counters while a block runs.  ``problem``: the error that ended them, if one did."""

    def __init__(self, usage: Callable[[], Usage], every_s: float = EVERY_S) -> None:
        self._usage, self._every_s = usage, every_s
        self._samples: list[Usage] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name=THREAD, daemon=True)
        self.problem: TailorError | None = None

    def __enter__(self) -> UsageSamples:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while True:
            try:
                self._samples.append(self._usage())
            except TailorError as error:
                self.problem = error
                return
            if self._stop.wait(self._every_s):
                return

    def at(self, at_ns: int) -> Usage | None:
        """Return the counters at a time, between two readings in proportion; None where no reading is near."""
        times = [sample.at_ns for sample in self._samples]
        after = bisect_left(times, at_ns)
        near = self._samples[max(0, after - 1) : after + 1]
        if not near or min(abs(sample.at_ns - at_ns) for sample in near) > FARTHEST_NS:
            return None
        first, second = near[0], near[-1]
        if second.at_ns <= first.at_ns or not first.at_ns <= at_ns <= second.at_ns:
            return first if len(near) == 1 else min(near, key=lambda sample: abs(sample.at_ns - at_ns))
        return _between(first, second, (at_ns - first.at_ns) / (second.at_ns - first.at_ns), at_ns)


def _between(first: Usage, second: Usage, share: float, at_ns: int) -> Usage:
    def mix(low: float, high: float) -> float:
        return low + share * (high - low)

    waiting = None
    if first.pressure_cpu_s is not None and second.pressure_cpu_s is not None:
        waiting = mix(first.pressure_cpu_s, second.pressure_cpu_s)
    return replace(
        second,
        at_ns=at_ns,
        cpu_s={name: mix(first.cpu_s[name], second.cpu_s[name]) for name in second.cpu_s if name in first.cpu_s},
        host_cpu_s=mix(first.host_cpu_s, second.host_cpu_s),
        stolen_s=mix(first.stolen_s, second.stolen_s),
        pressure_cpu_s=waiting,
        tailor_cpu_s=mix(first.tailor_cpu_s, second.tailor_cpu_s),
    )
