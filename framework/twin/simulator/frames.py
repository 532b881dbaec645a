"""Frames (calls that are under way), their queues, their spans, and timers that are set for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.heaps import make_room
from framework.twin.simulator.jit import inlined
from framework.twin.simulator.records import FREE, FULL, NEXT, NOT_ENTERED, READY, ROOT, SEQUENCE, SPANS, TIMERS


@inlined
def new_frame(r: Any, op: int, parent: int, request: int, key: np.uint64) -> int:
    frame = r.n[FREE]
    if frame == len(r.frames):
        r.n[FULL] = 1
        return -1
    one = r.frames[frame]
    # A frame that was never used is followed by the next one: memory that is not needed is not touched.
    r.n[FREE] = one.link if one.generation else frame + 1
    one.service = r.operations[op].service
    one.op, one.pc, one.parent, one.request = op, NOT_ENTERED, parent, request
    one.pending, one.awaits, one.edge = 0, -1, ROOT
    one.key, one.draws, one.link = key, 0, -1
    one.loops, one.extra, one.tries, one.dead = 0, 0.0, 0, False
    return int(frame)


@inlined
def release(r: Any, frame: int) -> None:
    r.frames[frame].generation += 1
    r.frames[frame].link = r.n[FREE]
    r.n[FREE] = frame


@inlined
def begin_span(r: Any, now: float, frame: int, parent: int) -> None:
    """A frame of a request whose spans are kept has one; the others have -1."""
    r.frames[frame].span = -1
    if not r.traced[r.frames[frame].request]:
        return
    number = r.n[SPANS]
    if number >= len(r.spans):
        r.n[FULL] = 2
        return
    r.frames[frame].span = number
    one = r.spans[number]
    one.op, one.parent, one.request = r.frames[frame].op, parent, r.frames[frame].request
    one.start, one.enter, one.end = now, -1.0, -1.0
    r.n[SPANS] = number + 1


@inlined
def ready(r: Any, frame: int) -> None:
    """It goes on at this moment, after those that were ready before it."""
    r.ready[(r.n[NEXT] + r.n[READY]) & (len(r.ready) - 1)] = frame
    r.n[READY] += 1


@inlined
def next_ready(r: Any, frame: int) -> int:
    """The frame that goes on next: ``frame`` (-1: none), unless others were ready before it."""
    if r.n[READY] == 0:
        return frame
    if frame >= 0:
        ready(r, frame)
    first = r.ready[r.n[NEXT]]
    r.n[NEXT] = (r.n[NEXT] + 1) & (len(r.ready) - 1)
    r.n[READY] -= 1
    return int(first)


@inlined
def queued(r: Any, first: int, last: int, frame: int) -> tuple[int, int]:
    """A queue, by its first and last frame, with one more at its end."""
    r.frames[frame].link = -1
    if first < 0:
        return frame, frame
    r.frames[last].link = frame
    return first, frame


@inlined
def set_timer(r: Any, at: float, what: int, frame: int) -> None:
    if r.n[TIMERS] == len(r.timers):
        r.n[FULL] = 1
        return
    r.n[SEQUENCE] += 1
    one = r.timers[make_room(r.timers, r.n[TIMERS], at, r.n[SEQUENCE])]
    one.key, one.seq, one.what, one.item, one.stamp = at, r.n[SEQUENCE], what, frame, r.frames[frame].generation
    r.n[TIMERS] += 1
