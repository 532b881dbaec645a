"""Interrupts that wait for an answer of the engine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DEFERRED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block is done.

    A call that is broken off goes on in the engine: what it starts would begin after everything was looked at, and end
    unseen.  Signals reach the main thread only; in others there is nothing to hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        came.append(signum)

    before = {signum: signal.signal(signum, note) for signum in DEFERRED}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
