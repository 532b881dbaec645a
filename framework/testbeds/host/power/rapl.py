"""RAPL: energy counters of processors and memory, which the kernel shows in /sys/class/powercap.

Intel's, and AMD's under the same names.  Source: the kernel's Documentation/power/powercap/powercap.rst and
Documentation/ABI/testing/sysfs-class-powercap.  A counter begins again at 0 when it has reached its
``max_energy_range_uj``, some minutes after the last time on a busy server; and it may begin again at any value when a
machine wakes up or a driver is loaded anew.  The first is a wrap, and its joules are known; the second is a loss.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from framework.energy.zones import PLATFORM
from framework.errors import FieldError, KnobRefused
from framework.model.energy import CpuTimes, Joules, Label
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.kernel_numbers import number_in
from framework.testbeds.host.power.counted import SHORTEST_S, CountedSource
from framework.testbeds.host.power.registry import SOURCES, Surroundings

POWERCAP = "/sys/class/powercap"
MICRO = 1e-6
MOST_PACKAGE_WATTS, MOST_PLATFORM_WATTS = 1000.0, 4000.0
"""Of one package or its memory, and of a platform, to tell how far a counter can have gone: twice the largest ones.

Smaller than MOST_WATTS, so that a counter that began anew is not taken for one that wrapped.
"""

_DIRECTORY = re.compile(r"(intel-rapl|intel-rapl-mmio)(?::\d+){1,2}")
_TOP = re.compile(r"psys|package-\d+(?:-die-\d+)?")


@dataclass(frozen=True, slots=True)
class RaplZone:
    """A counter: the zone's name, its directory, and the value [microjoules] at which it begins again; 0: unknown."""

    name: str
    path: str
    range_uj: int

    @property
    def energy_file(self) -> str:
        return f"{self.path}/energy_uj"


class RaplSource(CountedSource):
    """Counters of packages, their memory, and the platform; implements ``framework.ports.energy.PowerSource``.

    The zones are those that are there when the source is opened: where one vanishes later, there is no reading.
    """

    name = "rapl"
    label: Label = "measured"

    def __init__(self, files: KernelFiles) -> None:
        super().__init__()
        self._files = files
        self._zones = rapl_zones(files)
        self._before: Mapping[str, int] = {}

    def missing(self) -> str:
        if not self._zones:
            return f"the kernel shows no RAPL counters in {POWERCAP}, as on most virtual machines"
        try:
            self._counters()
        except KnobRefused as error:
            if error.reason == "Permission denied":
                return f"only root may read {error.knob}: run as root, or make it readable (chmod a+r)"
            return f"{error.knob} cannot be read: {error.reason}"
        return ""

    def about(self) -> str:
        names = ", ".join(zone.name for zone in self._zones) or "no zone"
        return f"RAPL counters of {names}: processors and memory; the rest of the server is in psys alone"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        now = self._counters()
        before, self._before = self._before, now
        if seconds is None:
            return dict.fromkeys(now, Joules.exactly(0.0))
        return {
            zone.name: Joules.exactly(grown_uj(zone, before[zone.name], now[zone.name], seconds) * MICRO)
            for zone in self._zones
        }

    def _counters(self) -> dict[str, int]:
        """Return zone -> microjoules.  Raises KnobRefused."""
        if not self._zones:
            raise KnobRefused(POWERCAP, "there are no RAPL counters")
        return {
            zone.name: number_in(self._files.read(zone.energy_file), zone.energy_file) for zone in self._zones
        }  # fmt: skip


def grown_uj(zone: RaplZone, before: int, now: int, seconds: float) -> int:
    """Return the growth of a counter [microjoules] in some time.  Raises KnobRefused where it cannot be told.

    A counter that went back has wrapped where the way over its end is one that the zone can have gone in this time;
    else it began anew, at which its count is lost.  These cannot be told apart after a time in which it could have gone
    more than half of its range, and nothing at all can be told after one in which it could have gone all of it.
    """
    most_watts = MOST_PLATFORM_WATTS if zone.name == PLATFORM else MOST_PACKAGE_WATTS
    most_uj = most_watts * max(seconds, SHORTEST_S) / MICRO
    if now >= before:
        if 0 < zone.range_uj < most_uj:
            raise KnobRefused(zone.energy_file, f"it may have begun again more than once in {seconds:g} s")
        return now - before
    wrapped = now + zone.range_uj - before
    if before > zone.range_uj or not 0 <= wrapped <= most_uj or most_uj > zone.range_uj / 2:
        raise KnobRefused(zone.energy_file, f"it went from {before} to {now} in {seconds:g} s, which is no wrap")
    return wrapped


def rapl_zones(files: KernelFiles) -> tuple[RaplZone, ...]:
    """Return the counters that are not inside others but for psys, which is above all.  Those not readable are none.

    A package that is shown twice, by its registers and by memory-mapped ones, is one package.
    """
    zones: dict[str, RaplZone] = {}
    with suppress(KnobRefused):
        directories = [entry for entry in files.entries(POWERCAP) if _DIRECTORY.fullmatch(entry)]
        for directory in sorted(directories, key=lambda entry: (entry.startswith("intel-rapl-mmio"), entry)):
            with suppress(KnobRefused):
                name = _zone_name(files, directory)
                if name and name not in zones:
                    path = f"{POWERCAP}/{directory}"
                    zones[name] = RaplZone(name, path, _range_uj(files, path))
    return tuple(zones[name] for name in sorted(zones))


def _zone_name(files: KernelFiles, directory: str) -> str:
    """Return the name of a zone, of memory with its package's number; empty for zones that are parts of others."""
    name = files.read(f"{POWERCAP}/{directory}/name").strip()
    parent = directory.rpartition(":")[0]
    if ":" not in parent:
        return name if _TOP.fullmatch(name) else ""
    above = files.read(f"{POWERCAP}/{parent}/name").strip()
    if name == "dram" and above.startswith("package-") and _TOP.fullmatch(above):
        return "dram-" + above.removeprefix("package-")
    return ""


def _range_uj(files: KernelFiles, path: str) -> int:
    file = f"{path}/max_energy_range_uj"
    try:
        return number_in(files.read(file), file)
    except KnobRefused:
        return 0


@SOURCES.register("rapl")
def rapl(argument: str, here: Surroundings) -> RaplSource:
    """Return the source; it takes no argument.  Raises FieldError."""
    if argument:
        raise FieldError("power", f"rapl:{argument}", "rapl, without an argument")
    return RaplSource(here.files)
