"""Control of the log ratio of latency and target, as Katalyst does: a dead band, slow up, fast down."""

from __future__ import annotations

import math
from dataclasses import dataclass

from framework.guard.policy import POLICIES, changes, most_cores, most_ways, rest_of, rest_of_disk
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting

REST = 0.9  # of the link and of the disk, for BE and LC


@dataclass(frozen=True, slots=True)
class PidState:
    """``cores``: BE's, before rounding.  ``error``: the last log ratio."""

    setting: Setting = NOTHING
    cores: float = 0.0
    error: float | None = None


@POLICIES.register("pid")
@dataclass(frozen=True, slots=True)
class Pid:
    """BE's cores follow log(aim * target / latency); at most ``up`` cores more and ``down`` fewer a period."""

    period_s: float = 2.0
    proportional: float = 1.5
    derivative: float = 0.5
    aim: float = 0.85
    dead_band: float = 0.05
    up: float = 0.25
    down: float = 3.0

    def start(self, host: GuardedHost) -> PidState:
        return PidState()

    def decide(self, host: GuardedHost, state: PidState, sample: Sample) -> tuple[PidState, Decision]:
        before = state.setting
        if sample.slack(host) == -math.inf:
            step, error = -self.down, None
        else:
            error = math.log(self.aim * host.target_ms / max(1e-6, sample.latency_ms or 0.0))
            change = 0.0 if state.error is None else error - state.error
            wanted = self.proportional * error + self.derivative * change
            step = 0.0 if abs(error) < self.dead_band else min(self.up, max(-self.down, wanted))
        cores = min(float(most_cores(host)), max(0.0, state.cores + step))
        whole = math.floor(cores)
        share = whole / host.cores
        ways = min(round(share * host.ways), most_ways(host))
        mbps, disk_mbs = rest_of(host.link_mbps, REST, sample.lc_mbps), rest_of_disk(host, REST, sample)
        setting = Setting(True, whole, ways, mbps, disk_mbs=disk_mbs) if whole else NOTHING
        told = "no latency" if error is None else f"log ratio {error:+.2f}"
        return PidState(setting, cores, error), Decision(setting, changes(before, setting, told))
