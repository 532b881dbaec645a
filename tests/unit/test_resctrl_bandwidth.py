"""The sensor of memory traffic on pretended machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.model.guard import READINGS, Setting
from framework.ports.sensor import Sensor
from framework.testbeds.host.memory_bandwidth import EVENT, MemoryBandwidth
from framework.testbeds.host.resctrl import ROOT
from framework.testing.pretend_resctrl import INTEL, MACHINES, PlantTraffic, PretendResctrl
from tests.guarded_cache import GuardedCache

NAMES = sorted(name for name, machine in MACHINES.items() if machine.rmids)
FLOWS = {"": 1e9, "tailor-lc": 2e9, "tailor-be": 3e9, "theirs": 4e9}


@pytest.mark.parametrize("name", NAMES)
def test_traffic_of_groups_and_of_all(name: str, tmp_path: Path) -> None:
    guarded = GuardedCache(MACHINES[name], tmp_path)
    guarded.files.traffic = lambda shares: FLOWS
    sensor: Sensor = MemoryBandwidth(guarded.files)
    assert sensor.missing() == ""
    assert set(sensor.gives) <= set(READINGS)
    assert sensor.read(100.0) == {}
    guarded.files.advance(2.0)
    assert sensor.read(102.0) == pytest.approx({"bandwidth_gbs": 5.0})  # the default group and the user's
    guarded.actuator().set(Setting(True, 2, 3))
    guarded.files.advance(1.0)
    assert sensor.read(103.0) == {}  # of the new groups nothing is known yet
    guarded.files.advance(4.0)
    assert sensor.read(107.0) == pytest.approx(
        {"bandwidth_gbs": 10.0, "lc_bandwidth_gbs": 2.0, "be_bandwidth_gbs": 3.0}
    )
    assert sensor.read(107.0) == {}  # no time has passed
    sensor.close()


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_a_counter_that_begins_again(count: int, more: int) -> None:
    files = PretendResctrl(replace(INTEL, cpus={0: frozenset({0})}))
    sensor = MemoryBandwidth(files)
    files.set_count("", 0, EVENT, count)
    sensor.read(0.0)
    files.set_count("", 0, EVENT, (count + more) % 2**64)
    assert sensor.read(2.0) == pytest.approx({"bandwidth_gbs": more / 2e9})


def test_a_counter_that_was_set_back_is_left_out() -> None:
    files = PretendResctrl(INTEL)
    sensor = MemoryBandwidth(files)
    files.set_count("", 0, EVENT, 10**12)
    sensor.read(0.0)
    files.set_count("", 0, EVENT, 500)
    assert sensor.read(1.0) == {}
    files.set_count("", 0, EVENT, 10**9 + 500)
    assert sensor.read(2.0) == pytest.approx({"bandwidth_gbs": 1.0})


def test_a_counter_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    guarded.files.traffic = lambda shares: FLOWS
    guarded.actuator().set(Setting(True, 2, 3))
    sensor = MemoryBandwidth(guarded.files)
    sensor.read(0.0)
    guarded.files.advance(1.0)
    guarded.files.set_count("tailor-lc", 1, EVENT, None)
    assert guarded.files.read(f"{ROOT}/tailor-lc/mon_data/mon_L3_01/{EVENT}") == "Unavailable\n"
    assert sensor.read(1.0) == pytest.approx({"be_bandwidth_gbs": 3.0})
    for second in (2, 3):
        guarded.files.advance(1.0)
        readings = sensor.read(float(second))
    assert readings == pytest.approx({"bandwidth_gbs": 10.0, "lc_bandwidth_gbs": 2.0, "be_bandwidth_gbs": 3.0})


def test_groups_that_go_are_no_error(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    actuator = guarded.actuator()
    actuator.set(Setting(True, 2, 3))
    sensor = MemoryBandwidth(guarded.files)
    sensor.read(0.0)
    actuator.restore()
    assert set(sensor.read(1.0)) == {"bandwidth_gbs"}
    guarded.files.mounted = False
    assert sensor.read(2.0) == {}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (PretendResctrl(INTEL, mounted=False), "this kernel has no resctrl mounted at /sys/fs/resctrl"),
        (PretendResctrl(MACHINES["intel-unmonitored"]), "this machine does not count memory traffic"),
        (PretendResctrl(replace(INTEL, features=("llc_occupancy",))), "this machine does not count memory traffic"),
    ],
)
def test_what_a_machine_lacks(files: PretendResctrl, said: str) -> None:
    sensor = MemoryBandwidth(files)
    assert sensor.missing() == said
    assert sensor.read(0.0) == {}


def test_the_loop_of_cache_and_traffic(tmp_path: Path) -> None:
    """More ways for BE are less traffic of BE and more of LC, through files alone."""
    guarded = GuardedCache(INTEL, tmp_path)
    guarded.files.traffic = PlantTraffic(Machine(), LC_KINDS["search"], 1500.0, 6, {"cache": 2.0})
    actuator, sensor, seen = guarded.actuator(), MemoryBandwidth(guarded.files), []
    for step, ways in enumerate((2, 2, 16, 16)):
        actuator.set(Setting(True, 2, ways))
        guarded.files.advance(1.0)
        seen.append(sensor.read(float(step)))
    few, many = seen[1], seen[3]
    assert many["be_bandwidth_gbs"] < few["be_bandwidth_gbs"]
    assert many["lc_bandwidth_gbs"] > few["lc_bandwidth_gbs"]
    assert few["bandwidth_gbs"] == pytest.approx(few["lc_bandwidth_gbs"] + few["be_bandwidth_gbs"])
