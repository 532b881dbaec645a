"""The idle power of a machine from a measurement, and the division of a window's joules with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.energy.attribution import Division, divided
from framework.model.energy import Phase
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow

GENERATOR, TAILOR = "load generator", "Tailor"
QUIET: tuple[Phase, ...] = ("baseline", "idle")


@dataclass(frozen=True, slots=True)
class IdlePower:
    """Watts that the machine takes when nothing runs, and what says so: a phase, or the power curve.

    ``by_round``: of that round's own window, so that its error shows in what differs between rounds; ``mean``: of all,
    for rounds without one.
    """

    of: str
    by_round: Mapping[int, float]
    mean: float

    def watts(self, round_: int) -> float:
        return self.by_round.get(round_, self.mean)


def idle_power(measurement: EnergyMeasurement) -> IdlePower | None:
    """Return the idle power: a baseline says it best, else the application without load, else the power curve."""
    for phase in QUIET:
        by_round = {
            window.round: window.whole.value / window.seconds
            for window in measurement.of(phase)
            if window.whole is not None
        }
        if by_round:
            return IdlePower(phase, by_round, math.fsum(by_round.values()) / len(by_round))
    if measurement.curve is not None:
        return IdlePower("power curve", {}, measurement.curve.idle_w)
    return None


def watts_of(windows: Sequence[EnergyWindow]) -> list[float]:
    """Return the mean power in each window that has joules."""
    return [window.whole.value / window.seconds for window in windows if window.whole is not None]


def divided_window(window: EnergyWindow, joules: float, idle_w: float) -> Division:
    """Divide a window's joules among the idle machine, the services, the load generator, Tailor and all others."""
    cpu_s = {name: used.cpu_s for name, used in window.services.items()}
    for name, seconds in ((GENERATOR, window.generator_s), (TAILOR, window.tailor_s)):
        if seconds is not None:
            cpu_s[name] = seconds
    return divided(joules, window.seconds, idle_w, cpu_s, window.cpu.busy)


def source_factors(windows: Sequence[EnergyWindow]) -> tuple[float, float]:
    """Return the factors from the joules of these windows to their interval by the source."""
    told = [window.whole for window in windows if window.whole is not None]
    value = math.fsum(joules.value for joules in told)
    if value <= 0:
        return 1.0, 1.0
    return math.fsum(joules.low for joules in told) / value, math.fsum(joules.high for joules in told) / value
