"""Koordinator's suppression of best-effort CPUs: a share of the capacity, less what everything else uses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from framework.guard.policy import POLICIES, changes, most_cores, most_ways, part_of_disk
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting


@POLICIES.register("koordinator")
@dataclass(frozen=True, slots=True)
class Koordinator:
    """Each second BE has ``share`` of the cores less those that LC uses; it grows by at most a tenth of them.

    The latency is not looked at.  Half of the cache, of the link and of the disk are BE's.
    """

    period_s: float = 1.0
    share: float = 0.65
    growth: float = 0.10
    least: int = 2

    def start(self, host: GuardedHost) -> Setting:
        return NOTHING

    def decide(self, host: GuardedHost, state: Setting, sample: Sample) -> tuple[Setting, Decision]:
        used = float(host.cores) if sample.lc_cores is None else sample.lc_cores
        free = self.share * host.cores - used
        step = max(1, math.floor(self.growth * host.cores))
        cores = min(max(self.least, math.floor(free)), int(state.cores) + step, most_cores(host))
        cores = max(cores, min(self.least, most_cores(host)))
        ways = min(host.ways // 2, most_ways(host))
        wanted = Setting(True, cores, ways, host.link_mbps / 2, disk_mbs=part_of_disk(host, 0.5))
        return wanted, Decision(wanted, changes(state, wanted, f"LC uses {used:.1f} of {host.cores} cores"))
