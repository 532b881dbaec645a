"""Testbeds at work at the same time: each does one piece of work, and whoever gave it out hears when it is done.

The study's own thread gives out work and takes in results; nothing else is shared between it and the testbeds' threads.
Tests and experiments put a crew in virtual time in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol


class Crew(Protocol):
    """Does one piece of work on each testbed at a time.  Only one thread calls it."""

    def start(self, testbed: str, work: Callable[[], None]) -> None:
        """Begin a piece of work on a testbed that has none."""

    def wait(self) -> tuple[str, BaseException | None]:
        """Wait until some work is done; return its testbed, and the error that it raised."""

    def close(self) -> None:
        """Wait until all work is done, whatever it raises."""


class Threads:
    """A crew of one thread for each piece of work."""

    def __init__(self) -> None:
        self._running: dict[str, threading.Thread] = {}
        self._done: SimpleQueue[tuple[str, BaseException | None]] = SimpleQueue()

    def start(self, testbed: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._do, args=(testbed, work), name=f"testbed {testbed}", daemon=True)
        self._running[testbed] = thread
        thread.start()

    def wait(self) -> tuple[str, BaseException | None]:
        testbed, error = self._done.get()
        self._running.pop(testbed).join()
        return testbed, error

    def close(self) -> None:
        for thread in self._running.values():
            thread.join()
        self._running.clear()

    def _do(self, testbed: str, work: Callable[[], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:  # whoever waits raises it in the study's own thread
            error = raised
        self._done.put((testbed, error))
