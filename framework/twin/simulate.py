"""The discrete-event simulation of a twin: open arrivals in, latency of each request and its spans out.

Threads that compute share the cores of their host equally (processor sharing, with a loss for switching).  A host's
work is kept in virtual time: V advances by what each runnable thread gets, a thread that comes at V with a demand of d
is done at V + d, so that an arrival or a departure costs the logarithm of the number of threads and no more (Parekh &
Gallager, IEEE/ACM Transactions on Networking 1(3) (1993), for the idea of virtual time).

A call is a frame: it may wait for a connection, for a worker of the callee, for a thread, for its own calls.  Whatever
happens at the same moment happens in the order in which it was decided, so that a run is a function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from framework.twin.draws import draw, mixed, uniform
from framework.twin.program import AGAIN, BRANCH, CALL, CPU, DELAY, FORK, JOIN, LOOP, SPAWN, Program

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

ALL = -2  # a frame that waits for all its forks; -1: for nothing
ROOT, GIVEN_UP = -1, -3  # in place of an edge
NOT_ENTERED = -1  # in place of an instruction: on its way to its service
RESUME, START, ANSWER, TIMEOUT = range(4)  # kinds of timer
FREE, TIMERS, SEQUENCE, SPANS, NEXT, READY, FULL, EVENTS = range(8)  # places in State.n


class State(NamedTuple):
    """Everything that changes during a run.

    Frames, shape (f,): operation, place, parent (-1: none), request, calls that have not answered, the child that is
    waited for, edge of the call, span, key of the draws and their number, link to the next in a queue, generation (of
    what a timer was set for), loops left, CPU demand that waits for a thread, demand to be added, tries, whether it was
    given up.
    """

    op: Ints
    pc: Ints
    parent: Ints
    request: Ints
    pending: Ints
    awaits: Ints
    edge: Ints
    span: Longs
    key: NDArray[np.uint64]
    draws: Ints
    link: Ints
    generation: Ints
    loops: Ints
    need: Floats
    extra: Floats
    tries: Ints
    dead: NDArray[np.bool_]
    # services, (s,)
    busy: Ints
    worker_first: Ints
    worker_last: Ints
    worker_waiting: Ints
    running: Ints
    thread_first: Ints
    thread_last: Ints
    cpu_s: Floats
    # edges, (e,)
    used: Ints
    open: Ints
    edge_first: Ints
    edge_last: Ints
    # hosts, (h,) and (h, f)
    virtual: Floats
    since: Floats
    threads: Ints
    host_key: Floats
    host_seq: Longs
    host_frame: Ints
    # timers, (t,)
    time: Floats
    seq: Longs
    what: Ints
    item: Ints
    stamp: Ints
    # requests, (r,) and spans, (n,)
    latency: Floats
    failed: NDArray[np.bool_]
    span_op: Ints
    span_parent: Longs
    span_request: Ints
    span_start: Floats
    span_enter: Floats
    span_end: Floats
    # frames that can go on, and counters
    ready: Ints
    n: Longs


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of each request, shape (r,): ``latency_s`` (infinite where it did not end), ``failed`` (something in it was
    rejected or timed out).  Spans, shape (n,): operation, row of the parent (-1: a root), request, when the call was
    made, reached its service and ended there (s; -1 where it did not).  ``cpu_s``: of each service.  ``events``: how
    many were simulated.
    """

    latency_s: Floats
    failed: NDArray[np.bool_]
    span_op: Ints
    span_parent: Longs
    span_request: Ints
    span_start: Floats
    span_enter: Floats
    span_end: Floats
    cpu_s: Floats
    events: int


def simulate(
    program: Program, due_s: Floats, request_class: Ints, *, seed: int, until_s: float, keys: Longs | None = None
) -> Outcome:
    """Run the requests that are due at ``due_s`` (ascending, (r,)) until all have ended or ``until_s``.

    ``request_class``: (r,), which root each begins with.  ``keys``: (r,), what the draws of a request belong to; its
    number where there is none.
    """
    keys = np.arange(len(due_s), dtype=np.int64) if keys is None else keys
    frames, spans = 4096, 32 * max(1, len(due_s))
    while True:  # room for frames and spans is found by trying: a run is deterministic, so that it can be repeated
        state = _empty(program, len(due_s), frames, spans)
        full = _run(program, state, due_s, request_class.astype(np.int32), keys, np.uint64(seed), until_s)
        if not full:
            break
        frames, spans = (4 * frames, spans) if full == 1 else (frames, 4 * spans)
    made = int(state.n[SPANS])
    return Outcome(
        state.latency, state.failed, state.span_op[:made], state.span_parent[:made], state.span_request[:made],
        state.span_start[:made], state.span_enter[:made], state.span_end[:made], state.cpu_s, int(state.n[EVENTS]),
    )  # fmt: skip


def _empty(program: Program, requests: int, frames: int, spans: int) -> State:
    services, edges, hosts = len(program.host), len(program.connections), len(program.cores)
    timers = 4 * frames

    def whole(count: int, value: int = 0) -> Ints:
        return np.full(count, value, np.int32)

    counters = np.zeros(8, np.int64)
    link = np.arange(1, frames + 1, dtype=np.int32)  # frames that are free
    link[-1] = -1
    return State(
        whole(frames), whole(frames), whole(frames), whole(frames), whole(frames), whole(frames, -1), whole(frames, -1),
        np.zeros(frames, np.int64), np.zeros(frames, np.uint64), whole(frames), link, whole(frames), whole(frames),
        np.zeros(frames), np.zeros(frames), whole(frames), np.zeros(frames, np.bool_),
        whole(services), whole(services, -1), whole(services, -1), whole(services), whole(services),
        whole(services, -1), whole(services, -1), np.zeros(services),
        whole(edges), whole(edges), whole(edges, -1), whole(edges, -1),
        np.zeros(hosts), np.zeros(hosts), whole(hosts),
        np.zeros((hosts, frames)), np.zeros((hosts, frames), np.int64), np.zeros((hosts, frames), np.int32),
        np.zeros(timers), np.zeros(timers, np.int64), whole(timers), whole(timers), whole(timers),
        np.full(requests, np.inf), np.zeros(requests, np.bool_),
        np.zeros(spans, np.int32), np.zeros(spans, np.int64), np.zeros(spans, np.int32), np.zeros(spans),
        np.full(spans, -1.0), np.full(spans, -1.0), whole(frames), counters,
    )  # fmt: skip


# ---------------------------------------------------------------------- the loop


@numba.njit(cache=True, nogil=True)
def _run(p: Any, s: Any, due: Floats, request_class: Ints, keys: Longs, seed: np.uint64, until: float) -> int:
    """0, or what was full: 1 frames, 2 spans."""
    coming, requests, hosts = 0, len(due), len(p.cores)
    while True:
        now, source = np.inf, -3
        if coming < requests:
            now, source = due[coming], -1
        if s.n[TIMERS] and s.time[0] < now:
            now, source = s.time[0], -2
        for host in range(hosts):
            if s.threads[host]:
                at = s.since[host] + (s.host_key[host, 0] - s.virtual[host]) / _rate(p, s, host)
                if at < now:
                    now, source = at, host
        if source == -3 or now > until:
            return 0
        s.n[EVENTS] += 1
        if source == -1:
            _arrive(p, s, now, coming, request_class[coming], mixed(seed, np.uint64(keys[coming])))
            coming += 1
        elif source == -2:
            _timer(p, s, now)
        else:
            _computed(p, s, now, source)
        while s.n[READY] and not s.n[FULL]:
            frame = s.ready[s.n[NEXT]]
            s.n[NEXT] = (s.n[NEXT] + 1) % len(s.ready)
            s.n[READY] -= 1
            if s.pc[frame] < 0:
                _enter(p, s, now, frame)
            else:
                _go_on(p, s, now, frame)
        if s.n[FULL]:
            return int(s.n[FULL])


@numba.njit(cache=True, nogil=True)
def _arrive(p: Any, s: Any, now: float, request: int, kind: int, key: np.uint64) -> None:
    frame = _new(s, p.root[kind], -1, request, key)
    if frame >= 0:
        _begin_span(s, now, frame, -1)
        _ready(s, frame)


@numba.njit(cache=True, nogil=True)
def _timer(p: Any, s: Any, now: float) -> None:
    what, frame, stamp = s.what[0], s.item[0], s.stamp[0]
    s.n[TIMERS] -= 1
    _pop_timer(s)
    if what == TIMEOUT:
        if s.generation[frame] == stamp:
            _give_up(p, s, now, frame)
    elif what in (RESUME, START):
        _ready(s, frame)
    else:
        _answered(p, s, now, frame)


@numba.njit(cache=True, nogil=True)
def _computed(p: Any, s: Any, now: float, host: int) -> None:
    """The thread that was first to be done on a host is done: it goes on, and the next one of its service may run."""
    frame = s.host_frame[host, 0]
    _advance(p, s, now, host)
    s.threads[host] -= 1
    _pop_host(s, host)
    service = p.service[s.op[frame]]
    if p.threads[service] > 0:
        s.running[service] -= 1
        waiting = s.thread_first[service]
        if waiting >= 0:
            s.thread_first[service] = s.link[waiting]
            if s.thread_first[service] < 0:
                s.thread_last[service] = -1
            s.running[service] += 1
            _compute(p, s, now, waiting, s.need[waiting])
    _ready(s, frame)


# ---------------------------------------------------------------------- one frame


@numba.njit(cache=True, nogil=True)
def _go_on(p: Any, s: Any, now: float, frame: int) -> None:
    """Carry out instructions until the frame has to wait or ends."""
    while True:
        pc = s.pc[frame]
        kind, a, b = p.kind[pc], p.a[pc], p.b[pc]
        s.pc[frame] = pc + 1
        if kind == CPU:
            demand = _draw(p, s, frame, a) * p.scale[s.op[frame]] + s.extra[frame]
            s.extra[frame] = 0.0
            if demand > 0.0:
                _want_thread(p, s, now, frame, demand)
                return
        elif kind == CALL:
            _call(p, s, now, frame, a, b, CALL)
            return
        elif kind in (FORK, SPAWN):
            if _call(p, s, now, frame, a, b, kind) < 0:
                return
        elif kind == JOIN:
            if s.pending[frame]:
                s.awaits[frame] = ALL
                return
        elif kind == DELAY:
            _set_timer(s, now + _draw(p, s, frame, a), RESUME, frame)
            return
        elif kind == BRANCH:
            s.draws[frame] += 1
            if uniform(s.key[frame], np.uint64(s.draws[frame])) >= p.chance[a]:
                s.pc[frame] = b
        elif kind == LOOP:
            s.loops[frame] = int(_draw(p, s, frame, a) + 0.5)
            if s.loops[frame] <= 0:
                s.pc[frame] = b
        elif kind == AGAIN:
            s.loops[frame] -= 1
            if s.loops[frame] > 0:
                s.pc[frame] = b + 1
        elif s.pending[frame]:  # it ends when what it forked has
            s.pc[frame] = pc
            s.awaits[frame] = ALL
            return
        else:
            _end(p, s, now, frame)
            return


@numba.njit(cache=True, nogil=True)
def _draw(p: Any, s: Any, frame: int, distribution: int) -> float:
    s.draws[frame] += 1
    u = uniform(s.key[frame], np.uint64(s.draws[frame]))
    return draw(p.dist_kind[distribution], p.dist_mean[distribution], p.dist_spread[distribution], u)


@numba.njit(cache=True, nogil=True)
def _call(p: Any, s: Any, now: float, caller: int, op: int, edge: int, kind: int) -> int:
    """A new frame for a call, on its way or waiting for a connection; -1 where there is no room for it."""
    s.draws[caller] += 1
    parent = -1 if kind == SPAWN else caller
    child = _new(s, op, parent, s.request[caller], mixed(s.key[caller], np.uint64(s.draws[caller])))
    if child < 0:
        return child
    s.edge[child] = edge
    _begin_span(s, now, child, s.span[caller])
    if kind != SPAWN:
        s.pending[caller] += 1
    if kind == CALL:
        s.awaits[caller] = child
    if p.timeout[edge] > 0.0 and kind != SPAWN:
        _set_timer(s, now + p.timeout[edge], TIMEOUT, child)
    if p.connections[edge] > 0 and s.used[edge] >= p.connections[edge]:
        s.edge_first[edge], s.edge_last[edge] = _queued(s, s.edge_first[edge], s.edge_last[edge], child)
    else:
        _connect(p, s, now, child)
    return child


@numba.njit(cache=True, nogil=True)
def _connect(p: Any, s: Any, now: float, frame: int) -> None:
    edge = s.edge[frame]
    s.used[edge] += 1
    if s.open[edge] > 0:
        s.open[edge] -= 1
    else:
        s.extra[frame] += p.setup[edge]
    if p.latency[edge] > 0.0:
        _set_timer(s, now + p.latency[edge], START, frame)
    else:
        _ready(s, frame)


@numba.njit(cache=True, nogil=True)
def _enter(p: Any, s: Any, now: float, frame: int) -> None:
    """A call reaches its service: it gets a worker, waits for one, or is turned away."""
    service = p.service[s.op[frame]]
    s.span_enter[s.span[frame]] = now
    if p.workers[service] == 0 or s.busy[service] < p.workers[service]:
        s.busy[service] += 1
        s.pc[frame] = p.first[s.op[frame]]
        _ready(s, frame)
    elif p.queue[service] > 0 and s.worker_waiting[service] >= p.queue[service]:
        s.failed[s.request[frame]] = True
        _close(p, s, now, frame)
    else:
        s.worker_waiting[service] += 1
        s.worker_first[service], s.worker_last[service] = _queued(
            s, s.worker_first[service], s.worker_last[service], frame
        )


@numba.njit(cache=True, nogil=True)
def _end(p: Any, s: Any, now: float, frame: int) -> None:
    """The operation is done: its worker takes the next call that waits."""
    service = p.service[s.op[frame]]
    s.busy[service] -= 1
    waiting = s.worker_first[service]
    if waiting >= 0:
        s.worker_first[service] = s.link[waiting]
        if s.worker_first[service] < 0:
            s.worker_last[service] = -1
        s.worker_waiting[service] -= 1
        s.busy[service] += 1
        s.pc[waiting] = p.first[s.op[waiting]]
        _ready(s, waiting)
    _close(p, s, now, frame)


@numba.njit(cache=True, nogil=True)
def _close(p: Any, s: Any, now: float, frame: int) -> None:
    """The answer is on its way, or for a root there."""
    s.span_end[s.span[frame]] = now
    edge = s.edge[frame]
    if s.parent[frame] < 0:  # a root, or a call that nobody waits for (any more)
        if edge == ROOT:
            s.latency[s.request[frame]] = now - s.span_start[s.span[frame]]
        elif edge >= 0:
            _disconnect(p, s, now, edge, kept=True)
        _release(s, frame)
    elif p.latency[edge] > 0.0:
        _set_timer(s, now + p.latency[edge], ANSWER, frame)
    else:
        _answered(p, s, now, frame)


@numba.njit(cache=True, nogil=True)
def _answered(p: Any, s: Any, now: float, frame: int) -> None:
    """The answer reaches the caller: the connection is free, and the caller may go on."""
    caller, edge = s.parent[frame], s.edge[frame]
    if caller >= 0:
        _disconnect(p, s, now, edge, kept=True)
        _one_less(s, caller, frame)
    _release(s, frame)


@numba.njit(cache=True, nogil=True)
def _disconnect(p: Any, s: Any, now: float, edge: int, kept: bool) -> None:
    s.used[edge] -= 1
    if kept and s.open[edge] < p.idle[edge]:
        s.open[edge] += 1
    while s.edge_first[edge] >= 0:
        waiting = s.edge_first[edge]
        s.edge_first[edge] = s.link[waiting]
        if s.edge_first[edge] < 0:
            s.edge_last[edge] = -1
        if s.dead[waiting]:  # given up while it waited
            _release(s, waiting)
        else:
            _connect(p, s, now, waiting)
            return


@numba.njit(cache=True, nogil=True)
def _one_less(s: Any, caller: int, child: int) -> None:
    """A call of ``caller`` needs no more waiting."""
    s.pending[caller] -= 1
    if s.awaits[caller] == child or (s.awaits[caller] == ALL and s.pending[caller] == 0):
        s.awaits[caller] = -1
        _ready(s, caller)


@numba.njit(cache=True, nogil=True)
def _give_up(p: Any, s: Any, now: float, frame: int) -> None:
    """A call took too long: its caller tries again or goes on without; the callee does not notice."""
    caller, edge, op, tries = s.parent[frame], s.edge[frame], s.op[frame], s.tries[frame]
    if caller < 0:
        return
    waited = s.awaits[caller]
    s.parent[frame], s.dead[frame] = -1, True
    s.generation[frame] += 1
    in_queue = _is_queued(s, edge, frame)
    if not in_queue:
        s.edge[frame] = GIVEN_UP
        _disconnect(p, s, now, edge, kept=False)
    if tries < p.retries[edge]:
        s.pending[caller] -= 1
        again = _call(p, s, now, caller, op, edge, CALL if waited == frame else FORK)
        if again >= 0:
            s.tries[again] = tries + 1
    else:
        s.failed[s.request[caller]] = True
        _one_less(s, caller, frame)


@numba.njit(cache=True, nogil=True)
def _is_queued(s: Any, edge: int, frame: int) -> bool:
    at = s.edge_first[edge]
    while at >= 0:
        if at == frame:
            return True
        at = s.link[at]
    return False


# ---------------------------------------------------------------------- threads and hosts


@numba.njit(cache=True, nogil=True)
def _want_thread(p: Any, s: Any, now: float, frame: int, demand: float) -> None:
    service = p.service[s.op[frame]]
    s.cpu_s[service] += demand
    if p.threads[service] > 0:
        if s.running[service] >= p.threads[service]:
            s.need[frame] = demand
            s.thread_first[service], s.thread_last[service] = _queued(
                s, s.thread_first[service], s.thread_last[service], frame
            )
            return
        s.running[service] += 1
    _compute(p, s, now, frame, demand)


@numba.njit(cache=True, nogil=True)
def _compute(p: Any, s: Any, now: float, frame: int, demand: float) -> None:
    host = p.host[p.service[s.op[frame]]]
    _advance(p, s, now, host)
    s.n[SEQUENCE] += 1
    _push_host(s, host, s.virtual[host] + demand, s.n[SEQUENCE], frame)
    s.threads[host] += 1


@numba.njit(cache=True, nogil=True, inline="always")
def _rate(p: Any, s: Any, host: int) -> float:
    """What each runnable thread gets of a core."""
    threads, cores = s.threads[host], p.cores[host]
    if threads <= cores:
        return 1.0
    return float(cores / threads / (1.0 + p.switching[host] * (threads / cores - 1.0)))


@numba.njit(cache=True, nogil=True, inline="always")
def _advance(p: Any, s: Any, now: float, host: int) -> None:
    if s.threads[host]:
        s.virtual[host] += (now - s.since[host]) * _rate(p, s, host)
    else:
        s.virtual[host] = 0.0  # nobody is there to notice, and small numbers stay exact
    s.since[host] = now


# ---------------------------------------------------------------------- frames, queues, heaps


@numba.njit(cache=True, nogil=True)
def _new(s: Any, op: int, parent: int, request: int, key: np.uint64) -> int:
    frame = s.n[FREE]
    if frame < 0 or s.n[TIMERS] + 4 >= len(s.time):
        s.n[FULL] = 1
        return -1
    s.n[FREE] = s.link[frame]
    s.op[frame], s.pc[frame], s.parent[frame], s.request[frame] = op, NOT_ENTERED, parent, request
    s.pending[frame], s.awaits[frame], s.edge[frame] = 0, -1, ROOT
    s.key[frame], s.draws[frame], s.link[frame] = key, 0, -1
    s.loops[frame], s.extra[frame], s.tries[frame], s.dead[frame] = 0, 0.0, 0, False
    return int(frame)


@numba.njit(cache=True, nogil=True)
def _release(s: Any, frame: int) -> None:
    s.generation[frame] += 1
    s.link[frame] = s.n[FREE]
    s.n[FREE] = frame


@numba.njit(cache=True, nogil=True)
def _begin_span(s: Any, now: float, frame: int, parent: int) -> None:
    span = s.n[SPANS]
    if span >= len(s.span_op):
        s.n[FULL] = 2
        return
    s.span[frame] = span
    s.span_op[span], s.span_parent[span], s.span_request[span] = s.op[frame], parent, s.request[frame]
    s.span_start[span] = now
    s.n[SPANS] = span + 1


@numba.njit(cache=True, nogil=True, inline="always")
def _ready(s: Any, frame: int) -> None:
    """It goes on at this moment, after those that were ready before it."""
    s.ready[(s.n[NEXT] + s.n[READY]) % len(s.ready)] = frame
    s.n[READY] += 1


@numba.njit(cache=True, nogil=True, inline="always")
def _queued(s: Any, first: int, last: int, frame: int) -> tuple[int, int]:
    """A queue, by its first and last frame, with one more at its end."""
    s.link[frame] = -1
    if first < 0:
        return frame, frame
    s.link[last] = frame
    return first, frame


@numba.njit(cache=True, nogil=True)
def _set_timer(s: Any, at: float, what: int, frame: int) -> None:
    s.n[SEQUENCE] += 1
    number, child = s.n[SEQUENCE], s.n[TIMERS]
    s.n[TIMERS] += 1
    while child > 0:
        above = (child - 1) >> 1
        if s.time[above] < at or (s.time[above] == at and s.seq[above] < number):
            break
        _move_timer(s, above, child)
        child = above
    s.time[child], s.seq[child], s.what[child], s.item[child] = at, number, what, frame
    s.stamp[child] = s.generation[frame]


@numba.njit(cache=True, nogil=True, inline="always")
def _move_timer(s: Any, source: int, target: int) -> None:
    s.time[target], s.seq[target] = s.time[source], s.seq[source]
    s.what[target], s.item[target], s.stamp[target] = s.what[source], s.item[source], s.stamp[source]


@numba.njit(cache=True, nogil=True)
def _pop_timer(s: Any) -> None:
    """Remove the first of the heap, whose size has already been counted down."""
    size = s.n[TIMERS]
    at, number = s.time[size], s.seq[size]
    what, item, stamp = s.what[size], s.item[size], s.stamp[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and (
            s.time[child + 1] < s.time[child]
            or (s.time[child + 1] == s.time[child] and s.seq[child + 1] < s.seq[child])
        ):
            child += 1
        if at < s.time[child] or (at == s.time[child] and number < s.seq[child]):
            break
        _move_timer(s, child, place)
        place = child
    s.time[place], s.seq[place], s.what[place], s.item[place], s.stamp[place] = at, number, what, item, stamp


@numba.njit(cache=True, nogil=True)
def _push_host(s: Any, host: int, key: float, number: int, frame: int) -> None:
    keys, seqs, frames = s.host_key[host], s.host_seq[host], s.host_frame[host]
    child = s.threads[host]
    while child > 0:
        above = (child - 1) >> 1
        if keys[above] < key or (keys[above] == key and seqs[above] < number):
            break
        keys[child], seqs[child], frames[child] = keys[above], seqs[above], frames[above]
        child = above
    keys[child], seqs[child], frames[child] = key, number, frame


@numba.njit(cache=True, nogil=True)
def _pop_host(s: Any, host: int) -> None:
    """Remove the first of the heap, whose size has already been counted down."""
    keys, seqs, frames = s.host_key[host], s.host_seq[host], s.host_frame[host]
    size = s.threads[host]
    key, number, frame = keys[size], seqs[size], frames[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and (
            keys[child + 1] < keys[child] or (keys[child + 1] == keys[child] and seqs[child + 1] < seqs[child])
        ):
            child += 1
        if key < keys[child] or (key == keys[child] and number < seqs[child]):
            break
        keys[place], seqs[place], frames[place] = keys[child], seqs[child], frames[child]
        place = child
    keys[place], seqs[place], frames[place] = key, number, frame
