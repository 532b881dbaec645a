"""Cycles and joules per I/O operation as S. Akram, M. Marazakis and A. Bilas define them (RTI, September 2012).

    cpio      = (user cycles + system cycles) / I/Os
    cpio_idle = (idle cycles + iowait cycles) / I/Os
    eio  [J]  = P * (cpio + IP * cpio_idle) / (N * F)
    emio [J]  = 1e6 * eio

P is the power of the whole server at full load, without storage devices [W]; IP the idle power as a share of it; N the
number of cores, F the frequency of each [Hz].  An I/O operation is 512 bytes read or written.

Cycles are CPU seconds times F, so that F cancels in eio: a wrong clock makes no wrong joules.  With IP = 1, the joules
are P times the seconds that passed, and eio is linear in P.  Software that makes many small, needless I/Os looks
efficient by these numbers: they compare stacks that do the same work, and judge none alone.
"""

from __future__ import annotations

from framework.errors import FieldError, InputError
from framework.model.energy import CpuTimes

MILLION = 1e6


def cpio(cpu: CpuTimes, frequency_hz: float, operations: float) -> float:
    """Return busy cycles per I/O operation; interrupts count as system.  Raises InputError without I/O."""
    return cycles(cpu.busy, frequency_hz) / _counted(operations)


def cpio_idle(cpu: CpuTimes, frequency_hz: float, operations: float) -> float:
    """Return idle and I/O-waiting cycles per I/O operation.  Raises InputError without I/O."""
    return cycles(cpu.unused, frequency_hz) / _counted(operations)


def eio(cpio: float, cpio_idle: float, *, peak_w: float, idle_share: float, cores: float, frequency_hz: float) -> float:
    """Return joules per I/O operation.  Raises FieldError for a value out of its range."""
    for name, value in (("peak_w", peak_w), ("cores", cores), ("frequency_hz", frequency_hz)):
        if not value > 0:
            raise FieldError(name, value, "above 0")
    if not 0 <= idle_share <= 1:
        raise FieldError("idle_share", idle_share, "0 to 1")
    return peak_w * (cpio + idle_share * cpio_idle) / (cores * frequency_hz)


def joules_of(busy_s: float, unused_s: float, *, peak_w: float, idle_share: float, cores: float) -> float:
    """Return eio times the I/Os, in which F and their number cancel: P * (busy + IP * unused) / N, in CPU seconds."""
    return peak_w * (busy_s + idle_share * unused_s) / cores


def emio(eio: float) -> float:
    """Return joules per million I/O operations."""
    return MILLION * eio


def cycles(seconds: float, frequency_hz: float) -> float:
    """Return the cycles of so many CPU seconds."""
    return seconds * frequency_hz


def _counted(operations: float) -> float:
    if not operations > 0:
        raise InputError("no I/O was counted, so there is no number per I/O; allowed: joules per request")
    return operations
