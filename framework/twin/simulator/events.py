"""The events of a run, compiled; ``simulate`` describes the model.  Every ``r`` here is a ``Run``."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.draws import draw, mixed, uniform
from framework.twin.simulator.frames import begin_span, enqueue, new_frame, next_ready, ready, release, set_timer
from framework.twin.simulator.heaps import remove_first
from framework.twin.simulator.jit import compiled_whole, inlined
from framework.twin.simulator.program import AGAIN, BRANCH, CALL, CPU, DELAY, FORK, JOIN, LOOP, SPAWN
from framework.twin.simulator.records import (
    ALL,
    ANSWER,
    EVENTS,
    FULL,
    GIVEN_UP,
    READY,
    REFILL,
    RESUME,
    ROOT,
    START,
    TIMEOUT,
    TIMERS,
    Ints,
    Longs,
)
from framework.twin.simulator.threads import (
    advance,
    change_threads,
    end_throttling,
    first_done,
    request_thread,
    start_threads,
    update_completion,
)

NOTHING, ARRIVAL, TIMER_ENDS, THREAD_ENDS = range(4)
NO_FRAME = -1

# ---------------------------------------------------------------------- the loop


@compiled_whole
def run_events(r: Any, request_class: Ints, keys: Longs, seed: np.uint64, until: float) -> int:
    """Process all events until the time ``until``; return 0, or which array was full: 1 frames, 2 spans."""
    arrived, requests = 0, len(r.due)
    while True:
        now, source = np.inf, NOTHING
        if arrived < requests:
            now, source = r.due[arrived], ARRIVAL
        if r.n[TIMERS] and r.timers[0].key < now:
            now, source = r.timers[0].key, TIMER_ENDS
        if r.done[1] < now:
            now, source = r.done[1], THREAD_ENDS
        if source == NOTHING or now > until:
            return 0
        r.n[EVENTS] += 1
        if source == ARRIVAL:
            running = _arrive(r, now, arrived, request_class[arrived], mixed(seed, np.uint64(keys[arrived])))
            arrived += 1
        elif source == TIMER_ENDS:
            running = _timer(r, now)
        else:
            running = _computed(r, now, first_done(r))
        while running >= 0 or r.n[READY]:
            frame = next_ready(r, running)
            running = _enter(r, now, frame) if r.frames[frame].pc < 0 else _go_on(r, now, frame)
        if r.n[FULL]:
            return int(r.n[FULL])


# Each of these returns the frame that continues now, after those that were ready before it; NO_FRAME: none.


@inlined
def _arrive(r: Any, now: float, request: int, kind: int, key: np.uint64) -> int:
    frame = new_frame(r, r.root[kind], -1, request, key)
    if frame >= 0:
        begin_span(r, now, frame, -1)
    return frame


@inlined
def _timer(r: Any, now: float) -> int:
    what, frame, stamp = r.timers[0].what, r.timers[0].item, r.timers[0].stamp
    r.n[TIMERS] -= 1
    remove_first(r.timers, r.n[TIMERS])
    if what in (RESUME, START):
        return int(frame)
    if what == ANSWER:
        return _answered(r, now, frame)
    if what == REFILL:
        end_throttling(r, now, frame)
    elif r.frames[frame].generation == stamp:
        return _give_up(r, now, frame)
    return NO_FRAME


@inlined
def _computed(r: Any, now: float, host: int) -> int:
    """End the first thread of a host: its frame continues, and the next thread of its service may run."""
    frame = r.threads[host, 0].frame
    advance(r, now, host)
    change_threads(r, host, -1)
    remove_first(r.threads[host], r.hosts[host].threads)
    update_completion(r, host)
    service = r.frames[frame].service
    r.services[service].running -= 1
    start_threads(r, now, service)
    return int(frame)


# ---------------------------------------------------------------------- one frame


@inlined
def _go_on(r: Any, now: float, frame: int) -> int:
    """Execute instructions until the frame has to wait or ends."""
    while True:
        pc = r.frames[frame].pc
        kind, a, b = r.instructions[pc].kind, r.instructions[pc].a, r.instructions[pc].b
        r.frames[frame].pc = pc + 1
        if kind == CPU:
            demand = _draw(r, frame, a) * r.operations[r.frames[frame].op].scale + r.frames[frame].extra
            r.frames[frame].extra = 0.0
            if demand > 0.0:
                request_thread(r, now, frame, demand)
                return NO_FRAME
        elif kind == CALL:
            return _start_call(r, now, _call(r, now, frame, a, b, CALL))
        elif kind in (FORK, SPAWN):
            child = _call(r, now, frame, a, b, kind)
            if child < 0:
                return NO_FRAME
            if _start_call(r, now, child) >= 0:
                ready(r, child)
        elif kind == JOIN:
            if r.frames[frame].pending:
                r.frames[frame].awaits = ALL
                return NO_FRAME
        elif kind == DELAY:
            set_timer(r, now + _draw(r, frame, a), RESUME, frame)
            return NO_FRAME
        elif kind == BRANCH:
            r.frames[frame].draws += 1
            if uniform(r.frames[frame].key, np.uint64(r.frames[frame].draws)) >= r.chance[a]:
                r.frames[frame].pc = b
        elif kind == LOOP:
            r.frames[frame].loops = int(_draw(r, frame, a) + 0.5)
            if r.frames[frame].loops <= 0:
                r.frames[frame].pc = b
        elif kind == AGAIN:
            r.frames[frame].loops -= 1
            if r.frames[frame].loops > 0:
                r.frames[frame].pc = b + 1
        elif r.frames[frame].pending:  # END: it waits for all that it forked
            r.frames[frame].pc = pc
            r.frames[frame].awaits = ALL
            return NO_FRAME
        else:
            return _end(r, now, frame)


@inlined
def _draw(r: Any, frame: int, number: int) -> float:
    r.frames[frame].draws += 1
    u = uniform(r.frames[frame].key, np.uint64(r.frames[frame].draws))
    distribution = r.distributions[number]
    return draw(distribution.kind, distribution.mean, distribution.spread, u)


@inlined
def _call(r: Any, now: float, caller: int, op: int, edge: int, kind: int) -> int:
    """Create the frame of a call, which its caller waits for unless it is a SPAWN; NO_FRAME if there is no room."""
    r.frames[caller].draws += 1
    parent = -1 if kind == SPAWN else caller
    key = mixed(r.frames[caller].key, np.uint64(r.frames[caller].draws))
    child = new_frame(r, op, parent, r.frames[caller].request, key)
    if child < 0:
        return child
    r.frames[child].edge = edge
    begin_span(r, now, child, r.frames[caller].span)
    if kind != SPAWN:
        r.frames[caller].pending += 1
    if kind == CALL:
        r.frames[caller].awaits = child
    if r.edges[edge].timeout > 0.0 and kind != SPAWN:
        set_timer(r, now + r.edges[edge].timeout, TIMEOUT, child)
    return child


@inlined
def _start_call(r: Any, now: float, call: int) -> int:
    """Send a new call (NO_FRAME: none), or let it wait for a connection."""
    if call < 0:
        return NO_FRAME
    edge = r.frames[call].edge
    if r.edges[edge].connections > 0 and r.edges[edge].used >= r.edges[edge].connections:
        r.edges[edge].first, r.edges[edge].last = enqueue(r, r.edges[edge].first, r.edges[edge].last, call)
        return NO_FRAME
    return _connect(r, now, call)


@inlined
def _connect(r: Any, now: float, frame: int) -> int:
    edge = r.frames[frame].edge
    r.edges[edge].used += 1
    delay = r.edges[edge].latency
    if r.edges[edge].open > 0:
        r.edges[edge].open -= 1
    else:
        r.frames[frame].extra += r.edges[edge].setup
        delay += r.edges[edge].opening
        if r.frames[frame].span >= 0:  # in traces, the time before the call's span is the caller's
            r.spans[r.frames[frame].span].start += r.edges[edge].opening + r.edges[edge].setup
    if delay > 0.0:
        set_timer(r, now + delay, START, frame)
        return NO_FRAME
    return frame


@inlined
def _enter(r: Any, now: float, frame: int) -> int:
    """Give a call that reaches its service a worker, let it wait for one, or reject it."""
    service = r.frames[frame].service
    if r.frames[frame].span >= 0:
        r.spans[r.frames[frame].span].enter = now + r.frames[frame].extra  # the callee computes it for the caller
    if r.services[service].workers == 0 or r.services[service].busy < r.services[service].workers:
        r.services[service].busy += 1
        r.frames[frame].pc = r.operations[r.frames[frame].op].first
        return int(frame)
    if r.services[service].queue > 0 and r.services[service].waiting >= r.services[service].queue:
        r.failed[r.frames[frame].request] = True
        return _close(r, now, frame)
    r.services[service].waiting += 1
    first, last = enqueue(r, r.services[service].worker_first, r.services[service].worker_last, frame)
    r.services[service].worker_first, r.services[service].worker_last = first, last
    return NO_FRAME


@inlined
def _end(r: Any, now: float, frame: int) -> int:
    """End an operation: its worker takes the next waiting call."""
    service = r.frames[frame].service
    r.services[service].busy -= 1
    waiting = r.services[service].worker_first
    if waiting >= 0:
        r.services[service].worker_first = r.frames[waiting].link
        if r.frames[waiting].link < 0:
            r.services[service].worker_last = -1
        r.services[service].waiting -= 1
        r.services[service].busy += 1
        r.frames[waiting].pc = r.operations[r.frames[waiting].op].first
        ready(r, waiting)
    return _close(r, now, frame)


@inlined
def _close(r: Any, now: float, frame: int) -> int:
    """Send the answer to the caller; for a root, record the request's latency."""
    if r.frames[frame].span >= 0:
        span = r.spans[r.frames[frame].span]
        span.end = now
        # A call may be given up before its connection is open.
        span.start, span.enter = min(span.start, now), min(span.enter, now)
    edge = r.frames[frame].edge
    if r.frames[frame].parent < 0:  # a root, or a call that no caller waits for (any more)
        if edge == ROOT:
            r.latency[r.frames[frame].request] = now - r.due[r.frames[frame].request]
        elif edge >= 0:
            _disconnect(r, now, edge, kept=True)
        release(r, frame)
        return NO_FRAME
    if r.edges[edge].latency > 0.0:
        set_timer(r, now + r.edges[edge].latency, ANSWER, frame)
        return NO_FRAME
    return _answered(r, now, frame)


@inlined
def _answered(r: Any, now: float, frame: int) -> int:
    """Deliver an answer to its caller: the connection is free, and the caller may continue."""
    caller, edge, running = r.frames[frame].parent, r.frames[frame].edge, NO_FRAME
    if caller >= 0:
        _disconnect(r, now, edge, kept=True)
        running = _stop_waiting(r, caller, frame)
    release(r, frame)
    return running


@inlined
def _disconnect(r: Any, now: float, edge: int, kept: bool) -> None:
    r.edges[edge].used -= 1
    if kept and r.edges[edge].open < r.edges[edge].idle:
        r.edges[edge].open += 1
    while r.edges[edge].first >= 0:
        waiting = r.edges[edge].first
        r.edges[edge].first = r.frames[waiting].link
        if r.frames[waiting].link < 0:
            r.edges[edge].last = -1
        if r.frames[waiting].dead:  # given up while it waited
            release(r, waiting)
        else:
            if _connect(r, now, waiting) >= 0:
                ready(r, waiting)
            return


@inlined
def _stop_waiting(r: Any, caller: int, child: int) -> int:
    """Count one call of ``caller`` as over; return the caller if it can continue."""
    r.frames[caller].pending -= 1
    awaits = r.frames[caller].awaits
    if awaits == child or (awaits == ALL and r.frames[caller].pending == 0):
        r.frames[caller].awaits = -1
        return caller
    return NO_FRAME


@inlined
def _give_up(r: Any, now: float, frame: int) -> int:
    """Time out a call: its caller retries or continues without an answer; the callee is not told."""
    caller, edge, op, tries = r.frames[frame].parent, r.frames[frame].edge, r.frames[frame].op, r.frames[frame].tries
    if caller < 0:
        return NO_FRAME
    waited = r.frames[caller].awaits
    r.frames[frame].parent, r.frames[frame].dead = -1, True
    r.frames[frame].generation += 1
    if not _is_queued(r, edge, frame):
        r.frames[frame].edge = GIVEN_UP
        _disconnect(r, now, edge, kept=False)
    if tries < r.edges[edge].retries:
        r.frames[caller].pending -= 1
        retry = _call(r, now, caller, op, edge, CALL if waited == frame else FORK)
        if retry >= 0:
            r.frames[retry].tries = tries + 1
        return _start_call(r, now, retry)
    r.failed[r.frames[caller].request] = True
    return _stop_waiting(r, caller, frame)


@inlined
def _is_queued(r: Any, edge: int, frame: int) -> bool:
    at = r.edges[edge].first
    while at >= 0:
        if at == frame:
            return True
        at = r.frames[at].link
    return False
