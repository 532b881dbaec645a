"""The idle power of a machine from a measurement, and the division of a window's joules with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from framework.energy.attribution import Division, divided
from framework.model.energy_measurement import EnergyMeasurement, EnergyWindow

GENERATOR, TAILOR = "load generator", "Tailor"


def idle_power(measurement: EnergyMeasurement) -> tuple[float | None, str]:
    """Return the watts that the machine takes when nothing runs, and what says so; None where nothing does.

    A baseline says it best; else the application without load; else the power curve.
    """
    for phase in ("baseline", "idle"):
        if watts := watts_of(measurement.of(phase)):
            return sum(watts) / len(watts), phase
    if measurement.curve is not None:
        return measurement.curve.idle_w, "power curve"
    return None, ""


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
