"""Meta's sideloader (resctl-demo): a CPU quota of what is idle, and a freeze that lasts longer each time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from framework.guard.policy import POLICIES, changes, most_ways, part_of_disk
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting


@dataclass(frozen=True, slots=True)
class SideloaderState:
    """``frozen_s``: until when BE is frozen.  ``hold_s``: the length of the next freeze."""

    setting: Setting = NOTHING
    frozen_s: float = -math.inf
    hold_s: float = 0.0
    calm_s: float = 0.0


@POLICIES.register("sideloader")
@dataclass(frozen=True, slots=True)
class Sideloader:
    """BE shares the cores with LC: its quota is what it uses, and what is idle, less ``headroom`` of the machine.

    A missed target freezes it for ``hold_s``, twice as long each further time, at most ``longest_s``.
    Half of the cache, of the link and of the disk are BE's.
    """

    period_s: float = 1.0
    headroom: float = 0.20
    hold_s: float = 5.0
    longest_s: float = 120.0

    def start(self, host: GuardedHost) -> SideloaderState:
        return SideloaderState(hold_s=self.hold_s)

    def decide(self, host: GuardedHost, state: SideloaderState, sample: Sample) -> tuple[SideloaderState, Decision]:
        slack, before = sample.slack(host), state.setting
        if sample.time_s < state.frozen_s:
            return state, Decision(before)
        if slack < 0:
            until, longer = sample.time_s + state.hold_s, min(2 * state.hold_s, self.longest_s)
            state = SideloaderState(NOTHING, until, longer)
            return state, Decision(NOTHING, changes(before, NOTHING, f"slack {slack:.0%}"))
        used = float(host.cores) if sample.lc_cores is None else sample.lc_cores
        quota = max(0.0, host.cores * (1 - self.headroom) - used)
        ways = min(host.ways // 2, most_ways(host))
        half = Setting(True, quota, ways, host.link_mbps / 2, exclusive=False, disk_mbs=part_of_disk(host, 0.5))
        wanted = half if quota > 0 else NOTHING
        calm = state.calm_s + self.period_s
        hold = self.hold_s if calm > self.longest_s else state.hold_s
        state = replace(state, setting=wanted, calm_s=calm, hold_s=hold)
        return state, Decision(wanted, changes(before, wanted, f"{quota:.1f} cores are idle beyond the headroom"))
