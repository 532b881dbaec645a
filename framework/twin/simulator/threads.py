"""Threads that compute: which may run, on what quota, and how the cores of a host are shared among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.twin.simulator.frames import queued, set_timer
from framework.twin.simulator.heaps import make_room
from framework.twin.simulator.jit import inlined
from framework.twin.simulator.records import KNOWN, REFILL, SEQUENCE

PERIOD_S = 0.1  # of a CPU quota: the kernel's default, and Docker's


@inlined
def want_thread(r: Any, now: float, frame: int, demand: float) -> None:
    service = r.frames[frame].service
    r.services[service].cpu_s += demand
    if _may_run(r, now, service):
        _run_thread(r, now, service, frame, demand)
    else:
        r.frames[frame].need = demand
        first, last = queued(r, r.services[service].thread_first, r.services[service].thread_last, frame)
        r.services[service].thread_first, r.services[service].thread_last = first, last


@inlined
def start_threads(r: Any, now: float, service: int) -> None:
    """As many of those that wait as may run now."""
    while r.services[service].thread_first >= 0 and _may_run(r, now, service):
        waiting = r.services[service].thread_first
        r.services[service].thread_first = r.frames[waiting].link
        if r.frames[waiting].link < 0:
            r.services[service].thread_last = -1
        _run_thread(r, now, service, waiting, r.frames[waiting].need)


@inlined
def _may_run(r: Any, now: float, service: int) -> bool:
    """One more thread: below the limit of threads, and there is CPU time left in this period."""
    if r.services[service].threads > 0 and r.services[service].running >= r.services[service].threads:
        return False
    if r.services[service].quota <= 0.0:
        return True
    refill(r, now, service)
    if r.services[service].left > 0.0:
        return True
    if not r.services[service].stopped:  # the first that has to wait sets the clock for all
        r.services[service].stopped = True
        set_timer(r, (r.services[service].period + 1) * PERIOD_S, REFILL, service)
    return False


@inlined
def refilled(r: Any, now: float, service: int) -> None:
    """A period begins for a service that stood still."""
    r.services[service].stopped = False
    start_threads(r, now, service)


@inlined
def refill(r: Any, now: float, service: int) -> None:
    """A period's worth for each that has begun; what was overdrawn is paid back, what was left is lost."""
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
    service = r.frames[frame].service
    host = _emptiest(r, service) if r.services[service].roams else r.services[service].host
    advance(r, now, host)
    r.n[SEQUENCE] += 1
    done = r.hosts[host].virtual + demand
    one = r.threads[host, make_room(r.threads[host], r.hosts[host].threads, done, r.n[SEQUENCE])]
    one.key, one.seq, one.frame = done, r.n[SEQUENCE], frame
    recount(r, host, 1)
    foresee(r, host)


@inlined
def _emptiest(r: Any, service: int) -> int:
    """Of the hosts that a service may use, the one with the fewest threads per core; the first of those that tie."""
    found = int(r.services[service].host)
    for host in range(found + 1, len(r.hosts)):
        if r.reach[service, host]:
            here, there = r.hosts[host], r.hosts[found]
            if here.threads * there.cores < there.threads * here.cores:
                found = host
    return found


@inlined
def recount(r: Any, host: int, change: int) -> None:
    """More or fewer of them compute, each at what it then gets of a core that nobody shares."""
    one = r.hosts[host]
    count = one.threads + change
    one.threads = count
    if count >= KNOWN:
        one.rate = _rate(r, host, count)
        one.slowness = 1.0 / one.rate
        return
    known = r.rates[host, count]
    if known.rate == 0.0:  # seen for the first time: divisions take long
        known.rate = _rate(r, host, count)
        known.slowness = 1.0 / known.rate
    one.rate, one.slowness = known.rate, known.slowness


@inlined
def _rate(r: Any, host: int, count: int) -> float:
    one = r.hosts[host]
    cores = one.cores
    busy = count if count < cores else cores
    rate = 1.0 / (1.0 + one.sharing * (busy - 1.0) / (cores - 1.0)) if busy > 1.0 else 1.0
    if count > cores:
        rate *= cores / count / (1.0 + one.switching * (count / cores - 1.0))
    return rate


@inlined
def advance(r: Any, now: float, host: int) -> None:
    one = r.hosts[host]
    if one.threads:
        passed = now - one.since
        one.virtual += passed * one.rate
        one.busy_s += passed * (one.threads if one.threads < one.cores else one.cores)
    else:
        one.virtual = 0.0  # nobody is there to notice, and small numbers stay exact
    one.since = now


@inlined
def foresee(r: Any, host: int) -> None:
    """When the first of a host's threads will be done, and with it the tree of the hosts above it."""
    one = r.hosts[host]
    at = one.since + (r.threads[host, 0].key - one.virtual) * one.slowness if one.threads else np.inf
    place = len(r.done) // 2 + host
    r.done[place] = at
    while place > 1:
        place >>= 1
        r.done[place] = min(r.done[2 * place], r.done[2 * place + 1])


@inlined
def first_done(r: Any) -> int:
    """The host whose thread is done first; the first of those that tie."""
    hosts, place = len(r.done) // 2, 1
    while place < hosts:
        place *= 2
        place += r.done[place + 1] < r.done[place]
    return place - hosts
