"""Power sources without a meter: a curve by the CPUs' utilisation, and TDP; and the choice among all sources."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.energy.unseen import BEND, FITTED, SHAPE_ERROR, UNSEEN_ERROR, Known
from framework.errors import FieldError, MissingPrerequisite, UnknownName
from framework.model.energy import CpuTimes
from framework.ports.energy import PowerSource
from framework.testbeds.host.power.curve import CurveSource
from framework.testbeds.host.power.opening import METERS, MODELS, every_source, open_source
from framework.testbeds.host.power.rapl import POWERCAP
from framework.testbeds.host.power.registry import SOURCES
from framework.testing.power_source import PowerSourceContract, PowerWorld
from tests.power_machine import CPUS, PretendMachine
from tests.unit.test_power_ipmi import printed
from tests.unit.test_power_processor import EPYC, HIDDEN, XEON, cpuinfo


class Server:
    """A machine whose processors the kernel shows, or not."""

    def __init__(self, directory: Path, text: str, shown: str) -> None:
        self.machine, self.text = PretendMachine(directory), text
        self.machine.write("/proc/cpuinfo", shown)

    def source(self) -> PowerSource:
        return open_source(self.text, self.machine.surroundings())

    def lacking(self) -> PowerSource:
        other = PretendMachine(self.machine.root / "other")
        other.write("/proc/cpuinfo", HIDDEN)
        return open_source(self.text, other.surroundings())

    def run(self, seconds: float, watts: float) -> tuple[float, CpuTimes]:
        return self.machine.pass_time(seconds)

    def spoil(self) -> None:
        raise NotImplementedError

    def mend(self) -> None:
        raise NotImplementedError


class TestCurve(PowerSourceContract):
    name = "curve"
    meters = fails = False

    def world(self, directory: Path) -> PowerWorld:
        return Server(directory, "curve", cpuinfo(EPYC, 4))


class TestTdp(PowerSourceContract):
    name = "tdp"
    meters = fails = False

    def world(self, directory: Path) -> PowerWorld:
        return Server(directory, "tdp", cpuinfo(XEON, 4))


def test_the_utilisation_since_the_reading_before_counts(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    source = open_source("curve:100,300,1", machine.surroundings())
    for busy, watts in ((0.0, 100.0), (1.0, 300.0), (0.25, 150.0)):
        machine.busy = busy
        source.read(*machine.pass_time(0))
        before = source.read(*machine.pass_time(0))["machine"]
        grown = source.read(*machine.pass_time(2))["machine"].since(before)
        assert grown.value == pytest.approx(2 * watts)
        assert grown.low == pytest.approx(2 * watts / math.exp(SHAPE_ERROR))
        assert grown.high == pytest.approx(2 * watts * math.exp(SHAPE_ERROR))


def test_power_bends_as_recorded_unless_said_otherwise(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    source = open_source("curve:100,300", machine.surroundings())
    source.read(*machine.pass_time(1))
    assert source.read(*machine.pass_time(1))["machine"].value == pytest.approx(100 + 200 * 0.5**BEND)


@pytest.mark.parametrize(
    "argument", ["a,b", "100", "300,100", "-1,5", "0,0", "1,10000", "nan,5", "1,2,3,4", "1,2,9", "1,inf"]
)
def test_watts_that_are_none_are_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(FieldError, match="power"):
        open_source(f"curve:{argument}", PretendMachine(tmp_path).surroundings())


@given(
    growths=st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 1e4)), min_size=2, max_size=12),
    idle=st.floats(0, 4000), more=st.floats(1, 4000),
)  # fmt: skip
def test_whatever_the_kernel_counts_power_is_between_idle_and_full(
    growths: list[tuple[float, float, float]], idle: float, more: float
) -> None:
    source = open_source(f"curve:{idle},{idle + more}")
    at_s, before = 0.0, None
    for user, unused, seconds in growths:
        at_s += seconds
        joules = source.read(at_s, CpuTimes(user=user, idle=unused))
        assert set(joules) == {"machine"}
        if before is not None:
            grown = joules["machine"].value - before
            assert idle * seconds * (1 - 1e-6) - 1e-3 <= grown <= (idle + more) * seconds * (1 + 1e-6) + 1e-3
        before = joules["machine"].value


def test_a_curve_says_what_it_rests_on_and_how_wrong_it_may_be(tmp_path: Path) -> None:
    about = Server(tmp_path, "curve", cpuinfo(EPYC, 4)).source().about()
    assert "SPECpower" in about
    assert "epyc 7763" in about
    assert "within a factor of" in about


def test_an_unknown_processor_is_refused_with_the_way_out(tmp_path: Path) -> None:
    world = Server(tmp_path, "curve", cpuinfo("model name : Somebody's Processor 9000", 4))
    assert "Somebody's Processor 9000" in world.source().missing()
    assert "curve:IDLE,FULL" in world.source().missing()
    assert world.source().read(*world.run(1, 0)) == {}


# ---------------------------------------------------------------------- tdp


def power(source: PowerSource) -> tuple[float, float]:
    assert isinstance(source, CurveSource)
    assert source.curve is not None, source.missing()
    return source.curve.idle_w, source.curve.full_w


def test_tdp_counts_all_packages_and_cores_of_a_machine(tmp_path: Path) -> None:
    source = Server(tmp_path, "tdp", cpuinfo(XEON, 24, packages=2, cores=6)).source()
    assert power(source) == pytest.approx((2 * 85 * FITTED.idle_share[0], 12 * 2.4 * FITTED.core_w_per_ghz))
    assert isinstance(source, CurveSource)
    assert source.curve is not None
    assert source.curve.error == UNSEEN_ERROR


def test_tdp_counts_the_share_of_a_virtual_machine(tmp_path: Path) -> None:
    shown = cpuinfo(EPYC + "\nflags : fpu hypervisor\ncpu MHz : 2450.0", 8)
    idle_w, full_w = power(Server(tmp_path, "tdp", shown).source())
    assert idle_w == pytest.approx(280 * 4 / 64 * FITTED.idle_share[1])
    assert full_w == pytest.approx(min(280 * 4 / 64, 4 * 2.45 * FITTED.core_w_per_ghz))


def test_a_virtual_machine_that_hides_how_many_cores_are_below_is_refused(tmp_path: Path) -> None:
    shown = cpuinfo(XEON + "\nflags : hypervisor", 8)
    assert "tdp:WATTS,CORES" in Server(tmp_path / "a", "tdp", shown).source().missing()
    assert power(Server(tmp_path / "b", "tdp:85,6", shown).source())[0] == pytest.approx(
        85 * 4 / 6 * FITTED.idle_share[0]
    )


def test_the_clock_is_the_nominal_one_as_far_as_it_is_told(tmp_path: Path) -> None:
    shown = cpuinfo(EPYC + "\ncpu MHz : 1500.000", 128, packages=1, cores=64)
    world = Server(tmp_path, "tdp", shown)
    assert power(world.source())[1] == pytest.approx(min(280, 64 * 1.5 * FITTED.core_w_per_ghz))
    world.machine.write("/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_freq", "1200\n")
    assert power(world.source())[1] == pytest.approx(64 * 1.2 * FITTED.core_w_per_ghz)
    world.machine.write("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "1100000\n")
    assert power(world.source())[1] == pytest.approx(64 * 1.1 * FITTED.core_w_per_ghz)


def test_a_processor_takes_no_more_than_its_tdp() -> None:
    curve = FITTED.curve(Known(10.0, 64, 4.0, True))
    assert curve.full_w == 10.0
    assert curve.idle_w <= curve.full_w


@pytest.mark.parametrize("argument", ["a", "0", "-5", "10000", "85,0", "85,6,1", "nan", "85,nan", "inf"])
def test_a_tdp_that_is_none_is_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(FieldError, match="power"):
        open_source(f"tdp:{argument}", PretendMachine(tmp_path).surroundings())


# ---------------------------------------------------------------------- the choice


def with_rapl(machine: PretendMachine) -> None:
    for name, text in (("name", "package-0"), ("energy_uj", "1"), ("max_energy_range_uj", "262143328850")):
        machine.write(f"{POWERCAP}/intel-rapl:0/{name}", text)


def test_the_best_that_works_is_chosen(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    machine.write("/proc/cpuinfo", HIDDEN)
    with pytest.raises(MissingPrerequisite, match=r"no power source works here: rapl: .* tdp: "):
        open_source("auto", machine.surroundings())
    older = XEON.replace("v3", "v2").replace("model : 63", "model : 62")  # no server with it is in the catalogue
    machine.write("/proc/cpuinfo", cpuinfo(older, 4))
    assert open_source("auto", machine.surroundings()).name == "tdp"
    machine.write("/proc/cpuinfo", cpuinfo(EPYC, 4))
    assert open_source("auto", machine.surroundings()).name == "curve"
    machine.answer = printed(100)
    assert open_source("auto", machine.surroundings()).name == "ipmi"
    with_rapl(machine)
    assert open_source("auto", machine.surroundings()).name == "rapl"


def test_every_source_that_needs_no_argument_says_whether_it_works(tmp_path: Path) -> None:
    machine = PretendMachine(tmp_path)
    with_rapl(machine)
    lacks = {source.name: source.missing() for source in every_source(machine.surroundings())}
    assert list(lacks) == [*METERS, *MODELS]
    assert [name for name, lack in lacks.items() if not lack] == ["rapl"]


def test_unknown_names_are_listed_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName, match=r"unknown power source 'rappel'; known: csv, curve, hwmon, ipmi, prometheus, rapl"
    ):
        open_source("rappel", PretendMachine(tmp_path).surroundings())
    assert set(SOURCES.names()) >= {*METERS, *MODELS, "csv", "prometheus", "recording"}


def test_on_this_machine_every_source_answers() -> None:
    for source in every_source():
        assert "\n" not in source.missing() + source.about()
        assert math.isfinite(sum(joules.value for joules in source.read(CPUS, CpuTimes()).values()))
        source.close()
