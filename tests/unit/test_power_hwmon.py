"""Sensors of /sys/class/hwmon: ACPI's meter, sockets' counters, chips that a user names; and hostile trees."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.model.energy import CpuTimes, Joules
from framework.ports.energy import PowerSource
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.power.hwmon import HWMON, HwmonSource
from framework.testbeds.host.power.opening import open_source
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine
from tests.spoilt_files import PEOPLE, READ_S, Spoil, SpoiltFiles, spoilt
from tests.unit.test_power_rapl import check_reading


class MeterTree:
    """ACPI's meter beside a graphics card."""

    def __init__(self, directory: Path) -> None:
        self.machine = PretendMachine(directory)
        self.machine.write(f"{HWMON}/hwmon0/name", "amdgpu\n")
        self.machine.write(f"{HWMON}/hwmon0/power1_average", "900000000\n")
        self.machine.write(f"{HWMON}/hwmon3/name", "power_meter\n")
        self.machine.write(f"{HWMON}/hwmon3/power1_input", "1\n")
        self.watts, self.broken = 0.0, False
        self.write()

    def write(self) -> None:
        text = None if self.broken else f"{round(self.watts * 1e6)}\n"
        self.machine.show(f"{HWMON}/hwmon3/power1_average", text)

    def source(self) -> PowerSource:
        return open_source("hwmon", self.machine.surroundings())

    def lacking(self) -> PowerSource:
        return HwmonSource(HostKernelFiles(self.machine.root / "nowhere"))

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        self.watts = watts
        self.write()
        return self.machine.pass_time(seconds)

    def spoil(self) -> None:
        self.broken = True

    def mend(self) -> None:
        self.broken = False


class SocketTree(MeterTree):
    """Energy counters of two sockets and of their cores, by the driver amd_energy."""

    def __init__(self, directory: Path) -> None:
        self.joules = 1000.0
        super().__init__(directory)
        self.machine.write(f"{HWMON}/hwmon3/name", "amd_energy\n")
        for number, label in enumerate(("Ecore000", "Esocket0", "Esocket1"), 1):
            self.machine.write(f"{HWMON}/hwmon3/energy{number}_label", f"{label}\n")

    def write(self) -> None:
        for number, share in enumerate((0.1, 0.75, 0.25), 1):
            text = None if self.broken and number == 2 else f"{round(share * self.joules * 1e6)}\n"
            self.machine.show(f"{HWMON}/hwmon3/energy{number}_input", text)

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        self.joules += seconds * watts
        return super().run(seconds, watts)


class TestMeter(PowerSourceContract):
    name = "hwmon"

    def world(self, directory: Path) -> PowerWorld:
        return MeterTree(directory)


class TestSockets(PowerSourceContract):
    name = "hwmon"

    def world(self, directory: Path) -> PowerWorld:
        return SocketTree(directory)


def test_of_a_meter_the_machine_and_of_counters_the_sockets_are_told(tmp_path: Path) -> None:
    meter, sockets = MeterTree(tmp_path / "meter"), SocketTree(tmp_path / "sockets")
    assert set(meter.source().read(*meter.run(1, 50))) == {"machine"}
    assert set(sockets.source().read(*sockets.run(1, 50))) == {"package-0", "package-1"}


def test_without_a_meter_a_graphics_card_is_no_machine(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    machine.write(f"{HWMON}/hwmon0/name", "amdgpu\n")
    machine.write(f"{HWMON}/hwmon0/power1_average", "9000000\n")
    assert "no ACPI power meter" in open_source("hwmon", machine.surroundings()).missing()


def test_all_sensors_of_a_chip_that_is_named_add_up(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    machine.write(f"{HWMON}/hwmon0/name", "ina3221\n")
    machine.write(f"{HWMON}/hwmon0/power1_input", "4000000\n")
    machine.write(f"{HWMON}/hwmon0/power2_input", "6000000\n")
    source = open_source("hwmon:ina3221", machine.surroundings())
    assert source.missing() == ""
    source.read(*machine.pass_time(1))
    assert source.read(*machine.pass_time(2)) == {"machine": Joules.exactly(20.0)}
    assert "no sensor of power or energy of the name ina226" in open_source(
        "hwmon:ina226", machine.surroundings()
    ).missing()  # fmt: skip


def test_power_between_two_readings_goes_in_a_straight_line(tmp_path: Path) -> None:
    tree = MeterTree(tmp_path)
    source = tree.source()
    source.read(*tree.run(1, 100))
    assert source.read(*tree.run(2, 200)) == {"machine": Joules.exactly(300.0)}


def test_two_readings_say_nothing_about_a_long_time(tmp_path: Path) -> None:
    tree = MeterTree(tmp_path)
    source = tree.source()
    source.read(*tree.run(1, 100))
    assert source.read(*tree.run(61, 100)) == {}
    assert source.read(*tree.run(1, 100)) == {"machine": Joules.exactly(0.0)}


def test_a_counter_that_went_back_has_lost_count(tmp_path: Path) -> None:
    tree = SocketTree(tmp_path)
    source = tree.source()
    source.read(*tree.run(1, 100))
    tree.joules = 0.0
    assert source.read(*tree.run(1, 100)) == {}


@settings(PEOPLE, max_examples=100)
@given(
    spoils=spoilt(("power1_average", "energy2_input", "energy3_input", "energy2_label", "hwmon3/name")),
    steps=st.lists(st.tuples(st.floats(0, 90), st.floats(0, 3e4)), min_size=1, max_size=READ_S),
    sockets=st.booleans(),
)
def test_hostile_trees_never_give_an_absurd_number(
    spoils: Mapping[str, Sequence[Spoil]], steps: list[tuple[float, float]], sockets: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tree = (SocketTree if sockets else MeterTree)(Path(directory))
        source = HwmonSource(SpoiltFiles(HostKernelFiles(Path(directory)), spoils))
        assert "\n" not in source.missing()
        before: Mapping[str, Joules] = {}
        before_s = 0.0
        for seconds, watts in steps:
            at_s, cpu = tree.run(seconds, watts)
            now = source.read(at_s, cpu)
            check_reading(before, now, at_s - before_s)
            if now:
                before, before_s = now, at_s
