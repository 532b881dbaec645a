"""Heracles as published (Lo et al., ISCA 2015, algorithms 1 to 4).  It has no controller of disks: none is limited."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from framework.guard.policy import POLICIES, changes, first_setting, most_cores, most_ways
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting


@dataclass(frozen=True, slots=True)
class HeraclesState:
    """``grown``: bandwidth before the last way was given to BE."""

    setting: Setting = NOTHING
    enabled: bool = False
    may_grow: bool = True
    cooled_s: float = -math.inf
    direction: Literal["ways", "cores"] = "ways"
    grown: float | None = None
    top_s: float = -math.inf
    resources_s: float = -math.inf


@POLICIES.register("heracles")
@dataclass(frozen=True, slots=True)
class Heracles:
    """Top level every 15 s, cores and memory every 2 s, the link every second."""

    period_s: float = 1.0
    top_period_s: float = 15.0
    resources_period_s: float = 2.0
    high_load: float = 0.85
    low_load: float = 0.80
    hold_slack: float = 0.10
    weaken_slack: float = 0.05
    bandwidth_limit: float = 0.90
    cooldown_s: float = 300.0

    def start(self, host: GuardedHost) -> HeraclesState:
        return HeraclesState()

    def decide(self, host: GuardedHost, state: HeraclesState, sample: Sample) -> tuple[HeraclesState, Decision]:
        before, reasons = state.setting, dict[str, str]()
        if sample.time_s - state.top_s >= self.top_period_s:
            state, reason = self._top(host, replace(state, top_s=sample.time_s), sample)
            reasons |= changes(before, state.setting, reason)
        if sample.time_s - state.resources_s >= self.resources_period_s:
            middle = state.setting
            state, reason = self._resources(host, replace(state, resources_s=sample.time_s), sample)
            reasons |= changes(middle, state.setting, reason)
        middle = state.setting
        state = replace(state, setting=_network(host, state.setting, sample))
        reasons |= changes(middle, state.setting, "the link, less what LC uses and its headroom")
        return state, Decision(state.setting, reasons)

    def _top(self, host: GuardedHost, state: HeraclesState, sample: Sample) -> tuple[HeraclesState, str]:
        """Algorithm 1."""
        slack, load = sample.slack(host), sample.load(host)
        if slack < 0:
            off = replace(state, enabled=False, cooled_s=sample.time_s + self.cooldown_s)
            return _switched(host, off), f"slack {slack:.0%}"
        if load > self.high_load:
            return _switched(host, replace(state, enabled=False)), f"load {load:.0%}"
        if load < self.low_load and sample.time_s >= state.cooled_s:
            state = _switched(host, replace(state, enabled=True))
        setting = state.setting
        state = replace(state, may_grow=slack >= self.hold_slack)
        if slack < self.weaken_slack and setting.cores > 2:
            return replace(state, setting=replace(setting, cores=2)), f"slack {slack:.0%}"
        return state, f"load {load:.0%}"

    def _resources(self, host: GuardedHost, state: HeraclesState, sample: Sample) -> tuple[HeraclesState, str]:
        """Algorithm 2."""
        if not state.enabled:
            return state, ""
        setting, slack = state.setting, sample.slack(host)
        total, be = sample.bandwidth_gbs or 0.0, sample.be_bandwidth_gbs or 0.0
        limit = self.bandwidth_limit * host.bandwidth_gbs
        each = be / setting.cores if setting.cores else 0.0
        if limit > 0 and total > limit and each > 0:
            fewer = max(1, setting.cores - math.ceil((total - limit) / each))
            return replace(state, setting=replace(setting, cores=fewer)), f"{total:.0f} of {limit:.0f} GB/s"
        if not state.may_grow:
            return state, ""
        if state.direction == "ways":
            if state.grown is not None:
                rose, state = total - state.grown >= 0, replace(state, grown=None)
                if rose:
                    back = replace(setting, ways=max(1, setting.ways - 1)) if host.ways else setting
                    return replace(state, setting=back, direction="cores"), "the way did not lower the memory traffic"
            if setting.ways >= most_ways(host) or (limit > 0 and total + each > limit):
                return replace(state, direction="cores"), ""
            return replace(state, setting=replace(setting, ways=setting.ways + 1), grown=total), "one way more"
        if limit > 0 and (sample.lc_bandwidth_gbs or 0.0) + be + each > limit:
            return replace(state, direction="ways"), ""
        if slack > self.hold_slack and setting.cores < most_cores(host):
            return replace(state, setting=replace(setting, cores=setting.cores + 1)), f"slack {slack:.0%}"
        return state, ""


def _switched(host: GuardedHost, state: HeraclesState) -> HeraclesState:
    if not state.enabled:
        return replace(state, setting=NOTHING, direction="ways", grown=None)
    if state.setting.running:
        return state
    return replace(state, setting=first_setting(host), direction="ways", grown=None)


def _network(host: GuardedHost, setting: Setting, sample: Sample) -> Setting:
    """Algorithm 4."""
    if not (host.link_mbps and setting.running):
        return setting
    used = host.link_mbps if sample.lc_mbps is None else sample.lc_mbps
    return replace(setting, mbps=max(0.0, host.link_mbps - used - max(0.05 * host.link_mbps, 0.10 * used)))
