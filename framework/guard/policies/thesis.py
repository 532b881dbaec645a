"""The controllers of the thesis (Zhang Chenyu, Tsinghua 2018, chapter 4), exactly: its tests in its order.

Top level, every 10 s: slack and load decide whether BE runs and may grow.  Every 5 s: cores, cache and memory
bandwidth by a descent in two directions.  Every second: the link.  Below a load of 70 % BE is neither stopped nor
weakened until the target is missed: the test of the load stands before those of the slack.  Disks are not limited:
the thesis has no controller for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from framework.guard.policy import POLICIES, changes, first_setting, most_cores, most_ways, rest_of
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting


@dataclass(frozen=True, slots=True)
class ThesisState:
    """``strikes``: times in a row that the top level saw too little slack or too much load.

    ``grown``: bandwidth and slack before the last way was given to BE; None: nothing to check.
    """

    setting: Setting = NOTHING
    strikes: int = 0
    enabled: bool = False
    may_grow: bool = True
    cooled_s: float = -math.inf
    direction: Literal["ways", "cores"] = "ways"
    grown: tuple[float, float] | None = None
    top_s: float = -math.inf
    resources_s: float = -math.inf


@POLICIES.register("thesis")
@dataclass(frozen=True, slots=True)
class Thesis:
    """``rolls_back_when``: which change of the memory traffic, after BE got a way more, takes the way back.

    The thesis prints "fell"; more cache should lower the traffic, so that one would expect "rose".  ``cooldown_s``: its
    text gives no length.  ``spare``: LC can spare a core where it would use at most this share of those left.
    """

    period_s: float = 1.0
    top_period_s: float = 10.0
    resources_period_s: float = 5.0
    high_load: float = 0.85
    low_load: float = 0.70
    hold_slack: float = 0.40
    weaken_slack: float = 0.20
    grow_slack: float = 0.30
    worse_slack: float = 0.15
    bandwidth_limit: float = 0.90
    network_share: float = 0.90
    spare: float = 0.90
    cooldown_s: float = 60.0
    rolls_back_when: Literal["fell", "rose"] = "fell"

    def start(self, host: GuardedHost) -> ThesisState:
        return ThesisState()

    def decide(self, host: GuardedHost, state: ThesisState, sample: Sample) -> tuple[ThesisState, Decision]:
        before, reasons = state.setting, dict[str, str]()
        if sample.time_s - state.top_s >= self.top_period_s:
            state, reason = self._top(host, replace(state, top_s=sample.time_s), sample)
            reasons |= changes(before, state.setting, reason)
        if sample.time_s - state.resources_s >= self.resources_period_s:
            middle = state.setting
            state, reason = self._resources(host, replace(state, resources_s=sample.time_s), sample)
            reasons |= changes(middle, state.setting, reason)
        middle = state.setting
        state = replace(state, setting=self._network(host, state.setting, sample))
        reasons |= changes(middle, state.setting, "90 % of the link, less what LC uses")
        return state, Decision(state.setting, reasons)

    def _top(self, host: GuardedHost, state: ThesisState, sample: Sample) -> tuple[ThesisState, str]:
        slack, load = sample.slack(host), sample.load(host)
        if slack < 0:
            state = replace(state, strikes=state.strikes + 1)
            if state.strikes >= 2:
                state = replace(state, enabled=False, cooled_s=sample.time_s + self.cooldown_s)
            return self._switched(host, state), f"slack {slack:.0%}, {state.strikes} in a row"
        if load > self.high_load:
            state = replace(state, strikes=state.strikes + 1)
            if state.strikes >= 2:
                state = replace(state, enabled=False)
            return self._switched(host, state), f"load {load:.0%}, {state.strikes} in a row"
        if load < self.low_load:
            enabled = sample.time_s >= state.cooled_s
            state = replace(state, strikes=0, enabled=enabled, may_grow=True)
            return self._switched(host, state), f"load {load:.0%}"
        if slack < self.hold_slack:
            state = replace(state, strikes=0, may_grow=False)
            if slack < self.weaken_slack and state.setting.cores > 1:
                weaker = replace(state.setting, cores=state.setting.cores - 1)
                return replace(state, setting=weaker), f"slack {slack:.0%} at a load of {load:.0%}"
        return state, ""

    def _switched(self, host: GuardedHost, state: ThesisState) -> ThesisState:
        """Return the state with BE running or not, as is enabled; it begins with one core and one way."""
        if not state.enabled:
            return replace(state, setting=NOTHING, direction="ways", grown=None)
        if state.setting.running:
            return state
        return replace(state, setting=first_setting(host), direction="ways", grown=None)

    def _resources(self, host: GuardedHost, state: ThesisState, sample: Sample) -> tuple[ThesisState, str]:
        if not (state.enabled and state.may_grow):
            return state, ""
        setting, slack = state.setting, sample.slack(host)
        total, be = sample.bandwidth_gbs or 0.0, sample.be_bandwidth_gbs or 0.0
        limit = self.bandwidth_limit * host.bandwidth_gbs
        each = be / setting.cores if setting.cores else 0.0
        if limit > 0 and total > limit and each > 0:
            fewer = max(1, setting.cores - math.ceil((total - limit) / each))
            return replace(state, setting=replace(setting, cores=fewer)), f"{total:.0f} of {limit:.0f} GB/s"
        if state.direction == "ways":
            return self._ways(host, state, total, slack)
        if limit > 0 and (sample.lc_bandwidth_gbs or 0.0) + be + each > limit:
            return replace(state, direction="ways"), ""
        if slack > self.grow_slack and setting.cores < most_cores(host) and self._spares(host, setting, sample):
            grown = replace(setting, cores=setting.cores + 1)
            return replace(state, setting=grown, direction="ways"), f"slack {slack:.0%}, and LC can spare a core"
        return state, ""

    def _ways(self, host: GuardedHost, state: ThesisState, total: float, slack: float) -> tuple[ThesisState, str]:
        """Give BE a way; five seconds later look what came of it."""
        setting = state.setting
        if state.grown is not None:
            bandwidth, before = state.grown
            moved = total < bandwidth if self.rolls_back_when == "fell" else total > bandwidth
            state = replace(state, grown=None)
            if moved or slack < before - self.worse_slack or slack < 0:
                back = replace(setting, ways=max(1, setting.ways - 1)) if host.ways else setting
                return replace(state, setting=back, direction="cores"), f"{total:.1f} GB/s after {bandwidth:.1f}"
        if setting.ways >= most_ways(host):
            return replace(state, direction="cores"), ""
        grown = replace(setting, ways=setting.ways + 1)
        return replace(state, setting=grown, grown=(total, slack)), "one way more"

    def _spares(self, host: GuardedHost, setting: Setting, sample: Sample) -> bool:
        left = host.cores - setting.cores - 1
        return sample.lc_cores is not None and left >= 1 and sample.lc_cores <= self.spare * left

    def _network(self, host: GuardedHost, setting: Setting, sample: Sample) -> Setting:
        if not (host.link_mbps and setting.running):
            return setting
        return replace(setting, mbps=rest_of(host.link_mbps, self.network_share, sample.lc_mbps))
