"""Sensors of power and energy that the kernel shows in /sys/class/hwmon.

Source: the kernel's Documentation/hwmon/sysfs-interface.rst (microwatts, microjoules), acpi_power_meter.rst, and the
driver amd_energy.  Most sensors there are of a part of the machine (a graphics card, a supply rail); by themselves only
those count whose drivers say of what they are: ACPI's power meter, of the whole machine, and amd_energy's sockets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from framework.energy.zones import MACHINE, PACKAGE
from framework.errors import KnobRefused
from framework.model.energy import CpuTimes, Joules, Label
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.kernel_numbers import number_in
from framework.testbeds.host.power.counted import CountedSource, WattsOverTime
from framework.testbeds.host.power.registry import SOURCES, Surroundings

HWMON = "/sys/class/hwmon"
METER = "power_meter"  # the driver acpi_power_meter
MICRO = 1e-6

_POWER = re.compile(r"(power\d+)_(average|input)")
_ENERGY = re.compile(r"(energy\d+)_input")
_SOCKET = re.compile(r"Esocket(\d+)")


@dataclass(frozen=True, slots=True)
class Sensor:
    """A file with microwatts (``counts`` False) or microjoules, and the zone that it is of or a part of."""

    zone: str
    file: str
    counts: bool


class HwmonSource(CountedSource):
    """Power of ACPI's meter, else counters of sockets; or of all sensors of the chip that the user names.

    Implements ``framework.ports.energy.PowerSource``.  Power is read as often as the source is, and taken as going in
    a straight line between two readings.
    """

    name = "hwmon"
    label: Label = "measured"

    def __init__(self, files: KernelFiles, chip: str = "") -> None:
        super().__init__()
        self._files, self._chip = files, chip
        self._sensors = named_sensors(files, chip) if chip else machine_sensors(files)
        self._over_time = WattsOverTime()
        self._before: Mapping[str, int] = {}

    def missing(self) -> str:
        if not self._sensors:
            if self._chip:
                return f"{HWMON} has no sensor of power or energy of the name {self._chip}"
            return f"{HWMON} has no ACPI power meter and no energy counters of sockets, as on most virtual machines"
        try:
            for sensor in self._sensors:
                self._number(sensor)
        except KnobRefused as error:
            return f"{error.knob} cannot be read: {error.reason}"
        return ""

    def about(self) -> str:
        files = ", ".join(sensor.file.removeprefix(f"{HWMON}/") for sensor in self._sensors)
        return f"sensors of the kernel: {files or 'none'}"

    def look(self, at_s: float, seconds: float | None, cpu: CpuTimes) -> dict[str, Joules]:
        if not self._sensors:
            raise KnobRefused(HWMON, "it has no sensor of this machine's power")
        watts: dict[str, float] = {}
        counters: dict[str, int] = {}
        for sensor in self._sensors:
            number = self._number(sensor)
            if sensor.counts:
                counters[sensor.file] = number
            else:
                watts[sensor.zone] = watts.get(sensor.zone, 0.0) + number * MICRO
        growth = self._over_time.joules(seconds, watts)
        before, self._before = self._before, counters
        for sensor in self._sensors:
            if sensor.counts:
                grown = 0 if seconds is None else counters[sensor.file] - before[sensor.file]
                if grown < 0:
                    raise KnobRefused(sensor.file, "its counter went back")
                sum_so_far = growth.get(sensor.zone, Joules.exactly(0.0)).value
                growth[sensor.zone] = Joules.exactly(sum_so_far + grown * MICRO)
        return growth

    def _number(self, sensor: Sensor) -> int:
        return number_in(self._files.read(sensor.file), sensor.file)


def machine_sensors(files: KernelFiles) -> tuple[Sensor, ...]:
    """Return the sensor of ACPI's meter, or the counters of sockets where there is no meter; empty without both."""
    meters, sockets = [], []
    for directory, name in _chips(files):
        for file, counts in _files_of(files, directory):
            if name == METER and not counts:
                meters.append(Sensor(MACHINE, file, counts))
            elif counts and (socket := _SOCKET.fullmatch(_label(files, file))):
                sockets.append(Sensor(f"{PACKAGE}{socket[1]}", file, counts))
    return tuple(meters or sockets)


def named_sensors(files: KernelFiles, chip: str) -> tuple[Sensor, ...]:
    """Return all sensors of power of the chips of this name, which add up to the machine; of energy without them."""
    sensors = [sensor for directory, name in _chips(files) if name == chip for sensor in _files_of(files, directory)]
    has_power = any(not counts for _, counts in sensors)
    return tuple(Sensor(MACHINE, file, counts) for file, counts in sensors if counts != has_power)


def _chips(files: KernelFiles) -> list[tuple[str, str]]:
    """Return (directory, name) of the chips whose name can be read."""
    chips = []
    with suppress(KnobRefused):
        for entry in files.entries(HWMON):
            with suppress(KnobRefused):
                chips.append((f"{HWMON}/{entry}", files.read(f"{HWMON}/{entry}/name").strip()))
    return chips


def _files_of(files: KernelFiles, directory: str) -> list[tuple[str, bool]]:
    """Return (file, whether it counts energy) of a chip's sensors; of a sensor's average and present power the one."""
    power: dict[str, str] = {}
    energy = []
    with suppress(KnobRefused):
        for entry in files.entries(directory):
            if match := _POWER.fullmatch(entry):
                power.setdefault(match[1], f"{directory}/{entry}")  # "average" sorts before "input"
            elif _ENERGY.fullmatch(entry):
                energy.append(f"{directory}/{entry}")
    return [*((file, False) for file in power.values()), *((file, True) for file in energy)]


def _label(files: KernelFiles, file: str) -> str:
    try:
        return files.read(f"{file.rpartition('_')[0]}_label").strip()
    except KnobRefused:
        return ""


@SOURCES.register("hwmon")
def hwmon(argument: str, here: Surroundings) -> HwmonSource:
    """Return the source; the argument names a chip, all of whose sensors add up to the machine."""
    return HwmonSource(here.files, argument.strip())
