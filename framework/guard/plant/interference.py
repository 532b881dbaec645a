"""Effects of a division of the machine: service times, memory traffic, the link and the jobs' progress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from framework.guard.plant.kinds import BE_KINDS, LcKind, Machine

LEAST_MISSES = 0.15  # of the misses without any cache: those that no cache avoids
STRETCH = 1.2  # of the time that waits for memory, where the bandwidth is used up; rises with the fourth power
MOST_USED = 0.97  # of a link or of the memory's bandwidth: beyond it a queue has no steady state
BUFFER_MS = 40.0  # that a packet waits behind the full queue of a link of 1 Gb/s
SPLIT_LOSS = 0.06  # of the link's bandwidth, that shaping loses


@dataclass(frozen=True, slots=True)
class Division:
    """Cores, cache and link of LC and BE.  ``be``: kind -> cores (CPU time).  ``shared``: on the same cores as LC.

    ``be_mbps``: that BE may send; infinite: nobody shapes it.
    """

    lc_cores: int
    lc_ways: float
    be_ways: float
    be: Mapping[str, float]
    be_mbps: float = math.inf
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a division.  ``service_s``: LC's mean service time.  ``wait_s``: of a reply at the link.

    ``progress``: kind -> work done in one second, in core seconds that a job alone on the machine would do.
    """

    service_s: float
    wait_s: float
    bandwidth_gbs: float
    lc_gbs: float
    be_gbs: float
    lc_mbps: float
    be_mbps: float
    progress: Mapping[str, float]


def misses(cache_mb: float, working_mb: float) -> float:
    """Return the misses with this much cache, as a share of those without any."""
    return LEAST_MISSES + (1 - LEAST_MISSES) * math.exp(-cache_mb / working_mb)


def stretch(used: float) -> float:
    """Return the factor on the time that waits for memory, of which this share of the bandwidth is wanted."""
    return 1 + STRETCH * min(1.0, used) ** 4 + max(0.0, used - 1.0)


def effect(machine: Machine, lc: LcKind, rate: float, division: Division) -> Effect:
    """Return what a division does at a rate."""
    each_mb = machine.cache_mb / machine.ways
    lc_misses = misses(division.lc_ways * each_mb, lc.working_mb)
    busy = min(float(division.lc_cores), rate * lc.service_ms / 1e3)
    lc_gbs = busy * lc.core_gbs * lc_misses
    wanted = dict[str, float]()
    jobs = [(BE_KINDS[name], cores) for name, cores in division.be.items() if cores > 0]
    occupied = sum(cores for _, cores in jobs)
    for kind, cores in jobs:
        mine = division.be_ways * each_mb * cores / occupied
        wanted[kind.name] = cores * kind.core_gbs * misses(mine, kind.working_mb)
    be_gbs = sum(wanted.values())
    used = (lc_gbs + be_gbs) / machine.bandwidth_gbs
    slower = stretch(used)
    alone = misses(machine.cache_mb, lc.working_mb)
    service = lc.service_ms / 1e3 * (1 - lc.memory + lc.memory * lc_misses / alone * slower)
    if division.shared:
        service *= 1 + (lc.sibling - 1) * min(1.0, occupied / machine.cores)
    progress = {kind.name: cores / (1 - kind.memory + kind.memory * slower) for kind, cores in jobs}
    carried = min(1.0, 1 / used) if used > 0 else 1.0
    asked = sum(kind.mbps * cores for kind, cores in jobs)
    lc_mbps, be_mbps, wait_s = _link(machine, lc, rate, asked, division.be_mbps)
    for kind, _ in jobs:
        if kind.mbps:
            progress[kind.name] *= be_mbps / asked
    return Effect(
        service, wait_s, (lc_gbs + be_gbs) * carried, lc_gbs * carried, be_gbs * carried, lc_mbps, be_mbps, progress
    )


def _link(machine: Machine, lc: LcKind, rate: float, asked: float, allowed: float) -> tuple[float, float, float]:
    """Return what LC and BE send in Mb/s, and how long a reply waits."""
    lc_mbps, own_s = rate * lc.reply_kb * 8 / 1e3, lc.reply_kb * 8 / 1e3 / machine.link_mbps
    left = max(0.0, machine.link_mbps - lc_mbps)
    be_mbps = min(asked, allowed, left)
    used = (lc_mbps + be_mbps) / machine.link_mbps
    if used >= MOST_USED:
        return lc_mbps, be_mbps, BUFFER_MS / machine.link_mbps
    return lc_mbps, be_mbps * (1 - SPLIT_LOSS), own_s / (1 - used)
