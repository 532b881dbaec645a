"""The state of a run: a few arrays of records.

A call of a compiled function passes every field of each array, so that a hundred column arrays would cost more than the
work done on them.
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

ALL = -2  # in ``awaits``: the frame waits for all its forks; -1: for none
ROOT, GIVEN_UP = -1, -3  # in place of an edge
NOT_ENTERED = -1  # in ``pc``: the call has not reached its service
RESUME, START, ANSWER, TIMEOUT, REFILL = range(5)  # kinds of timer
CACHED = 64  # thread counts of a host, from 0, for which the rate per thread is cached
FREE, TIMERS, SEQUENCE, SPANS, NEXT, READY, FULL, EVENTS = range(8)  # indices into Run.n

_I, _L, _F = "i4", "i8", "f8"
_P = "u4"  # an index that is never -1: unsigned, so that numba generates no code for negative indices
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
    """A program as records, and all state that changes during a run.

    ``rates``: (hosts, CACHED), the rate of each thread by the number of threads; 0 where it is not computed yet.
    ``reach``: (services, hosts), whether a service's threads may run there; a service that ``roams`` may use more hosts
    than its ``host``.  ``threads``: (hosts, frames), for each host a heap of its computing threads.  ``done``: (2 m,),
    a tournament tree: from index m on, the next completion of each host; below, the minimum of two, the root at index
    1.  ``timers``: a heap.  ``due``, ``latency``, ``failed``, ``traced`` (its spans are kept): of each request.
    ``ready``: a ring buffer of frames that can continue now, its size a power of two.  ``n``: counters, by the indices
    above.
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
