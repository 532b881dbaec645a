"""Contract kit of the guard's policies: what every one of them must do, whatever its rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from framework.guard.policy import Policy, most_cores, most_ways
from framework.model.guard import NOTHING, READINGS, Decision, GuardedHost, Sample, Setting

HOSTS = (
    GuardedHost(8, 15.0, 3000.0, 20, 40.0, 1000.0, 500.0),
    GuardedHost(2, 100.0, 50.0),
    GuardedHost(64, 1.0, 100_000.0, 11, 100.0, 10_000.0),
)
"""A server with all knobs; a small machine without cache control, memory counters, a link or a disk; a large one
without a disk."""


class PolicyContract:
    """Tests of a policy; a subclass says how it is made."""

    watches_latency = True  # a violation makes it give less to BE, sooner or later

    def make(self) -> Policy:
        raise NotImplementedError

    def test_it_begins_with_nothing_for_be(self) -> None:
        for host in HOSTS:
            policy = self.make()
            _, decision = policy.decide(host, policy.start(host), Sample(0.0))
            assert not decision.setting.running or not self.watches_latency

    def test_settings_are_within_the_machine(self) -> None:
        for host in HOSTS:
            for decision in _decided(self.make(), host, _samples(host, seed=1)):
                check_setting(host, decision.setting)

    def test_it_is_a_pure_function(self) -> None:
        """Equal samples give equal decisions, also from a state that was kept."""
        host = HOSTS[0]
        samples = _samples(host, seed=2)
        policy, other = self.make(), self.make()
        assert _decided(policy, host, samples) == _decided(other, host, samples) == _decided(policy, host, samples)
        state = policy.start(host)
        for sample in samples:
            kept = state
            state, decision = policy.decide(host, state, sample)
            assert policy.decide(host, kept, sample) == (state, decision)

    def test_every_change_has_a_reason(self) -> None:
        host, policy = HOSTS[0], self.make()
        state, before = policy.start(host), NOTHING
        for sample in _samples(host, seed=3):
            state, decision = policy.decide(host, state, sample)
            changed = {
                name
                for name in ("running", "cores", "ways", "paused", "disk_mbs")
                if getattr(before, name) != getattr(decision.setting, name)
            }
            assert changed <= {name for name, reason in decision.reasons.items() if reason}, decision
            before = decision.setting

    def test_a_missing_latency_counts_as_a_violation(self) -> None:
        """BE does not go on as before when nobody can see the tail."""
        if not self.watches_latency:
            return
        host, policy = HOSTS[0], self.make()
        state, time_s, decision = policy.start(host), 0.0, Decision(NOTHING)
        while time_s < 300:
            state, decision = policy.decide(host, state, _calm(host, time_s))
            time_s += policy.period_s
        given = decision.setting
        blind = Sample(time_s, rate_rps=0.3 * host.peak_rps, lc_cores=0.3 * host.cores)
        until = time_s + 120
        while time_s < until:
            state, decision = policy.decide(
                host, state, Sample(time_s, rate_rps=blind.rate_rps, lc_cores=blind.lc_cores)
            )
            time_s += policy.period_s
        assert given.running, "calm at 30 % of the load, and BE does not run"
        assert not decision.setting.running or decision.setting.cores < given.cores

    def test_fuzzed_samples_never_break_it(self) -> None:
        rng = np.random.default_rng(5)
        values = (None, 0.0, -1.0, 1e-9, 1e12, math.nan, math.inf)
        for host in HOSTS:
            policy = self.make()
            state = policy.start(host)
            for step in range(300):
                drawn = rng.integers(0, len(values), len(READINGS))
                fields: dict[str, Any] = {name: values[at] for name, at in zip(READINGS, drawn, strict=True)}
                state, decision = policy.decide(host, state, Sample(step * policy.period_s, **fields).cleaned())
                check_setting(host, decision.setting)


def check_setting(host: GuardedHost, setting: Setting) -> None:
    """Raise AssertionError where a setting asks for what the machine does not have."""
    if not setting.running:
        return
    cores = most_cores(host) if setting.exclusive else host.cores
    assert 0 <= setting.cores <= cores, setting
    assert not setting.exclusive or setting.cores == int(setting.cores), setting
    assert 0 <= setting.ways <= most_ways(host), setting
    assert 0 <= setting.mbps <= host.link_mbps, setting
    assert setting.disk_mbs is None or (host.disk_mbs and 0 <= setting.disk_mbs <= host.disk_mbs), setting


def _calm(host: GuardedHost, time_s: float) -> Sample:
    return Sample(
        time_s, 0.3 * host.target_ms, 0.3 * host.peak_rps, 0.3 * host.cores, 1.0, 0.3 * host.bandwidth_gbs,
        0.2 * host.bandwidth_gbs, 0.1 * host.bandwidth_gbs, 0.05 * host.link_mbps, 0.0,
        lc_disk_mbs=0.1 * host.disk_mbs, jobs=("compute", "cache"),
    )  # fmt: skip


def _samples(host: GuardedHost, seed: int) -> list[Sample]:
    """Return samples of a load that wanders from idle to too much and back."""
    rng = np.random.default_rng(seed)
    load, samples = 0.2, list[Sample]()
    for step in range(600):
        load = min(1.1, max(0.02, load + rng.normal(0.0, 0.03)))
        latency = host.target_ms * 0.2 / max(0.05, 1.15 - load) * math.exp(rng.normal(0.0, 0.1))
        samples.append(
            Sample(
                step * 0.5,
                latency_ms=latency if rng.random() > 0.02 else None,
                rate_rps=load * host.peak_rps,
                lc_cores=0.8 * load * host.cores,
                be_cores=1.0,
                bandwidth_gbs=host.bandwidth_gbs * min(1.0, rng.random() * 1.2),
                lc_bandwidth_gbs=host.bandwidth_gbs * 0.2,
                be_bandwidth_gbs=host.bandwidth_gbs * 0.3,
                lc_mbps=load * 0.5 * host.link_mbps,
                be_mbps=0.1 * host.link_mbps,
                lc_disk_mbs=load * 0.5 * host.disk_mbs,
                be_disk_mbs=0.2 * host.disk_mbs,
                jobs=("compute", "stream"),
            )
        )
    return samples


def _decided(policy: Policy, host: GuardedHost, samples: Sequence[Sample]) -> list[Decision]:
    state: Any = policy.start(host)
    decisions = []
    for sample in samples:
        state, decision = policy.decide(host, state, sample)
        decisions.append(decision)
    return decisions
