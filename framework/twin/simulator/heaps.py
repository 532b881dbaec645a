"""Binary heaps of records ordered by ``key``, then ``seq``: timers by their time, threads by their completion."""

from __future__ import annotations

from framework.twin.simulator.jit import inlined
from framework.twin.simulator.records import Records


@inlined
def make_room(heap: Records, size: int, key: float, number: int) -> int:
    """Return the place of a new record (``key``, ``seq``: ``number``) in a heap of ``size``; others move down."""
    child = size
    while child > 0:
        above = (child - 1) >> 1
        if heap[above].key < key or (heap[above].key == key and heap[above].seq < number):
            break
        heap[child] = heap[above]
        child = above
    return child


@inlined
def remove_first(heap: Records, size: int) -> None:
    """Remove the first record of the heap; ``size`` is the number of records that remain."""
    key, number = heap[size].key, heap[size].seq
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size:  # without a branch, which the CPU could not predict
            left, right = heap[child], heap[child + 1]
            child += (right.key < left.key) | ((right.key == left.key) & (right.seq < left.seq))
        if key < heap[child].key or (key == heap[child].key and number < heap[child].seq):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = heap[size]
