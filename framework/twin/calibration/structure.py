"""The call structure of requests, from traces: which calls an operation makes, how often, in which order, its own time.

Traces give trees of calls.  All occurrences of one operation (a service's answer to one kind of call) are aligned: its
k-th call to another operation becomes a slot with a probability, slots are ordered by the median time when they begin,
and slots that overlap in most occurrences are parallel.  Calls to one operation are a loop where an occurrence makes
more than ``SLOTS`` of them.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.critical_path.attribution import Charges, charged
from framework.critical_path.skew import adjusted
from framework.critical_path.waiting import CLIENT, PRODUCER, SERVER, waited_for
from framework.model.spans import SpanTable

SLOTS = 4  # calls of one occurrence to one operation; more of them are a loop
MOST_TRACES = 5_000

Key = tuple[str, str]
"""(service, operation)."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations: mean in microseconds, and the standard deviation of their logarithm."""

    mean_us: float
    spread: float
    count: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One call of an operation.  ``probability``: per occurrence.  ``mode``: wait; parallel: with the slot before;
    spawn: the caller does not wait for the answer.  ``times``: mean number of rounds of a loop; 1 otherwise.
    ``way_us``: mean duration that the caller sees minus that of the callee, which is both ways of the network.
    """

    callee: Key
    probability: float
    mode: str
    times: float
    loop: bool
    way_us: float


@dataclass(frozen=True, slots=True)
class ObservedOperation:
    """An operation as traces show it: its calls, and its own time in the pieces before, between and after its slots
    (one more than slots; the pieces within a parallel group are about 0).
    """

    key: Key
    occurrences: int
    own: Durations
    pieces_us: tuple[float, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The call structure of an application.  ``classes``: root, as "service operation" -> its share of the requests."""

    traces: int
    operations: tuple[ObservedOperation, ...]
    classes: Mapping[str, float]


@dataclass(slots=True)
class _Node:
    """A call in a trace, times in ns: ``outer`` as the caller sees it, ``inner`` as the callee does."""

    key: Key
    outer: tuple[int, int]
    inner: tuple[int, int]
    waited: bool
    children: list[_Node] = field(default_factory=list)


def structure(spans: SpanTable, entry: str, peers: Mapping[str, str] | None = None) -> Structure:
    """Learn the call structure from the first ``MOST_TRACES`` traces.  ``entry``, ``peers``: as for ``charged``."""
    spans = adjusted(spans)
    roots = _nodes(spans, charged(spans, entry, peers))
    occurrences: dict[Key, list[_Node]] = defaultdict(list)
    stack = list(roots)
    while stack:
        node = stack.pop()
        occurrences[node.key].append(node)
        stack += node.children
    classes = Counter(root.key for root in roots)
    return Structure(
        len(roots),
        tuple(_observed(key, nodes) for key, nodes in occurrences.items()),
        {" ".join(key): count / len(roots) for key, count in classes.items()},
    )


# ---------------------------------------------------------------------- spans to calls


def _nodes(spans: SpanTable, charges: Charges) -> list[_Node]:
    """Return the roots of the trees of calls."""
    waited = waited_for(spans)
    names, strings = charges.names, spans.strings
    answers: dict[int, int] = {}  # call -> the server span that answered it
    for row in np.flatnonzero((spans.kind == SERVER) & (spans.parent >= 0)).tolist():
        answers.setdefault(int(spans.parent[row]), row)
    order = np.lexsort((spans.start_ns, spans.trace)).tolist()
    kinds, parents = spans.kind.tolist(), spans.parent.tolist()
    starts, ends = spans.start_ns.tolist(), spans.end_ns.tolist()
    node_of: dict[int, _Node] = {}
    pairs: list[tuple[int, _Node]] = []
    roots: list[_Node] = []
    for row in order:
        parent = parents[row]
        called = kinds[row] in (CLIENT, PRODUCER)
        if parent == -1:
            if spans.trace[row] >= MOST_TRACES:
                continue
            key = (names[charges.service[row]], strings[spans.operation[row]])
            node_of[row] = node = _Node(key, (starts[row], ends[row]), (starts[row], ends[row]), True)
            roots.append(node)
        elif parent < 0:  # the span of its caller is missing
            continue
        elif called:
            inner = answers.get(row, row)
            key = (names[charges.service[inner]], strings[spans.operation[inner]])
            node = _Node(key, (starts[row], ends[row]), (starts[inner], ends[inner]), bool(waited[row]))
            node_of[row] = node_of[inner] = node
            pairs.append((parent, node))
        elif kinds[row] == SERVER and row not in node_of:  # the caller sent no client span, or is the load generator
            key = (names[charges.service[row]], strings[spans.operation[row]])
            node_of[row] = node = _Node(key, (starts[row], ends[row]), (starts[row], ends[row]), bool(waited[row]))
            pairs.append((parent, node))
    for parent, node in pairs:
        above = parent
        while above >= 0 and above not in node_of:  # internal spans belong to the operation that they are part of
            above = parents[above]
        if above >= 0 and node_of[above] is not node:
            node_of[above].children.append(node)
    return roots


# ---------------------------------------------------------------------- calls to operations


def _observed(key: Key, nodes: Sequence[_Node]) -> ObservedOperation:
    for node in nodes:
        node.children.sort(key=lambda child: child.outer[0])
    slots, placed = _slots(nodes)
    pieces = np.zeros(len(slots) + 1)
    own = []
    for node, calls in zip(nodes, placed, strict=True):
        reached, total = node.inner[0], 0
        for place, (begin, end) in calls:
            gap = max(0, min(begin, node.inner[1]) - reached)
            pieces[place] += gap
            total += gap
            if slots[place].mode != "spawn":
                reached = max(reached, min(end, node.inner[1]))
        rest = max(0, node.inner[1] - reached)
        pieces[len(slots)] += rest
        own.append(total + rest)
    return ObservedOperation(
        key, len(nodes), _durations(own), tuple((pieces / len(nodes) / 1e3).tolist()), tuple(slots)
    )


def _slots(nodes: Sequence[_Node]) -> tuple[list[Slot], list[list[tuple[int, tuple[int, int]]]]]:
    """Return the slots in order, and for each occurrence its slots with the times in ns when they began and ended."""
    many = {
        callee for node in nodes for callee, count in Counter(c.key for c in node.children).items() if count > SLOTS
    }
    calls: dict[tuple[Key, int], list[tuple[int, _Node, int]]] = defaultdict(list)
    for number, node in enumerate(nodes):
        seen: Counter[Key] = Counter()
        for child in node.children:
            place = 0 if child.key in many else seen[child.key]
            seen[child.key] += 1
            calls[child.key, place].append((number, child, node.inner[0]))
    names = sorted(calls, key=lambda name: statistics.median(c.outer[0] - begin for _, c, begin in calls[name]))
    spans_of: list[dict[int, tuple[int, int]]] = []
    slots: list[Slot] = []
    for name in names:
        rows = calls[name]
        when: dict[int, tuple[int, int]] = {}
        for number, child, _ in rows:
            begin, end = when.get(number, child.outer)
            when[number] = (min(begin, child.outer[0]), max(end, child.outer[1]))
        way = statistics.fmean((c.outer[1] - c.outer[0]) - (c.inner[1] - c.inner[0]) for _, c, _ in rows)
        slots.append(
            Slot(
                callee=name[0],
                probability=len(when) / len(nodes),
                mode=_mode(rows, when, nodes, spans_of, slots),
                times=len(rows) / len(when) if name[0] in many else 1.0,
                loop=name[0] in many,
                way_us=max(0.0, way / 1e3),
            )
        )
        spans_of.append(when)
    placed: list[list[tuple[int, tuple[int, int]]]] = [[] for _ in nodes]
    for place, when in enumerate(spans_of):
        for number, interval in when.items():
            placed[number].append((place, interval))
    return slots, placed


def _mode(
    rows: Sequence[tuple[int, _Node, int]],
    when: Mapping[int, tuple[int, int]],
    nodes: Sequence[_Node],
    before: Sequence[Mapping[int, tuple[int, int]]],
    slots: Sequence[Slot],
) -> str:
    """Return the mode of a call: the one of most occurrences."""
    after = sum(not child.waited or child.outer[1] > nodes[number].inner[1] for number, child, _ in rows)
    if after > len(rows) / 2:
        return "spawn"
    pairs = zip(before[::-1], slots[::-1], strict=True)
    previous = next((intervals for intervals, slot in pairs if slot.mode != "spawn"), None)
    if previous:
        both = [number for number in when if number in previous]
        if both and sum(when[number][0] < previous[number][1] for number in both) > len(both) / 2:
            return "parallel"
    return "wait"


def _durations(durations_ns: Sequence[int]) -> Durations:
    values = np.maximum(np.asarray(durations_ns, dtype=np.float64), 1.0) / 1e3
    return Durations(float(values.mean()), float(np.log(values).std()), len(values))
