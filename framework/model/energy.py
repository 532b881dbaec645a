"""Energy as data: counters of a machine and its services at one moment, and what a window between two of them used.

Seconds of CPU time, bytes and joules since an unknown beginning: only the difference of two readings says something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

Label = Literal["measured", "estimated", "recorded"]
"""Where joules come from: a meter of this machine, a model of its CPU use, or a recording made before."""

Phase = Literal["baseline", "idle", "run"]
"""Nothing of the application runs; it is up, without load; it is under load."""

Level = Literal["application", "block", "device"]
"""Where bytes of I/O are counted.

application: what processes ask for by system calls, sockets and pipes included.  block: what of it the file systems
pass on to block devices.  device: what the devices of the machine transfer.
"""

LEVELS: tuple[Level, ...] = ("application", "block", "device")
IO_BYTES = 512
"""Bytes of one I/O operation, as they are counted everywhere (Akram et al. 2012)."""

MOST_WATTS = 10_000.0
"""Of one machine.  A reading above is a fault of its source: no server takes as much."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds in which all CPUs of a machine were in each state; the states add up to the whole time (proc(5)).

    ``user``: with niced processes, without ``guest``, which is time that ran the CPUs of virtual machines.
    """

    user: float = 0.0
    system: float = 0.0
    irq: float = 0.0
    softirq: float = 0.0
    steal: float = 0.0
    guest: float = 0.0
    idle: float = 0.0
    iowait: float = 0.0

    def since(self, before: CpuTimes) -> CpuTimes:
        """Return the growth since an earlier reading, never below zero: kernels let ``iowait`` shrink by a little."""
        return CpuTimes(*(max(0.0, getattr(self, state.name) - getattr(before, state.name)) for state in fields(self)))

    @property
    def total(self) -> float:
        return self.busy + self.unused + self.steal

    @property
    def of_user(self) -> float:
        """Time outside the kernel."""
        return self.user + self.guest

    @property
    def of_kernel(self) -> float:
        """Time in the kernel, interrupts included."""
        return self.system + self.irq + self.softirq

    @property
    def busy(self) -> float:
        return self.of_user + self.of_kernel

    @property
    def unused(self) -> float:
        """Time in which nothing ran, whether or not something waited for a disk."""
        return self.idle + self.iowait

    @property
    def utilisation(self) -> float:
        """Share of the time that was not stolen in which CPUs were busy; 0 where no time has passed."""
        own = self.busy + self.unused
        return self.busy / own if own > 0 else 0.0


STATES: tuple[str, ...] = tuple(state.name for state in fields(CpuTimes))


@dataclass(frozen=True, slots=True)
class IoBytes:
    """Bytes that were read and written."""

    read: float = 0.0
    written: float = 0.0

    def since(self, before: IoBytes) -> IoBytes:
        return IoBytes(max(0.0, self.read - before.read), max(0.0, self.written - before.written))

    @property
    def operations(self) -> float:
        """Number of I/O operations of 512 bytes."""
        return (self.read + self.written) / IO_BYTES


@dataclass(frozen=True, slots=True)
class Joules:
    """Energy with its 95 % interval by the source's own account; a meter's interval is the value."""

    value: float
    low: float
    high: float

    @staticmethod
    def exactly(value: float) -> Joules:
        return Joules(value, value, value)

    def since(self, before: Joules) -> Joules:
        return Joules(self.value - before.value, self.low - before.low, self.high - before.high)


@dataclass(frozen=True, slots=True)
class ServiceCounters:
    """CPU time of a service's processes and its I/O by level; without levels at which it is not counted."""

    user_s: float
    system_s: float
    io: Mapping[Level, IoBytes] = field(default_factory=dict)

    def since(self, before: ServiceCounters) -> ServiceCounters:
        return ServiceCounters(
            max(0.0, self.user_s - before.user_s),
            max(0.0, self.system_s - before.system_s),
            {level: bytes_.since(before.io[level]) for level, bytes_ in self.io.items() if level in before.io},
        )

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True)
class EnergyCounters:
    """Readings at one moment.

    ``at_s``: of the monotonic clock.  ``cpu``: of the whole machine.  ``cpus``: hardware threads.  ``services``: name
    -> its counters.  ``io``: of the whole machine, at the levels at which it is counted.  ``network``: bytes (received,
    sent) of the machine's interfaces that are not loopback.  ``joules``: zone -> energy since the source was opened;
    empty where it cannot be read now.  ``losses``: readings so far at which the source could not be read.
    """

    at_s: float
    cpu: CpuTimes
    cpus: int
    services: Mapping[str, ServiceCounters] = field(default_factory=dict)
    io: Mapping[Level, IoBytes] = field(default_factory=dict)
    network: tuple[float, float] | None = None
    joules: Mapping[str, Joules] = field(default_factory=dict)
    losses: int = 0


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Watts of a machine, or of the part of a server that a virtual machine has, by its CPU utilisation.

    ``idle_w``, ``full_w``: at utilisation 0 and 1.  ``bend``: watts between them follow ``u ** bend``.  ``error``:
    half-width of the 95 % prediction interval, as a logarithm (watts times or divided by exp(error)); ``ends_error``:
    that of ``idle_w`` and ``full_w`` alone, None where it is not known apart.  ``source``: of the numbers.
    """

    idle_w: float
    full_w: float
    bend: float = 1.0
    error: float = 0.0
    source: str = ""
    ends_error: float | None = None

    def watts(self, utilisation: float) -> float:
        share = min(1.0, max(0.0, utilisation))
        return self.idle_w + (self.full_w - self.idle_w) * math.pow(share, self.bend)

    def times(self, share: float) -> PowerCurve:
        """Return the curve of a part of the machine, or of several such machines."""
        return replace(self, idle_w=share * self.idle_w, full_w=share * self.full_w)

    @property
    def idle_share(self) -> float:
        """Idle power as a share of the peak: IP of Akram et al."""
        return self.idle_w / self.full_w
