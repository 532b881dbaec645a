"""Computing threads: limits and quotas of services, and the sharing of a host's cores (processor sharing)."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.frames import enqueue, set_timer
from framework.twin.simulator.heaps import make_room
from framework.twin.simulator.jit import inlined
from framework.twin.simulator.records import CACHED, REFILL, SEQUENCE

PERIOD_S = 0.1  # of a CPU quota: the kernel's default, and Docker's


@inlined
def request_thread(r: Any, now: float, frame: int, demand: float) -> None:
    """Compute ``demand`` seconds of CPU for a frame, or queue it until its service may run another thread."""
    service = r.frames[frame].service
    r.services[service].cpu_s += demand
    if _may_run(r, now, service):
        _run_thread(r, now, service, frame, demand)
    else:
        r.frames[frame].need = demand
        first, last = enqueue(r, r.services[service].thread_first, r.services[service].thread_last, frame)
        r.services[service].thread_first, r.services[service].thread_last = first, last


@inlined
def start_threads(r: Any, now: float, service: int) -> None:
    """Start as many waiting threads of a service as may run now."""
    while r.services[service].thread_first >= 0 and _may_run(r, now, service):
        waiting = r.services[service].thread_first
        r.services[service].thread_first = r.frames[waiting].link
        if r.frames[waiting].link < 0:
            r.services[service].thread_last = -1
        _run_thread(r, now, service, waiting, r.frames[waiting].need)


@inlined
def _may_run(r: Any, now: float, service: int) -> bool:
    """Return whether one more thread may run: the service is below its limit and has CPU time left in this period."""
    if r.services[service].threads > 0 and r.services[service].running >= r.services[service].threads:
        return False
    if r.services[service].quota <= 0.0:
        return True
    refill(r, now, service)
    if r.services[service].left > 0.0:
        return True
    if not r.services[service].stopped:  # the first thread that has to wait sets the timer for all
        r.services[service].stopped = True
        set_timer(r, (r.services[service].period + 1) * PERIOD_S, REFILL, service)
    return False


@inlined
def end_throttling(r: Any, now: float, service: int) -> None:
    """Start the waiting threads of a throttled service when a new period begins."""
    r.services[service].stopped = False
    start_threads(r, now, service)


@inlined
def refill(r: Any, now: float, service: int) -> None:
    """Add the quota of each period that has begun: overdrawn time is paid back, unused time is lost."""
    period = np.int64(now / PERIOD_S + 1e-9)
    passed = period - r.services[service].period
    if passed > 0:
        r.services[service].period = period
        left = r.services[service].left + passed * r.services[service].quota
        r.services[service].left = min(r.services[service].quota, left)


@inlined
def _run_thread(r: Any, now: float, service: int, frame: int, demand: float) -> None:
    r.services[service].running += 1
    r.services[service].left -= demand
    compute(r, now, frame, demand)


@inlined
def compute(r: Any, now: float, frame: int, demand: float) -> None:
    """Put a thread with this demand on a host of the frame's service."""
    service = r.frames[frame].service
    host = _least_loaded(r, service) if r.services[service].roams else r.services[service].host
    advance(r, now, host)
    r.n[SEQUENCE] += 1
    done = r.hosts[host].virtual + demand
    thread = r.threads[host, make_room(r.threads[host], r.hosts[host].threads, done, r.n[SEQUENCE])]
    thread.key, thread.seq, thread.frame = done, r.n[SEQUENCE], frame
    change_threads(r, host, 1)
    update_completion(r, host)


@inlined
def _least_loaded(r: Any, service: int) -> int:
    """Return the host with the fewest threads per core of those that a service may use; the first where some tie."""
    best = int(r.services[service].host)
    for host in range(best + 1, len(r.hosts)):
        if r.reach[service, host]:
            here, there = r.hosts[host], r.hosts[best]
            if here.threads * there.cores < there.threads * here.cores:
                best = host
    return best


@inlined
def change_threads(r: Any, host: int, change: int) -> None:
    """Add ``change`` to the number of computing threads of a host, and set the rate of each."""
    state = r.hosts[host]
    count = state.threads + change
    state.threads = count
    if count >= CACHED:
        state.rate = _rate(r, host, count)
        state.slowness = 1.0 / state.rate
        return
    cached = r.rates[host, count]
    if cached.rate == 0.0:  # not computed yet; cached because divisions are slow
        cached.rate = _rate(r, host, count)
        cached.slowness = 1.0 / cached.rate
    state.rate, state.slowness = cached.rate, cached.slowness


@inlined
def _rate(r: Any, host: int, count: int) -> float:
    """Return the rate of each of ``count`` threads, as a fraction of that of one thread alone on the host."""
    state = r.hosts[host]
    cores = state.cores
    busy = count if count < cores else cores
    rate = 1.0 / (1.0 + state.sharing * (busy - 1.0) / (cores - 1.0)) if busy > 1.0 else 1.0
    if count > cores:
        rate *= cores / count / (1.0 + state.switching * (count / cores - 1.0))
    return rate


@inlined
def advance(r: Any, now: float, host: int) -> None:
    """Advance the virtual time and the busy time of a host to ``now``."""
    state = r.hosts[host]
    if state.threads:
        passed = now - state.since
        state.virtual += passed * state.rate
        state.busy_s += passed * (state.threads if state.threads < state.cores else state.cores)
    else:
        state.virtual = 0.0  # no thread depends on it, and small numbers are more exact
    state.since = now


@inlined
def update_completion(r: Any, host: int) -> None:
    """Set the next completion of a host, and the minima above it in the tree ``done``."""
    state = r.hosts[host]
    at = state.since + (r.threads[host, 0].key - state.virtual) * state.slowness if state.threads else np.inf
    place = len(r.done) // 2 + host
    r.done[place] = at
    while place > 1:
        place >>= 1
        r.done[place] = min(r.done[2 * place], r.done[2 * place + 1])


@inlined
def first_done(r: Any) -> int:
    """Return the host with the earliest completion; the first where some tie."""
    hosts, place = len(r.done) // 2, 1
    while place < hosts:
        place *= 2
        place += r.done[place + 1] < r.done[place]
    return place - hosts
