"""Tailor's own policy: slack first, then load; cores by a queueing model that is corrected by what is measured.

LC gets the fewest cores with which the model foresees its tail inside the target at the rate that is coming; BE gets
the others, slowly, and loses them at once.  The service time is LC's CPU time per request, which holds what neighbours
do to it; the rest that the model does not know is a factor.  What sensors read is smoothed, except where it rises by
more than their noise: then it counts at once, and a rate is continued.  A violation freezes BE within one period.
Cache ways and memory traffic are given while the service time stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from framework.guard.policy import POLICIES, changes, most_cores, most_ways, rest_of, rest_of_disk
from framework.guard.queueing import tail_s
from framework.model.guard import NOTHING, Decision, GuardedHost, Sample, Setting

QUANTILE = 0.95
SIGNIFICANT = 3.0  # standard deviations beyond which a reading is no noise
LEAST_NOISE = 1e-4  # variance of the factor


@dataclass(frozen=True, slots=True)
class TailorState:
    """``rate``: that is reckoned with; ``last_rate``: of the last sample; ``rate_noise``: variance between two samples.
    ``service_s``: LC's CPU time per request.  ``factor``: log of measured over foreseen latency; ``factor_noise``: its
    variance.  ``grown_s``: when BE last got a core.  ``frozen_s``: until when BE is frozen; ``hold_s``: the
    length of the last freeze.  ``way_s``: when a way was last given or taken; ``before_s``: the service time then.
    ``ways``: that BE may have at most, until ``ways_s``.  ``paused_s``: since when kinds are paused.
    """

    setting: Setting = NOTHING
    rate: float = 0.0
    last_rate: float | None = None
    rate_noise: float = 0.0
    service_s: float | None = None
    factor: float = 0.0
    factor_noise: float = 0.01
    grown_s: float = -math.inf
    frozen_s: float = -math.inf
    hold_s: float = 0.0
    missed_s: float = -math.inf
    way_s: float = -math.inf
    before_s: float | None = None
    ways: int = 10_000
    ways_s: float = -math.inf
    paused_s: float = -math.inf


@POLICIES.register("tailor")
@dataclass(frozen=True, slots=True)
class Tailor:
    """``blame``: kind of job -> how much it slows LC down, from `tailor profile`; the highest is shed first: paused for
    ``paused_for_s`` beyond ``high_bandwidth``, share of the memory's, or ``high_canary``, slowdown of a walk in it.

    ``aim``: share of the target that the model may foresee.  ``trend_s``: how far a rising rate is continued.
    ``forget_s``: time constant of the smoothing.  ``up_s``: between two cores that BE gets.  ``sharing``: idle: where
    LC needs every core, BE gets a part of the time that LC leaves on them (SCHED_IDLE), ``share_step`` of a core more
    each ``up_s``, as long as the slack is at least ``share_slack``; never: it stands still.  ``network_share``,
    ``disk_share``: of the link and of the disk, for BE and LC.
    """

    period_s: float = 0.5
    aim: float = 0.78
    trend_s: float = 3.0
    forget_s: float = 10.0
    up_s: float = 1.0
    hold_s: float = 2.0
    longest_s: float = 60.0
    way_every_s: float = 10.0
    way_costs: float = 0.01
    way_again_s: float = 600.0
    high_bandwidth: float = 0.80
    high_canary: float = 2.0
    paused_for_s: float = 120.0
    network_share: float = 0.90
    disk_share: float = 0.90
    sharing: Literal["never", "idle"] = "never"
    share_step: float = 0.1
    share_slack: float = 0.15
    blame: Mapping[str, float] = field(default_factory=dict)

    def start(self, host: GuardedHost) -> TailorState:
        return TailorState()

    def decide(self, host: GuardedHost, state: TailorState, sample: Sample) -> tuple[TailorState, Decision]:
        before = state.setting
        state = self._learned(host, state, sample)
        slack, now = sample.slack(host), sample.time_s
        if slack < 0:
            again = now - state.missed_s < self.longest_s
            hold = min(self.longest_s, 2 * state.hold_s) if again and state.hold_s else self.hold_s
            hold = state.hold_s if now < state.frozen_s else hold  # one violation, seen twice
            state = replace(state, setting=NOTHING, missed_s=now, hold_s=hold, frozen_s=max(state.frozen_s, now + hold))
            return state, Decision(NOTHING, changes(before, NOTHING, _told(slack)))
        if now < state.frozen_s or state.service_s is None:
            return state, Decision(before)
        state, cores, reason = self._cores(host, state, sample)
        if cores == 0:
            wanted, reason = self._shared(host, state, sample, reason)
            return replace(state, setting=wanted), Decision(wanted, changes(before, wanted, reason))
        reasons = changes(before, replace(before, running=True, cores=cores), reason)
        state, ways, why = self._ways(host, state, now)
        state, paused, whose = self._paused(host, state, sample)
        setting = replace(self._shares(host, sample), cores=cores, ways=ways, paused=paused)
        middle = replace(before, running=True, cores=cores)
        reasons |= changes(middle, replace(middle, ways=ways), why)
        reasons |= changes(middle, replace(middle, mbps=setting.mbps), "the link, less what LC uses")
        reasons |= changes(middle, replace(middle, disk_mbs=setting.disk_mbs), "the disk, less what LC uses")
        reasons |= changes(middle, replace(middle, paused=paused), whose)
        return replace(state, setting=setting), Decision(setting, reasons)

    def _learned(self, host: GuardedHost, state: TailorState, sample: Sample) -> TailorState:
        """Take the sample into the rate that is reckoned with, the service time and the model's factor."""
        if sample.rate_rps is None:
            return replace(state, rate=host.peak_rps, last_rate=host.peak_rps)
        keep = math.exp(-self.period_s / self.forget_s)
        rate = sample.rate_rps
        change = 0.0 if state.last_rate is None else rate - state.last_rate
        rising = change - SIGNIFICANT * math.sqrt(state.rate_noise)
        usual = min(change**2, max(rate, SIGNIFICANT**2 * state.rate_noise))  # arrivals alone make about the rate
        noise = keep * state.rate_noise + (1 - keep) * usual
        smooth = rate if state.last_rate is None else keep * state.rate + (1 - keep) * rate
        coming = rate + rising / self.period_s * self.trend_s if rising > 0 and state.last_rate is not None else 0.0
        state = replace(state, rate=max(smooth, coming), last_rate=rate, rate_noise=noise)
        if sample.lc_cores and rate > 0:
            service = sample.lc_cores / rate
            old = service if state.service_s is None else state.service_s
            state = replace(state, service_s=old + (1 - keep) * (service - old))
        if sample.latency_ms and rate > 0 and state.service_s is not None:
            alone = state.setting.running and state.setting.exclusive
            lc = host.cores - math.ceil(state.setting.cores) if alone else host.cores
            error = math.log(sample.latency_ms / (1e3 * tail_s(rate, state.service_s, lc, QUANTILE))) - state.factor
            if error > SIGNIFICANT * math.sqrt(state.factor_noise):
                factor = state.factor + error
            else:
                factor = state.factor + (1 - keep) * error
            noise = keep * state.factor_noise + (1 - keep) * min(error**2, SIGNIFICANT**2 * state.factor_noise)
            bounded = min(1.0, max(-0.5, factor))
            state = replace(state, factor=bounded, factor_noise=max(LEAST_NOISE, noise))
        return state

    def _cores(self, host: GuardedHost, state: TailorState, sample: Sample) -> tuple[TailorState, int, str]:
        """Return BE's cores: at most as many as the model allows, and one more at most every ``up_s``."""
        assert state.service_s is not None
        allowed, latency = 0, math.inf
        for cores in range(most_cores(host), -1, -1):
            foreseen = 1e3 * tail_s(state.rate, state.service_s, host.cores - cores, QUANTILE) * math.exp(state.factor)
            if foreseen <= self.aim * host.target_ms and state.rate * state.service_s < 0.95 * (host.cores - cores):
                allowed, latency = cores, foreseen
                break
        now = int(state.setting.cores) if state.setting.exclusive else 0
        reason = f"{latency:.1f} ms foreseen at {state.rate:.0f} requests/s with {host.cores - allowed} cores"
        if allowed <= now:
            return replace(state, grown_s=sample.time_s) if allowed < now else state, allowed, reason
        if sample.time_s - state.grown_s < self.up_s:
            return state, now, reason
        return replace(state, grown_s=sample.time_s), now + 1, reason

    def _shared(self, host: GuardedHost, state: TailorState, sample: Sample, reason: str) -> tuple[Setting, str]:
        """Return BE's part of the time that LC leaves on its own cores; nothing where that is not wanted, or risky."""
        if self.sharing == "never" or sample.lc_cores is None or sample.slack(host) < self.share_slack:
            return NOTHING, reason
        now = state.setting.cores if state.setting.running and not state.setting.exclusive else 0.0
        idle = max(0.0, host.cores - sample.lc_cores)
        quota = min(idle, now + self.share_step * self.period_s / self.up_s)
        if quota < self.share_step / 2:
            return NOTHING, reason
        ways = min(1, most_ways(host))
        setting = replace(self._shares(host, sample), cores=quota, ways=ways, exclusive=False)
        return setting, f"{reason}; {idle:.2f} cores' time is left on them"

    def _ways(self, host: GuardedHost, state: TailorState, now: float) -> tuple[TailorState, int, str]:
        """Give BE a way more while LC's service time stays; else take it back, and try again much later."""
        ways = state.setting.ways
        if not host.ways:
            return state, 0, ""
        if ways == 0:
            return replace(state, way_s=now, before_s=state.service_s), 1, "the first way"
        if now - state.way_s < self.way_every_s:
            return state, ways, ""
        if now > state.ways_s:
            state = replace(state, ways=most_ways(host))
        if state.before_s is not None and state.service_s is not None:
            cost = state.service_s / state.before_s - 1
            if cost > self.way_costs and ways > 1:
                state = replace(state, way_s=now, before_s=None, ways=ways - 1, ways_s=now + self.way_again_s)
                return state, ways - 1, f"the last way cost LC {cost:.1%}"
        if ways < min(state.ways, most_ways(host)):
            return replace(state, way_s=now, before_s=state.service_s), ways + 1, "one way more"
        return state, ways, ""

    def _paused(self, host: GuardedHost, state: TailorState, sample: Sample) -> tuple[TailorState, frozenset[str], str]:
        """Pause the kind of jobs that is blamed most while the memory is near its limit."""
        paused = state.setting.paused
        kinds = sorted(set(sample.jobs), key=lambda kind: (-self.blame.get(kind, 0.0), kind))
        used = (sample.bandwidth_gbs or 0.0) / host.bandwidth_gbs if host.bandwidth_gbs else 0.0
        slowed = sample.canary or 1.0
        left = [kind for kind in kinds if kind not in paused]
        pressed = used > self.high_bandwidth or slowed > self.high_canary
        if pressed and len(left) > 1 and sample.time_s - state.paused_s > self.period_s:
            full = used > self.high_bandwidth
            sign = f"{used:.0%} of the memory's bandwidth" if full else f"memory is {slowed:.1f} times as slow as alone"
            return replace(state, paused_s=sample.time_s), paused | {left[0]}, f"{sign}; it harms most"
        calm = used < self.high_bandwidth / 2 and slowed < (1 + self.high_canary) / 2
        if paused and sample.time_s - state.paused_s > self.paused_for_s and calm:
            return replace(state, paused_s=sample.time_s), frozenset(), "the memory has room again"
        return state, paused, ""

    def _shares(self, host: GuardedHost, sample: Sample) -> Setting:
        """Return what LC leaves of the link and of the disk."""
        mbps = rest_of(host.link_mbps, self.network_share, sample.lc_mbps)
        return Setting(True, mbps=mbps, disk_mbs=rest_of_disk(host, self.disk_share, sample))


def _told(slack: float) -> str:
    return "the latency is missing" if slack == -math.inf else f"slack {slack:.0%}"
