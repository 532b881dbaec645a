"""A window between two readings of the counters."""

from __future__ import annotations

from framework.energy.zones import whole
from framework.errors import MeasurementInvalid
from framework.model.energy import CpuTimes, EnergyCounters, Joules, Phase
from framework.model.energy_measurement import EnergyWindow

SLACK = 0.01
"""Share of the time that may be in no state: the kernel counts in ticks, and reads one CPU after another."""

LOST = "the power source could not be read all the time"


def window_between(
    before: EnergyCounters, after: EnergyCounters, phase: Phase, round_: int, stolen_most: float
) -> EnergyWindow:
    """Return the growth of all counters from one reading to a later one.

    ``stolen_most``: share of the CPU time that the host of a virtual machine may take away in a window that counts,
    whether it says so (``steal``) or the time is in no state.
    Services and zones that are not in both are left out; a source that lost count in between tells no joules.  Raises
    MeasurementInvalid where no time has passed.
    """
    seconds = after.at_s - before.at_s
    if seconds <= 0:
        raise MeasurementInvalid(["two readings of the counters at the same time"])
    cpu = after.cpu.since(before.cpu)
    joules: dict[str, Joules] = {}
    if after.losses == before.losses and before.joules.keys() == after.joules.keys():
        joules = {zone: value.since(before.joules[zone]) for zone, value in after.joules.items()}
    invalid = []
    invalid += _taken_away(cpu, seconds * after.cpus, stolen_most)
    if not joules:
        invalid.append(LOST)
    network = None
    if before.network is not None and after.network is not None:
        pairs = zip(after.network, before.network, strict=True)
        network = tuple(max(0.0, now - then) for now, then in pairs)
    return EnergyWindow(
        phase=phase,
        round=round_,
        seconds=seconds,
        cpus=after.cpus,
        cpu=cpu,
        services={
            name: counters.since(before.services[name])
            for name, counters in after.services.items()
            if name in before.services
        },
        io={level: bytes_.since(before.io[level]) for level, bytes_ in after.io.items() if level in before.io},
        network=network or (),
        joules=joules,
        whole=whole(joules),
        invalid=tuple(invalid),
    )


def _taken_away(cpu: CpuTimes, whole_s: float, stolen_most: float) -> list[str]:
    """Return why a window does not count, if the host took away too much of the time of all CPUs together.

    Some hosts do not tell a virtual machine what they take away: the states then add up to less than the whole time.
    """
    unaccounted = max(0.0, whole_s - cpu.total)
    if cpu.steal + max(0.0, unaccounted - SLACK * whole_s) <= stolen_most * whole_s:
        return []
    why = f"the host took away {(cpu.steal + unaccounted) / whole_s:.1%} of the CPU time; at most {stolen_most:.0%}"
    if unaccounted > SLACK * whole_s:
        why += f" ({unaccounted / whole_s:.1%} is in no state of the CPUs)"
    return [why]
