"""The joules of a measurement's rounds, by service and state: numbers that only grow as it goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from framework.energy.idle import divided_window, idle_power
from framework.model.energy_measurement import EnergyMeasurement


@dataclass(frozen=True, slots=True)
class Total:
    """Joules of a service.  ``zone``: "machine", whose zones are added up.  The idle part is no service's."""

    service: str
    zone: str
    state: Literal["active", "idle"]
    joules: float


def totals(measurement: EnergyMeasurement) -> list[Total]:
    """Return the sums over the windows that have joules, whether they count or not; empty without any.

    Only rounds whose own idle power is known are in it, so that no later window changes what was added up.
    """
    power = idle_power(measurement)
    if power is None:
        return []
    active: Counter[str] = Counter()
    idle = 0.0
    for window in measurement.windows:
        if window.whole is None or (power.by_round and window.round not in power.by_round):
            continue
        division = divided_window(window, window.whole.value, power.watts(window.round))
        above = sum(division.active.values())
        idle += division.idle if above > 0 else window.whole.value
        if above > 0:
            active.update(division.active)
    parts = [Total(name, "machine", "active", joules) for name, joules in active.items()]
    return [Total("", "machine", "idle", idle), *parts] if active or idle else []
