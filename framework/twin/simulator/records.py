"""What a run works on: a few arrays of records.

Compiled functions take each array apart when they are called, so that a hundred columns would cost more than what is
done with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Records = NDArray[np.void]

ALL = -2  # a frame that waits for all its forks; -1: for nothing
ROOT, GIVEN_UP = -1, -3  # in place of an edge
NOT_ENTERED = -1  # in place of an instruction: on its way to its service
RESUME, START, ANSWER, TIMEOUT, REFILL = range(5)  # kinds of timer
KNOWN = 64  # numbers of threads on a host for which it is kept what each of them gets
FREE, TIMERS, SEQUENCE, SPANS, NEXT, READY, FULL, EVENTS = range(8)  # places in Run.n

_I, _L, _F = "i4", "i8", "f8"
_P = "u4"  # a place that is never missing: numba need not ask whether to count it from the end
INSTRUCTION = np.dtype([("kind", _I), ("a", _P), ("b", _P)])
OPERATION = np.dtype([("first", _I), ("service", _P), ("scale", _F)], align=True)
DISTRIBUTION = np.dtype([("kind", _I), ("mean", _F), ("spread", _F)], align=True)
SERVICE = np.dtype(
    [
        ("host", _P), ("roams", "?"), ("workers", _I), ("queue", _I), ("threads", _I), ("busy", _I),
        ("worker_first", _I), ("worker_last", _I), ("waiting", _I), ("running", _I), ("thread_first", _I),
        ("thread_last", _I), ("cpu_s", _F), ("quota", _F), ("left", _F), ("period", _L), ("stopped", "?"),
    ],
    align=True,
)  # fmt: skip
EDGE = np.dtype(
    [
        ("connections", _I), ("idle", _I), ("retries", _I), ("used", _I), ("open", _I), ("first", _I), ("last", _I),
        ("setup", _F), ("opening", _F), ("latency", _F), ("timeout", _F),
    ],
    align=True,
)  # fmt: skip
HOST = np.dtype(
    [
        ("threads", _I), ("cores", _F), ("switching", _F), ("sharing", _F), ("rate", _F), ("slowness", _F),
        ("virtual", _F), ("since", _F), ("busy_s", _F),
    ],
    align=True,
)  # fmt: skip
RATE = np.dtype([("rate", _F), ("slowness", _F)], align=True)
FRAME = np.dtype(
    [
        ("op", _P), ("service", _P), ("request", _P), ("pc", _I), ("parent", _I), ("pending", _I), ("awaits", _I),
        ("edge", _I), ("draws", _I), ("link", _I), ("generation", _I), ("loops", _I), ("tries", _I), ("span", _L),
        ("key", "u8"), ("need", _F), ("extra", _F), ("dead", "?"),
    ],
    align=True,
)  # fmt: skip
THREAD = np.dtype([("key", _F), ("seq", _L), ("frame", _P)], align=True)
TIMER = np.dtype([("key", _F), ("seq", _L), ("what", _I), ("item", _P), ("stamp", _I)], align=True)
SPAN = np.dtype([("op", _I), ("request", _I), ("parent", _L), ("start", _F), ("enter", _F), ("end", _F)], align=True)


class Run(NamedTuple):
    """A program as records, and everything that changes during a run.

    ``rates``: (hosts, KNOWN), of so many threads, what each gets; 0 where that has not been asked yet.  ``reach``:
    (services, hosts), where the threads of a service may run; one that ``roams`` may on more than its
    ``host``.  ``threads``: (hosts, frames), of each host a heap of the threads that compute.  ``done``: (2 m,), when
    the first thread of each host is done, from place m on; below that a tree of the earlier of two, whose root is place
    1.  ``timers``: a heap.  Of each request, ``due``, ``latency``, ``failed``, and whether its spans are kept
    (``traced``).  ``ready``: a ring of frames that can go on at this moment, its size a power of two.  ``n``: counters,
    by the places above.
    """

    instructions: Records
    operations: Records
    distributions: Records
    chance: Floats
    root: Ints
    services: Records
    edges: Records
    hosts: Records
    rates: Records
    reach: Flags
    frames: Records
    threads: Records
    done: Floats
    timers: Records
    due: Floats
    traced: Flags
    latency: Floats
    failed: Flags
    spans: Records
    ready: NDArray[np.uint32]
    n: Longs
