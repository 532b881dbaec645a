"""A fixed split of the machine, whatever the latency."""

from __future__ import annotations

from dataclasses import dataclass

from framework.guard.policy import POLICIES, changes, most_cores, most_ways, part_of_disk
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting


@POLICIES.register("static")
@dataclass(frozen=True, slots=True)
class Static:
    """BE has ``cores`` cores, as large a share of the cache, and a tenth less than that share of link and disk."""

    cores: int = 1
    period_s: float = 10.0

    def start(self, host: GuardedHost) -> Setting:
        return NOTHING

    def decide(self, host: GuardedHost, state: Setting, sample: Sample) -> tuple[Setting, Decision]:
        cores = min(self.cores, most_cores(host))
        share = cores / host.cores
        ways = min(round(share * host.ways), most_ways(host))
        disk_mbs = part_of_disk(host, 0.9 * share)
        wanted = Setting(True, cores, ways, 0.9 * share * host.link_mbps, disk_mbs=disk_mbs) if cores > 0 else NOTHING
        return wanted, Decision(wanted, changes(state, wanted, f"a fixed split: {cores} of {host.cores} cores"))
