"""A crew in virtual time: its testbeds work at the same time, each on a clock of its own, in one thread.

Work is done when it begins, on its testbed's clock; whoever waits gets what ends first, and the study's clock goes on
to that moment.  That is right for a study, whose testbeds see only what was finished when their work began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.testing.clock import VirtualClock


class VirtualCrew:
    """A crew whose work takes virtual time.  ``clocks``: testbed -> its clock, beside the study's ``clock``."""

    def __init__(self, clock: VirtualClock, clocks: Mapping[str, VirtualClock]) -> None:
        self._clock, self._clocks = clock, clocks
        self._done: list[tuple[int, int, str, BaseException | None]] = []
        self._started = 0

    def start(self, testbed: str, work: Callable[[], None]) -> None:
        clock = self._clocks[testbed]
        clock.ns = max(clock.ns, self._clock.ns)
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        self._started += 1
        self._done.append((clock.ns, self._started, testbed, error))

    def wait(self) -> tuple[str, BaseException | None]:
        first = min(self._done, key=lambda done: done[:2])
        self._done.remove(first)
        ended_ns, _, testbed, error = first
        self._clock.ns = max(self._clock.ns, ended_ns)
        return testbed, error

    def close(self) -> None:
        self._done.clear()
