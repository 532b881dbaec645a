"""Memory traffic of groups: where the counters of a pretended resctrl come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from framework.guard.plant.interference import Division, effect
from framework.guard.plant.kinds import LcKind, Machine


@dataclass(frozen=True, slots=True)
class GroupShare:
    """A group's part of the machine.  ``masks``: cache id -> mask (of data); ``bits``: of a whole one, 0: undivided.

    ``limits``: cache id -> MB's value.  ``share`` (0 to 1) and ``ceiling`` (bytes a second, of the machine) of its
    memory traffic that these let pass.
    """

    masks: Mapping[int, int]
    bits: int
    limits: Mapping[int, int]
    share: float
    ceiling: float
    tasks: frozenset[int]

    @property
    def cache(self) -> float:
        """Share of the cache, 0 to 1, on average over cache ids."""
        if not self.bits or not self.masks:
            return 1.0
        return sum(mask.bit_count() for mask in self.masks.values()) / (self.bits * len(self.masks))

    def passes(self, wanted: float) -> float:
        """Return the traffic that is left of what would flow without throttling, in bytes a second."""
        return min(wanted * self.share, self.ceiling)


Traffic = Callable[[Mapping[str, GroupShare]], Mapping[str, float]]
"""Group (its path below the root; the default: an empty text) and its share -> bytes a second of groups."""


def silent(shares: Mapping[str, GroupShare]) -> Mapping[str, float]:
    """Return no traffic."""
    return {}


@dataclass(slots=True)
class PlantTraffic:
    """Traffic of the guard's plant: LC at a rate, and BE's jobs (kind -> cores); both may be changed at any time.

    A group without tasks has no traffic: until LC and BE are moved, theirs is the default group's.
    """

    machine: Machine
    lc: LcKind
    rate_rps: float
    lc_cores: int
    be: Mapping[str, float]
    lc_group: str = "tailor-lc"
    be_group: str = "tailor-be"

    def __call__(self, shares: Mapping[str, GroupShare]) -> Mapping[str, float]:
        lc, be = (shares.get(name, shares[""]) for name in (self.lc_group, self.be_group))
        lc_ways, be_ways = lc.cache * self.machine.ways, be.cache * self.machine.ways
        done = effect(self.machine, self.lc, self.rate_rps, Division(self.lc_cores, lc_ways, be_ways, self.be))
        traffic = dict.fromkeys(shares, 0.0)
        for group, share, gbs in ((self.lc_group, lc, done.lc_gbs), (self.be_group, be, done.be_gbs)):
            traffic[group if group in shares and share.tasks else ""] += share.passes(gbs * 1e9)
        return traffic
