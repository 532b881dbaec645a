"""A walk through memory in a process of its own, at a small share of a CPU; ``canary.py`` starts it and reads it.

    python -m framework.testbeds.host.chase BYTES

Each line that it writes is about one burst: nanoseconds of CPU time a step, and seconds of CPU time of the whole
process so far.  It ends when its input does, so that it does not outlive the guard that started it.  Only this process
imports numba: a thread of the guard at low priority would keep the others waiting while it had the interpreter's lock.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.numba_cache import numba
from framework.testbeds.host.canary import DUTY, PERIOD_S, Burst

CHUNK = 4096  # steps between two looks at the clock: 0.1 ms in a cache, 1 ms in a busy memory
LINE = 64  # bytes of a cache line; each step goes to another one
LOWEST_PRIORITY = 19
SEED = 1


@dataclass(frozen=True, slots=True)
class Clocks:
    """``cpu_s``: CPU time of the walk.  ``now_s``: monotonic.  ``pause``: sleeps; true where the walk is to end."""

    cpu_s: Callable[[], float]
    now_s: Callable[[], float]
    pause: Callable[[float], bool]


def bursts(
    chase: Callable[[int], None], clocks: Clocks, duty: float = DUTY, period_s: float = PERIOD_S
) -> Iterator[Burst]:
    """Walk in bursts of ``duty`` x ``period_s`` seconds of CPU time, ``duty`` of the time, until a pause says to end.

    ``chase``: goes so many steps.  A burst that takes longer, because memory is slow, is followed by a longer pause.
    """
    while True:
        begun_s, begun_cpu_s, steps = clocks.now_s(), clocks.cpu_s(), 0
        while (spent_s := clocks.cpu_s() - begun_cpu_s) < duty * period_s:
            chase(CHUNK)
            steps += CHUNK
        yield Burst(spent_s / steps * 1e9, clocks.cpu_s())
        spent_s = clocks.cpu_s() - begun_cpu_s  # with what it took to tell
        if clocks.pause(max(0.0, spent_s / duty - (clocks.now_s() - begun_s))):
            return


def cycle(lines: int, seed: int = SEED) -> NDArray[np.int64]:
    """Return the array of a walk that visits every one of so many cache lines once, in random order, and begins again.

    Shape: (lines x LINE / 8,).  The first word of each line is the index of the next one's.
    """
    order = np.random.default_rng(seed).permutation(lines) * (LINE // 8)
    following = np.zeros(lines * (LINE // 8), dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


@numba.njit(cache=True, nogil=True)
def _walk(following: NDArray[np.int64], at: int, steps: int) -> int:
    for _ in range(steps):
        at = following[at]
    return at


def walker(lines: int) -> Callable[[int], None]:
    """Return the compiled walk through so many lines, which goes on where it was."""
    following, place = cycle(lines), [0]

    def chase(steps: int) -> None:
        place[0] = _walk(following, place[0], steps)

    chase(lines)  # compiles, and touches every page
    return chase


def main() -> None:
    """Walk until the input ends."""
    os.nice(LOWEST_PRIORITY)
    chase = walker(int(sys.argv[1]) // LINE)

    def pause(seconds: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return bool(ready)

    try:
        for burst in bursts(chase, Clocks(time.process_time, time.monotonic, pause)):
            sys.stdout.write(f"{burst.step_ns:.3f} {burst.cpu_s:.6f}\n")
            sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the guard was killed: nobody reads, and nothing is left to flush


if __name__ == "__main__":
    main()
