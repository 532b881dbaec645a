"""RAPL counters of a directory tree: zones, wraps and resets, and trees that show anything at all."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.energy.zones import whole
from framework.errors import FieldError, KnobRefused
from framework.model.energy import MOST_WATTS, CpuTimes, Joules
from framework.ports.energy import PowerSource
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.power.opening import open_source
from framework.testbeds.host.power.rapl import POWERCAP, RaplSource, RaplZone, grown_uj, rapl_zones
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import PretendMachine
from tests.spoilt_files import PEOPLE, READ_S, Spoil, SpoiltFiles, spoilt

RANGE = 262_143_328_850  # of a Skylake server
SMALL_RANGE = 65_532_610_987
ZONES = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "package-1"}
SHARES = {"intel-rapl:0": 0.5, "intel-rapl:0:0": 0.4, "intel-rapl:0:1": 0.2, "intel-rapl:1": 0.3}


class RaplTree:
    """Two packages, the memory of one; counters that begin shortly before their end."""

    def __init__(self, directory: Path, range_uj: int = RANGE) -> None:
        self.machine, self.range_uj, self.broken = PretendMachine(directory), range_uj, ""
        self.counters = dict.fromkeys(ZONES, range_uj - 150_000_000)
        for zone, name in ZONES.items():
            self.machine.write(f"{POWERCAP}/{zone}/name", name + "\n")
            self.machine.write(f"{POWERCAP}/{zone}/max_energy_range_uj", f"{range_uj}\n")
        self.write()

    def write(self) -> None:
        for zone, counter in self.counters.items():
            self.machine.show(f"{POWERCAP}/{zone}/energy_uj", f"{counter}\n" if zone != self.broken else None)

    # ------------------------------------------------------------------ PowerWorld

    def source(self) -> PowerSource:
        return open_source("rapl", self.machine.surroundings())

    def lacking(self) -> PowerSource:
        return RaplSource(HostKernelFiles(self.machine.root / "nowhere"))

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        for zone in ZONES:
            grown = round(watts * seconds * SHARES[zone] * 1e6)
            self.counters[zone] = (self.counters[zone] + grown) % (self.range_uj + 1)
        self.write()
        return self.machine.pass_time(seconds)

    def spoil(self) -> None:
        self.broken = "intel-rapl:1"

    def mend(self) -> None:
        self.broken = ""


class TestRapl(PowerSourceContract):
    name = "rapl"

    def world(self, directory: Path) -> PowerWorld:
        return RaplTree(directory)


class TestRaplOfASmallRange(PowerSourceContract):
    name = "rapl"

    def world(self, directory: Path) -> PowerWorld:
        return RaplTree(directory, SMALL_RANGE)


def test_zones_inside_others_are_left_out_and_memory_has_its_package(tmp_path: Path) -> None:
    tree = RaplTree(tmp_path)
    assert [zone.name for zone in rapl_zones(HostKernelFiles(tmp_path))] == ["dram-0", "package-0", "package-1"]
    assert tree.source().about().startswith("RAPL counters of dram-0, package-0, package-1")


def test_memory_mapped_registers_are_not_counted_twice(tmp_path: Path) -> None:
    tree = RaplTree(tmp_path)
    tree.machine.write(f"{POWERCAP}/intel-rapl-mmio:0/name", "package-0\n")
    tree.machine.write(f"{POWERCAP}/intel-rapl-mmio:0/energy_uj", "7\n")
    [zone] = [zone for zone in rapl_zones(HostKernelFiles(tmp_path)) if zone.name == "package-0"]
    assert zone.path == f"{POWERCAP}/intel-rapl:0"


def test_memory_mapped_registers_alone_are_counted(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    machine.write(f"{POWERCAP}/intel-rapl-mmio:0/name", "package-0\n")
    machine.write(f"{POWERCAP}/intel-rapl-mmio:0/energy_uj", "7\n")
    assert [zone.name for zone in rapl_zones(HostKernelFiles(tmp_path))] == ["package-0"]


def test_dies_and_the_platform_are_zones_and_other_controls_are_none(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    names = {"intel-rapl:0": "package-0-die-1", "intel-rapl:0:0": "dram", "intel-rapl:1": "psys", "dtpm:0": "package-9"}
    for zone, name in names.items():
        machine.write(f"{POWERCAP}/{zone}/name", name + "\n")
    assert [zone.name for zone in rapl_zones(HostKernelFiles(tmp_path))] == ["dram-0-die-1", "package-0-die-1", "psys"]


def test_a_counter_that_only_root_may_read_is_told_plainly() -> None:
    class Locked:
        """Files of which ``energy_uj`` is root's, as since the kernel's answer to Platypus (CVE-2020-8694)."""

        def read(self, path: str) -> str:
            if path.endswith("energy_uj") and not path.endswith("range_uj"):
                raise KnobRefused(path, "Permission denied")
            return "package-0" if path.endswith("name") else str(RANGE)

        def entries(self, path: str) -> list[str]:
            return ["intel-rapl:0"]

    source = RaplSource(Locked())  # type: ignore[arg-type]
    assert source.missing().startswith(f"only root may read {POWERCAP}/intel-rapl:0/energy_uj")
    assert source.read(0.0, CpuTimes()) == {}


def test_it_takes_no_argument(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="power"):
        open_source("rapl:0", PretendMachine(tmp_path).surroundings())


ZONE = RaplZone("package-0", f"{POWERCAP}/intel-rapl:0", RANGE)


def test_a_wrap_is_counted_over_the_end_of_the_range() -> None:
    assert grown_uj(ZONE, RANGE - 60_000_000, 40_000_000, 1.0) == 100_000_000


@pytest.mark.parametrize("before", [RANGE // 2, RANGE - 2_000_000_000, 5_000_000])
def test_a_counter_that_begins_anew_has_not_wrapped(before: int) -> None:
    """The way over the end would have taken more than a package can: 2 kW and more."""
    with pytest.raises(KnobRefused, match="no wrap"):
        grown_uj(ZONE, before, 1_000_000, 1.0)


def test_a_counter_that_went_back_a_little_has_not_wrapped() -> None:
    with pytest.raises(KnobRefused):
        grown_uj(ZONE, 1_000_000, 999_999, 1.0)


def test_after_a_long_time_a_wrap_and_a_reset_look_alike() -> None:
    with pytest.raises(KnobRefused, match="no wrap"):
        grown_uj(ZONE, RANGE - 1_000_000, 1_000_000, 200.0)


def test_after_an_hour_a_counter_may_have_wrapped_unseen() -> None:
    with pytest.raises(KnobRefused, match="more than once"):
        grown_uj(ZONE, 1_000_000, 2_000_000, 3600.0)
    assert grown_uj(ZONE, 1_000_000, 2_000_000, 60.0) == 1_000_000


def test_without_a_known_range_nothing_is_a_wrap() -> None:
    with pytest.raises(KnobRefused):
        grown_uj(RaplZone("package-0", "p", 0), 100, 50, 1.0)


@given(
    range_uj=st.integers(10**9, 2**63),
    before=st.integers(0, 2**63),
    now=st.integers(0, 2**64),
    seconds=st.floats(0, 1e6, allow_nan=False),
)
def test_a_growth_is_never_negative_and_a_wrap_never_more_than_a_package_takes(
    range_uj: int, before: int, now: int, seconds: float
) -> None:
    zone = RaplZone("package-0", "p", range_uj)
    try:
        grown = grown_uj(zone, before, now, seconds)
    except KnobRefused:
        return
    assert grown >= 0
    if now < before:
        assert grown <= 1000 * max(seconds, 0.1) * 1e6


FILES = (
    "intel-rapl:0/energy_uj", "intel-rapl:0:1/energy_uj", "intel-rapl:1/energy_uj", "intel-rapl:0/name",
    "intel-rapl:0:1/name", "intel-rapl:1/max_energy_range_uj",
)  # fmt: skip


@settings(PEOPLE, max_examples=150)
@given(
    spoils=spoilt(FILES), steps=st.lists(st.tuples(st.floats(0, 90), st.floats(0, 3e4)), min_size=1, max_size=READ_S)
)
def test_hostile_trees_never_give_an_absurd_number(
    spoils: Mapping[str, Sequence[Spoil]], steps: list[tuple[float, float]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tree = RaplTree(Path(directory))
        source = RaplSource(SpoiltFiles(HostKernelFiles(Path(directory)), spoils))
        assert "\n" not in source.missing()
        before: Mapping[str, Joules] = {}
        before_s = 0.0
        for seconds, watts in steps:
            at_s, cpu = tree.run(seconds, watts)
            now = source.read(at_s, cpu)
            check_reading(before, now, at_s - before_s)
            if now:
                before, before_s = now, at_s


def check_reading(before: Mapping[str, Joules], now: Mapping[str, Joules], seconds: float) -> None:
    """Raise AssertionError where joules shrink, or grow faster than a machine can use them."""
    for zone, joules in now.items():
        assert 0 <= joules.low <= joules.value <= joules.high
        assert joules.value >= before.get(zone, joules).value
    if before and now and before.keys() == now.keys():
        total, total_before = whole(now), whole(before)
        assert total is not None
        assert total_before is not None
        if "psys" not in now:
            assert total.value - total_before.value <= MOST_WATTS * max(seconds, 0.1) * (1 + 1e-9)
