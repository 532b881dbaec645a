"""The events of a run, compiled.  ``simulate`` says what they mean; everything here works on a ``Run``."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.draws import draw, mixed, uniform
from framework.twin.simulator.frames import begin_span, new_frame, next_ready, queued, ready, release, set_timer
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
    first_done,
    foresee,
    recount,
    refilled,
    start_threads,
    want_thread,
)

NOTHING, ARRIVAL, TIMER_ENDS, THREAD_ENDS = range(4)
NOBODY = -1  # in place of a frame

# ---------------------------------------------------------------------- the loop


@compiled_whole
def run_events(r: Any, request_class: Ints, keys: Longs, seed: np.uint64, until: float) -> int:
    """0, or what was full: 1 frames, 2 spans."""
    coming, requests = 0, len(r.due)
    while True:
        now, source = np.inf, NOTHING
        if coming < requests:
            now, source = r.due[coming], ARRIVAL
        if r.n[TIMERS] and r.timers[0].key < now:
            now, source = r.timers[0].key, TIMER_ENDS
        if r.done[1] < now:
            now, source = r.done[1], THREAD_ENDS
        if source == NOTHING or now > until:
            return 0
        r.n[EVENTS] += 1
        if source == ARRIVAL:
            going = _arrive(r, now, coming, request_class[coming], mixed(seed, np.uint64(keys[coming])))
            coming += 1
        elif source == TIMER_ENDS:
            going = _timer(r, now)
        else:
            going = _computed(r, now, first_done(r))
        while going >= 0 or r.n[READY]:
            frame = next_ready(r, going)
            going = _enter(r, now, frame) if r.frames[frame].pc < 0 else _go_on(r, now, frame)
        if r.n[FULL]:
            return int(r.n[FULL])


# Each of these says which frame goes on next, once those that were ready before it have; NOBODY: none does.


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
        refilled(r, now, frame)
    elif r.frames[frame].generation == stamp:
        return _give_up(r, now, frame)
    return NOBODY


@inlined
def _computed(r: Any, now: float, host: int) -> int:
    """The thread that was first to be done on a host is done: it goes on, and the next one of its service may run."""
    frame = r.threads[host, 0].frame
    advance(r, now, host)
    recount(r, host, -1)
    remove_first(r.threads[host], r.hosts[host].threads)
    foresee(r, host)
    service = r.frames[frame].service
    r.services[service].running -= 1
    start_threads(r, now, service)
    return int(frame)


# ---------------------------------------------------------------------- one frame


@inlined
def _go_on(r: Any, now: float, frame: int) -> int:
    """Carry out instructions until the frame has to wait or ends."""
    while True:
        pc = r.frames[frame].pc
        kind, a, b = r.instructions[pc].kind, r.instructions[pc].a, r.instructions[pc].b
        r.frames[frame].pc = pc + 1
        if kind == CPU:
            demand = _draw(r, frame, a) * r.operations[r.frames[frame].op].scale + r.frames[frame].extra
            r.frames[frame].extra = 0.0
            if demand > 0.0:
                want_thread(r, now, frame, demand)
                return NOBODY
        elif kind == CALL:
            return _begun(r, now, _call(r, now, frame, a, b, CALL))
        elif kind in (FORK, SPAWN):
            child = _call(r, now, frame, a, b, kind)
            if child < 0:
                return NOBODY
            if _begun(r, now, child) >= 0:
                ready(r, child)
        elif kind == JOIN:
            if r.frames[frame].pending:
                r.frames[frame].awaits = ALL
                return NOBODY
        elif kind == DELAY:
            set_timer(r, now + _draw(r, frame, a), RESUME, frame)
            return NOBODY
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
        elif r.frames[frame].pending:  # it ends when what it forked has
            r.frames[frame].pc = pc
            r.frames[frame].awaits = ALL
            return NOBODY
        else:
            return _end(r, now, frame)


@inlined
def _draw(r: Any, frame: int, number: int) -> float:
    r.frames[frame].draws += 1
    u = uniform(r.frames[frame].key, np.uint64(r.frames[frame].draws))
    one = r.distributions[number]
    return draw(one.kind, one.mean, one.spread, u)


@inlined
def _call(r: Any, now: float, caller: int, op: int, edge: int, kind: int) -> int:
    """A new frame for a call that its caller waits for or not; NOBODY where there is no room for it."""
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
def _begun(r: Any, now: float, call: int) -> int:
    """A new call (NOBODY: none) is on its way, or waits for a connection."""
    if call < 0:
        return NOBODY
    edge = r.frames[call].edge
    if r.edges[edge].connections > 0 and r.edges[edge].used >= r.edges[edge].connections:
        r.edges[edge].first, r.edges[edge].last = queued(r, r.edges[edge].first, r.edges[edge].last, call)
        return NOBODY
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
        if r.frames[frame].span >= 0:  # in traces, what comes before the call's span is the caller's time
            r.spans[r.frames[frame].span].start += r.edges[edge].opening + r.edges[edge].setup
    if delay > 0.0:
        set_timer(r, now + delay, START, frame)
        return NOBODY
    return frame


@inlined
def _enter(r: Any, now: float, frame: int) -> int:
    """A call reaches its service: it gets a worker, waits for one, or is turned away."""
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
    first, last = queued(r, r.services[service].worker_first, r.services[service].worker_last, frame)
    r.services[service].worker_first, r.services[service].worker_last = first, last
    return NOBODY


@inlined
def _end(r: Any, now: float, frame: int) -> int:
    """The operation is done: its worker takes the next call that waits."""
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
    """The answer is on its way, or for a root there."""
    if r.frames[frame].span >= 0:
        one = r.spans[r.frames[frame].span]
        one.end = now
        # It may be given up before its connection is open.
        one.start, one.enter = min(one.start, now), min(one.enter, now)
    edge = r.frames[frame].edge
    if r.frames[frame].parent < 0:  # a root, or a call that nobody waits for (any more)
        if edge == ROOT:
            r.latency[r.frames[frame].request] = now - r.due[r.frames[frame].request]
        elif edge >= 0:
            _disconnect(r, now, edge, kept=True)
        release(r, frame)
        return NOBODY
    if r.edges[edge].latency > 0.0:
        set_timer(r, now + r.edges[edge].latency, ANSWER, frame)
        return NOBODY
    return _answered(r, now, frame)


@inlined
def _answered(r: Any, now: float, frame: int) -> int:
    """The answer reaches the caller: the connection is free, and the caller may go on."""
    caller, edge, going = r.frames[frame].parent, r.frames[frame].edge, NOBODY
    if caller >= 0:
        _disconnect(r, now, edge, kept=True)
        going = _one_less(r, caller, frame)
    release(r, frame)
    return going


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
def _one_less(r: Any, caller: int, child: int) -> int:
    """A call of ``caller`` needs no more waiting."""
    r.frames[caller].pending -= 1
    awaits = r.frames[caller].awaits
    if awaits == child or (awaits == ALL and r.frames[caller].pending == 0):
        r.frames[caller].awaits = -1
        return caller
    return NOBODY


@inlined
def _give_up(r: Any, now: float, frame: int) -> int:
    """A call took too long: its caller tries again or goes on without; the callee does not notice."""
    caller, edge, op, tries = r.frames[frame].parent, r.frames[frame].edge, r.frames[frame].op, r.frames[frame].tries
    if caller < 0:
        return NOBODY
    waited = r.frames[caller].awaits
    r.frames[frame].parent, r.frames[frame].dead = -1, True
    r.frames[frame].generation += 1
    if not _is_queued(r, edge, frame):
        r.frames[frame].edge = GIVEN_UP
        _disconnect(r, now, edge, kept=False)
    if tries < r.edges[edge].retries:
        r.frames[caller].pending -= 1
        again = _call(r, now, caller, op, edge, CALL if waited == frame else FORK)
        if again >= 0:
            r.frames[again].tries = tries + 1
        return _begun(r, now, again)
    r.failed[r.frames[caller].request] = True
    return _one_less(r, caller, frame)


@inlined
def _is_queued(r: Any, edge: int, frame: int) -> bool:
    at = r.edges[edge].first
    while at >= 0:
        if at == frame:
            return True
        at = r.frames[at].link
    return False
