"""Counters of energy: what a machine's power source, its kernel and its services' control groups tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from framework.model import Running
from framework.model.energy import CpuTimes, EnergyCounters, Joules, Label, PowerCurve


class PowerSource(Protocol):
    """Tells the energy of the machine since it was opened, by zone.  Implementations register themselves by name.

    Zones are named as powercap names them: psys (the whole platform), package-N, dram-N; or machine, for a source that
    knows the whole machine only.  Zones inside others (core, uncore) are left out.
    """

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> Label: ...

    @property
    def lag_s(self) -> float:
        """Seconds that its newest reading may be old; 0 for a source that is read now."""

    def missing(self) -> str:
        """Say what this machine lacks for it, in one plain sentence; empty where it works here."""

    def about(self) -> str:
        """Say in one line what the numbers rest on: the zones, the file, or the model and its error."""

    def read(self, at_s: float, cpu: CpuTimes) -> Mapping[str, Joules]:
        """Return zone -> joules since the first reading, which is zero; they never shrink.

        ``at_s``: of the monotonic clock; ``cpu``: the machine's CPU times at this moment, of which a model makes its
        watts since the reading before.  To be called at least once in a few seconds.  Empty where the source cannot be
        read, or tells something absurd (more than MOST_WATTS): then it has lost count, until the next reading begins
        anew, and a window with such a reading inside has no joules.
        """

    def close(self) -> None:
        """Let go of what it uses."""


class EnergyMeter(Protocol):
    """Reads counters of this machine and of an application's services.  May be called from several threads."""

    @property
    def source(self) -> PowerSource: ...

    def missing(self) -> str:
        """Say what this machine lacks, in one plain sentence; empty where everything can be read."""

    def curve(self) -> PowerCurve | None:
        """Return the power of this machine by its utilisation, as far as it is known without a meter."""

    def frequency_hz(self) -> float | None:
        """Return the nominal clock of the CPUs, which does not change with the load; None where it is not known."""

    def read(self, running: Running | None) -> EnergyCounters:
        """Read all now; ``running`` None: of the machine alone.

        Raises KnobRefused where the kernel's counters, or those of a service, cannot be read.
        """

    def tick(self) -> None:
        """Read the power source alone, which has to be read every few seconds.  Never raises."""

    def throttle(self, running: Running, disk_mbs: float) -> None:
        """Limit what each service may read from each disk, and write to it, to so many megabytes a second.

        0 takes the limit away.  Raises KnobRefused where the machine cannot.
        """

    def control_s(self) -> float:
        """Do a fixed piece of work, and return the CPU seconds that it took: a slower machine takes longer."""

    def close(self) -> None:
        """Let go of what it uses."""
