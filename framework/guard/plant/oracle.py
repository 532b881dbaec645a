"""The best fixed allocation for each level of load, found by search over the plant's own equations.

It divides cores, cache and link; all jobs of the mix run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from framework.guard.plant.interference import effect
from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.guard.plant.plant import QUANTILE, division_of, host_of
from framework.guard.policy import most_cores, most_ways
from framework.guard.queueing import UNSTABLE_SHARE, tail_s
from framework.model.guard import NOTHING, GuardedHost, Setting

LEVELS = 50


@cache
def best_settings(machine: Machine, lc_name: str, mix: tuple[str, ...]) -> tuple[Setting, ...]:
    """Return, for the loads 1/50, 2/50, ... 1, the setting with the most work whose tail latency meets the target."""
    lc = LC_KINDS[lc_name]
    host = host_of(machine, lc)
    candidates = list(_candidates(host))
    best = []
    for level in range(1, LEVELS + 1):
        rate = level / LEVELS * host.peak_rps
        most, chosen = 0.0, NOTHING
        for setting in candidates:
            given = replace(setting, mbps=0.9 * host.link_mbps - rate * lc.reply_kb * 8 / 1e3)
            division = division_of(machine, given, mix)
            got = effect(machine, lc, rate, division)
            work = sum(got.progress.values())
            if work <= most or rate > UNSTABLE_SHARE * division.lc_cores / got.service_s:
                continue
            if 1e3 * (tail_s(rate, got.service_s, division.lc_cores, QUANTILE) + got.wait_s) <= host.target_ms:
                most, chosen = work, given
        best.append(chosen)
    return tuple(best)


def setting_at(settings: Sequence[Setting], load: float) -> Setting:
    """Return the setting of the next higher level."""
    return settings[min(LEVELS, max(1, -int(-load * LEVELS // 1))) - 1]


def _candidates(host: GuardedHost) -> Iterator[Setting]:
    for cores in range(1, most_cores(host) + 1):
        for ways in range(1, most_ways(host) + 1):
            yield Setting(True, cores, ways)
