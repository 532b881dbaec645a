"""The plant: a host in virtual time, with the sensors and the actuators of a real one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.guard.plant.interference import Division, Effect, effect
from framework.guard.plant.kinds import LcKind, Machine
from framework.guard.queueing import tail_s
from framework.model.guard import NOTHING, GuardedHost, Sample, Setting

QUANTILE = 0.95
STEP_S = 0.5
WINDOW_S = 2.0  # of the sensors
TIMEOUT_S = 2.0  # clients wait no longer: older requests leave the backlog


def host_of(machine: Machine, lc: LcKind) -> GuardedHost:
    """Return what a guard knows of the plant."""
    peak = lc.peak_load * machine.cores / (lc.service_ms / 1e3)
    return GuardedHost(machine.cores, lc.target_ms, peak, machine.ways, machine.bandwidth_gbs, machine.link_mbps)


def division_of(machine: Machine, setting: Setting, mix: Sequence[str]) -> Division:
    """Return what a setting gives: the jobs that run share BE's cores evenly."""
    names = [name for name in mix if name not in setting.paused] if setting.running else []
    if not names or setting.cores <= 0:
        return Division(machine.cores, machine.ways, 0, {}, 0.0)
    be: dict[str, float] = {}
    for name in names:
        be[name] = be.get(name, 0.0) + setting.cores / len(names)
    lc_cores = machine.cores - math.ceil(setting.cores) if setting.exclusive else machine.cores
    return Division(lc_cores, machine.ways - setting.ways, setting.ways, be, setting.mbps, not setting.exclusive)


@dataclass(frozen=True, slots=True)
class Moment:
    """One step of the plant: true tail latency, work that BE did (core seconds), share of the cores that worked."""

    latency_ms: float
    work: float
    utilisation: float


class Plant:
    """A host whose LC has these loads (one for each second) and whose BE jobs are a mix without an end."""

    def __init__(self, machine: Machine, lc: LcKind, loads: NDArray[np.float64], mix: Sequence[str], seed: int) -> None:
        self.machine, self.lc, self.mix = machine, lc, tuple(mix)
        self.host = host_of(machine, lc)
        self.time_s = 0.0
        self._loads, self._rng = loads, np.random.default_rng(seed)
        self._backlog = 0.0
        self._setting = NOTHING
        self._recent: deque[tuple[float, float]] = deque(maxlen=round(WINDOW_S / STEP_S))  # latency, requests
        self._effect: Effect | None = None
        self._division = division_of(machine, NOTHING, self.mix)

    @property
    def load(self) -> float:
        """The true load now."""
        return float(self._loads[min(len(self._loads) - 1, int(self.time_s))])

    @property
    def ended(self) -> bool:
        return self.time_s >= len(self._loads)

    def set(self, setting: Setting) -> None:
        """Set the actuators; they act at once."""
        self._setting = setting
        self._division = division_of(self.machine, setting, self.mix)

    def step(self) -> Moment:
        """Let STEP_S pass."""
        rate, division = self.load * self.host.peak_rps, self._division
        now = self._effect = effect(self.machine, self.lc, rate, division)
        capacity = division.lc_cores / now.service_s
        self._backlog = min(max(0.0, self._backlog + (rate - capacity) * STEP_S), TIMEOUT_S * capacity)
        waits_s = self._backlog / capacity
        latency_ms = 1e3 * (tail_s(rate, now.service_s, division.lc_cores, QUANTILE) + waits_s + now.wait_s)
        requests = int(self._rng.poisson(rate * STEP_S))
        self._recent.append((latency_ms, requests))
        self.time_s += STEP_S
        busy = min(float(division.lc_cores), rate * now.service_s)
        taken = sum(division.be.values())
        return Moment(latency_ms, sum(now.progress.values()) * STEP_S, (busy + taken) / self.machine.cores)

    def sample(self) -> Sample:
        """Read the sensors: with the noise of as many requests as the window had."""
        now, division = self._effect, self._division
        requests = sum(count for _, count in self._recent)
        if now is None or requests == 0:
            return Sample(self.time_s)
        mean = sum(latency * count for latency, count in self._recent) / requests
        noise = math.sqrt((1 - QUANTILE) * QUANTILE / requests) / (1 - QUANTILE) / 3  # of an exponential tail
        rate = requests / (len(self._recent) * STEP_S)
        used = min(float(division.lc_cores), rate * now.service_s)
        return Sample(
            self.time_s,
            latency_ms=mean * math.exp(self._rng.normal(0.0, noise)),
            rate_rps=rate,
            lc_cores=used * math.exp(self._rng.normal(0.0, 0.01)),
            be_cores=sum(division.be.values()),
            bandwidth_gbs=now.bandwidth_gbs,
            lc_bandwidth_gbs=now.lc_gbs,
            be_bandwidth_gbs=now.be_gbs,
            lc_mbps=now.lc_mbps,
            be_mbps=now.be_mbps,
            jobs=self.mix,
        )
