"""The discrete-event simulation of a twin: open arrivals in, latency of each request and its spans out.

Threads that compute share the cores of their host equally (processor sharing, with a loss for switching, and one for
cores that slow each other down).  A host's work is kept in virtual time: V advances by the CPU time that each runnable
thread gets, and a thread that comes at V with a demand of d is done at V + d.  So an arrival or a departure costs only
the logarithm of the number of threads (Parekh & Gallager, IEEE/ACM Transactions on Networking 1(3) (1993), for the idea
of virtual time).

A host may be cut into parts by CPU sets.  A thread that may run on several of them goes to the one with the fewest
threads per core when it begins, and stays there: demands are short against the time between the kernel's balancing.

A service may have a quota of CPU time, counted in periods of 100 ms as Linux does (Turner, Rao & Rao, "CPU bandwidth
control for CFS", Linux Symposium 2010): a service that used it up is throttled until the next period.  A thread's
demand is charged when it begins, since demands are short against the period.

A call is a frame: it may wait for a connection, for a worker of the callee, for a thread, for its own calls.  Events of
the same time are processed in the order in which they were scheduled, so that a run is a function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.twin.simulator.events import run_events
from framework.twin.simulator.program import Program
from framework.twin.simulator.records import (
    CACHED,
    DISTRIBUTION,
    EDGE,
    EVENTS,
    FRAME,
    HOST,
    INSTRUCTION,
    OPERATION,
    RATE,
    SERVICE,
    SPAN,
    SPANS,
    THREAD,
    TIMER,
    Flags,
    Floats,
    Ints,
    Longs,
    Records,
    Run,
)
from framework.twin.simulator.threads import PERIOD_S

MOST_TRACED = 20_000  # requests of a run
FRAMES = 1 << 16  # calls in progress, for which there is room at first


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a run.  Of each request, shape (r,): ``latency_s`` (infinite where it did not end), ``failed`` (some
    call of it was rejected or timed out).  Spans, shape (n,): operation, row of the parent (-1: a root), request, and
    the times when the call was made, reached its service and ended there (s; -1 where it did not).  ``cpu_s``: of each
    service, as the kernel would count it: more than its demands where cores are shared.  ``events``: their number.
    """

    latency_s: Floats
    failed: Flags
    span_op: Ints
    span_parent: Longs
    span_request: Ints
    span_start: Floats
    span_enter: Floats
    span_end: Floats
    cpu_s: Floats
    events: int


def simulate(
    program: Program,
    due_s: Floats,
    request_class: Ints,
    *,
    seed: int,
    until_s: float,
    keys: Longs | None = None,
    traced: Flags | None = None,
) -> Outcome:
    """Run the requests that are due at ``due_s`` (ascending, (r,)) until all have ended or ``until_s``.

    ``request_class``: (r,), the class that gives the root of each.  ``keys``: (r,), the keys of the requests' random
    draws; their numbers where this is None.  ``traced``: (r,), whether spans are kept: all where this is None.
    """
    keys = np.arange(len(due_s), dtype=np.int64) if keys is None else keys
    traced = np.ones(len(due_s), np.bool_) if traced is None else traced
    frames, spans = max(FRAMES, len(program.workers)), 32 * int(traced.sum()) + 1
    while True:  # repeated with larger arrays where they were too small: a run is deterministic
        run = _initial(program, due_s, traced, frames, spans)
        full = run_events(run, request_class.astype(np.int32), keys, np.uint64(seed), until_s)
        if not full:
            break
        frames, spans = (4 * frames, spans) if full == 1 else (frames, 4 * spans)
    spans_made = run.spans[: int(run.n[SPANS])]
    work, busy = run.services["cpu_s"], float(run.hosts["busy_s"].sum())
    cpu_s = work * (busy / work.sum()) if work.sum() > 0 else work.copy()
    column = {name: spans_made[name].copy() for name in ("op", "parent", "request", "start", "enter", "end")}
    return Outcome(
        run.latency, run.failed, column["op"], column["parent"], column["request"], column["start"], column["enter"],
        column["end"], cpu_s, int(run.n[EVENTS]),
    )  # fmt: skip


def traced_of(requests: int) -> Flags:
    """Choose the requests whose spans are kept, (r,): all, or every k-th so that they are at most MOST_TRACED."""
    step = -(-max(1, requests) // MOST_TRACED)
    kept: Flags = np.arange(requests) % step == 0
    return kept


def _initial(program: Program, due_s: Floats, traced: Flags, frames: int, spans: int) -> Run:
    p = program
    services = _records(
        SERVICE, host=p.reach.argmax(axis=1), roams=p.reach.sum(axis=1) > 1, workers=p.workers, queue=p.queue,
        threads=p.threads, quota=PERIOD_S * p.quota,
        left=PERIOD_S * p.quota,
    )  # fmt: skip
    edges = _records(
        EDGE, connections=p.connections, idle=p.idle, retries=p.retries, setup=p.setup, opening=p.opening,
        latency=p.latency, timeout=p.timeout,
    )  # fmt: skip
    for records, names in (
        (services, ("worker_first", "worker_last", "thread_first", "thread_last")),
        (edges, ("first", "last")),
    ):
        for name in names:
            records[name] = -1
    return Run(
        instructions=_records(INSTRUCTION, kind=p.kind, a=p.a, b=p.b),
        operations=_records(OPERATION, first=p.first, service=p.service, scale=p.scale),
        distributions=_records(DISTRIBUTION, kind=p.dist_kind, mean=p.dist_mean, spread=p.dist_spread),
        chance=p.chance,
        root=p.root,
        services=services,
        edges=edges,
        hosts=_records(HOST, cores=p.cores, switching=p.switching, sharing=p.sharing),
        rates=np.zeros((len(p.cores), CACHED), RATE),
        reach=p.reach,
        frames=np.zeros(frames, FRAME),
        threads=np.zeros((len(p.cores), frames), THREAD),
        done=np.full(2 << (len(p.cores) - 1).bit_length(), np.inf),
        timers=np.zeros(4 * frames, TIMER),
        due=due_s,
        traced=traced,
        latency=np.full(len(due_s), np.inf),
        failed=np.zeros(len(due_s), np.bool_),
        spans=np.empty(spans, SPAN),
        ready=np.zeros(1 << (frames - 1).bit_length(), np.uint32),
        n=np.zeros(8, np.int64),
    )


def _records(dtype: np.dtype[np.void], **columns: NDArray[Any]) -> Records:
    """Return records with these columns; the others are zero."""
    records = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, values in columns.items():
        records[name] = values
    return records
