"""Frames (calls in progress), their queues, spans and timers."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.heaps import make_room
from framework.twin.simulator.jit import inlined
from framework.twin.simulator.records import FREE, FULL, NEXT, NOT_ENTERED, READY, ROOT, SEQUENCE, SPANS, TIMERS


@inlined
def new_frame(r: Any, op: int, parent: int, request: int, key: np.uint64) -> int:
    """Return the index of a new frame, or -1 where there is no room."""
    frame = r.n[FREE]
    if frame == len(r.frames):
        r.n[FULL] = 1
        return -1
    new = r.frames[frame]
    # The free list continues with the next index after a frame that was never used: unused memory is not touched.
    r.n[FREE] = new.link if new.generation else frame + 1
    new.service = r.operations[op].service
    new.op, new.pc, new.parent, new.request = op, NOT_ENTERED, parent, request
    new.pending, new.awaits, new.edge = 0, -1, ROOT
    new.key, new.draws, new.link = key, 0, -1
    new.loops, new.extra, new.tries, new.dead = 0, 0.0, 0, False
    return int(frame)


@inlined
def release(r: Any, frame: int) -> None:
    r.frames[frame].generation += 1
    r.frames[frame].link = r.n[FREE]
    r.n[FREE] = frame


@inlined
def begin_span(r: Any, now: float, frame: int, parent: int) -> None:
    """Begin the span of a frame, if the spans of its request are kept; its ``span`` is -1 otherwise."""
    r.frames[frame].span = -1
    if not r.traced[r.frames[frame].request]:
        return
    number = r.n[SPANS]
    if number >= len(r.spans):
        r.n[FULL] = 2
        return
    r.frames[frame].span = number
    span = r.spans[number]
    span.op, span.parent, span.request = r.frames[frame].op, parent, r.frames[frame].request
    span.start, span.enter, span.end = now, -1.0, -1.0
    r.n[SPANS] = number + 1


@inlined
def ready(r: Any, frame: int) -> None:
    """Append a frame to those that continue now."""
    r.ready[(r.n[NEXT] + r.n[READY]) & (len(r.ready) - 1)] = frame
    r.n[READY] += 1


@inlined
def next_ready(r: Any, frame: int) -> int:
    """Return the frame that continues next: ``frame`` (-1: none), unless others were ready before it."""
    if r.n[READY] == 0:
        return frame
    if frame >= 0:
        ready(r, frame)
    first = r.ready[r.n[NEXT]]
    r.n[NEXT] = (r.n[NEXT] + 1) & (len(r.ready) - 1)
    r.n[READY] -= 1
    return int(first)


@inlined
def enqueue(r: Any, first: int, last: int, frame: int) -> tuple[int, int]:
    """Append a frame to a queue; return the first and the last frame of the queue."""
    r.frames[frame].link = -1
    if first < 0:
        return frame, frame
    r.frames[last].link = frame
    return first, frame


@inlined
def set_timer(r: Any, at: float, what: int, frame: int) -> None:
    """Set a timer of kind ``what`` for a frame (for REFILL: a service), due at ``at`` seconds."""
    if r.n[TIMERS] == len(r.timers):
        r.n[FULL] = 1
        return
    r.n[SEQUENCE] += 1
    timer = r.timers[make_room(r.timers, r.n[TIMERS], at, r.n[SEQUENCE])]
    timer.key, timer.seq, timer.what, timer.item, timer.stamp = (
        at,
        r.n[SEQUENCE],
        what,
        frame,
        r.frames[frame].generation,
    )
    r.n[TIMERS] += 1
