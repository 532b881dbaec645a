"""Hardware counters of services, from the output of `perf stat` (by cgroup) and of toplev (by process).

The fields are those of perf-stat(1), "CSV FORMAT": value, unit, event, cgroup, time that the counter ran [ns], share of
the time in percent, then perf's own derived metrics, which are not used here.  Where there are more events than
counters, the kernel multiplexes them and scales the counts: an event that ran for a small share of the time is refused.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from framework.errors import InputError

SEPARATOR = ";"  # names of events have commas
LEAST_SHARE = 0.25  # of the time: below it, the scaled count is too uncertain
MISSES = {  # level -> events that count its misses; the first one that was counted is taken
    "L1i": ("L1-icache-load-misses",),
    "L1d": ("L1-dcache-load-misses",),
    "L2": ("l2_rqsts.miss", "l2_cache_misses_from_dc_misses"),  # Intel; AMD, Zen 2 and later
    "LLC": ("LLC-load-misses", "cache-misses"),
    "dTLB": ("dTLB-load-misses",),
    "iTLB": ("iTLB-load-misses",),
}
TOPDOWN = {  # level 1 of Yasin, ISPASS 2014: Intel's perf metrics, from Ice Lake on
    "retiring": "topdown-retiring",
    "bad speculation": "topdown-bad-spec",
    "frontend bound": "topdown-fe-bound",
    "backend bound": "topdown-be-bound",
}
TOPLEV_LEVELS = 3
SLOTS = ("slots", "TOPDOWN.SLOTS")
EVENTS = ("cycles", "instructions", *dict.fromkeys(name for names in MISSES.values() for name in names))


@dataclass(frozen=True, slots=True)
class Count:
    """The count of one event in one cgroup.  ``value``: None where it was not counted, and ``why`` says why.

    ``share``: of the time in which the counter ran, 0 to 1.
    """

    value: float | None
    share: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Counters:
    """Metrics of one service, from its hardware counters; None or absent where there is no count.

    ``ipc``: instructions per cycle.  ``mpki``: misses per thousand instructions, by level.  ``topdown``: shares of the
    pipeline's slots, which add up to one.  ``refused``: event -> why it has no count.
    """

    ipc: float | None
    mpki: Mapping[str, float]
    topdown: Mapping[str, float]
    refused: Mapping[str, str]


def read_perf(text: str) -> Mapping[str, Mapping[str, Count]]:
    """Read perf's output: cgroup -> event -> count.  Raises InputError on a line that perf does not write."""
    counts: dict[str, dict[str, Count]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if len(fields) < 6:
            raise InputError(f"perf: line {number} has {len(fields)} fields; allowed: at least 6 ({line!r})")
        value, _, event, cgroup, _, percent = fields[:6]
        if not event:  # a metric that perf derived from the lines before
            continue
        counts.setdefault(cgroup, {})[event.removesuffix(":u").removesuffix(":k")] = _count(value, percent, line)
    return counts


def _count(value: str, percent: str, line: str) -> Count:
    try:
        share = float(percent or 0) / 100
        if value.startswith("<"):
            return Count(None, share, value.strip("<>"))
        number = float(value)
    except ValueError as error:
        raise InputError(f"perf: {line!r} has no number where one belongs") from error
    if share < LEAST_SHARE:
        return Count(None, share, f"counted for {share:.0%} of the time; allowed: from {LEAST_SHARE:.0%}")
    return Count(number, share)


def derived(counts: Mapping[str, Count]) -> Counters:
    """Compute instructions per cycle, misses and the shares of pipeline slots of one cgroup."""
    refused = {event: count.why for event, count in counts.items() if count.value is None}
    cycles, instructions = (_value(counts, name) for name in ("cycles", "instructions"))
    ipc = instructions / cycles if cycles and instructions is not None else None
    mpki: dict[str, float] = {}
    for level, names in MISSES.items():
        known = [value for name in names if (value := _value(counts, name)) is not None]
        if known and instructions:
            mpki[level] = 1000 * known[0] / instructions
    return Counters(ipc, mpki, _topdown(counts), refused)


def as_numbers(counters: Counters) -> Mapping[str, float]:
    """Flatten to metric -> number, as a profile keeps them: ipc, mpki.LEVEL, topdown.PART."""
    return {
        **({"ipc": counters.ipc} if counters.ipc is not None else {}),
        **{f"mpki.{level}": value for level, value in counters.mpki.items()},
        **{f"topdown.{part}": value for part, value in counters.topdown.items()},
    }


def _value(counts: Mapping[str, Count], name: str) -> float | None:
    return counts[name].value if name in counts else None


def _topdown(counts: Mapping[str, Count]) -> Mapping[str, float]:
    """Return the shares of slots, scaled to a sum of one since perf rounds each; empty unless all four were counted."""
    parts = {name: _value(counts, event) for name, event in TOPDOWN.items()}
    known = {name: value for name, value in parts.items() if value is not None}
    total = sum(known.values())
    if len(known) < len(TOPDOWN) or total <= 0 or not any(_value(counts, name) for name in SLOTS):
        return {}
    return {name: value / total for name, value in known.items()}


def read_toplev(text: str) -> Mapping[str, float]:
    """Read toplev's CSV with a header: node with its parents (Backend_Bound.Memory_Bound) -> share.

    Shares (0 to 1) are of slots, clocks or stalls, as toplev defines each node.  Left out: numbers that are not shares,
    levels below the third, values outside 0 to 1, and nodes that were counted for too little of the time.
    Raises InputError on a text that toplev does not write.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip('"').startswith("#")]
    rows = csv.DictReader(lines)
    if not {"Area", "Value", "Unit", "Multiplex"} <= set(rows.fieldnames or ()):
        raise InputError(f"toplev: no header with Area, Value, Unit and Multiplex, but {lines[:1]}")
    shares = {}
    for row in rows:
        node, unit = row["Area"], row["Unit"] or ""
        try:
            share, counted = float(row["Value"]) / 100, float(row["Multiplex"] or 100) / 100
        except (TypeError, ValueError) as error:
            raise InputError(f"toplev: {node!r} has no number where one belongs") from error
        if unit.startswith("%") and node.count(".") < TOPLEV_LEVELS and 0 <= share <= 1 and counted >= LEAST_SHARE:
            shares[node] = share
    return shares
