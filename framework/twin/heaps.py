"""Heaps of records: timers by their time, threads by the virtual time at which they are done; ties by their number."""

from __future__ import annotations

import numba

from framework.twin.records import Records


@numba.njit(cache=True, nogil=True)
def pop_timer(timers: Records, size: int) -> None:
    """Remove the first of the heap, whose size has already been counted down."""
    at, number = timers[size].time, timers[size].seq
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and (
            timers[child + 1].time < timers[child].time
            or (timers[child + 1].time == timers[child].time and timers[child + 1].seq < timers[child].seq)
        ):
            child += 1
        if at < timers[child].time or (at == timers[child].time and number < timers[child].seq):
            break
        timers[place] = timers[child]
        place = child
    timers[place] = timers[size]


@numba.njit(cache=True, nogil=True)
def push_thread(threads: Records, size: int, key: float, number: int, frame: int) -> None:
    child = size
    while child > 0:
        above = (child - 1) >> 1
        if threads[above].key < key or (threads[above].key == key and threads[above].seq < number):
            break
        threads[child] = threads[above]
        child = above
    one = threads[child]
    one.key, one.seq, one.frame = key, number, frame


@numba.njit(cache=True, nogil=True)
def pop_thread(threads: Records, size: int) -> None:
    """Remove the first of the heap, whose size has already been counted down."""
    key, number = threads[size].key, threads[size].seq
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and (
            threads[child + 1].key < threads[child].key
            or (threads[child + 1].key == threads[child].key and threads[child + 1].seq < threads[child].seq)
        ):
            child += 1
        if key < threads[child].key or (key == threads[child].key and number < threads[child].seq):
            break
        threads[place] = threads[child]
        place = child
    threads[place] = threads[size]
