"""The catalogue of processors' power, its source, and the zones that add up to a machine."""

from __future__ import annotations

import csv
import math
import re
import runpy
import sys
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.energy.generations import GENERATIONS
from framework.energy.power_catalogue import (
    DATA,
    curve_for,
    curve_in,
    curve_of,
    known_processors,
    server_power,
    tdp_of,
)  # fmt: skip
from framework.energy.processor import Processor, read_processor
from framework.energy.unseen import BEND, SHAPE_ERROR
from framework.energy.zones import whole
from framework.errors import FieldError
from framework.model.energy import Joules
from tests.unit.test_power_processor import ALTRA, EPYC, XEON, cpuinfo

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "energy" / "specpower.csv"


def results() -> list[dict[str, str]]:
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


PUBLISHED = {
    "EPYC 1st Gen": (r"AMD EPYC (7351|7501|7551P|7601)", 0.8467881944444444, 2.6041666666666665),
    "EPYC 2nd Gen": (r"AMD EPYC (7702P?|7742)", 0.4742621527777777, 1.6929615162037035),
    "EPYC 3rd Gen": (r"AMD EPYC (7713|7763|7773X)", 0.45562453497023814, 1.957333519345238),
    "EPYC 4th Gen": (r"AMD EPYC (9654P?|8\d\d4PN?)", 0.7391482469512195, 2.282155106707317),
    "Broadwell": (r"Intel Xeon E5-\d+ [vV]4", 0.7128342245989305, 3.685327540106952),
    "Cascade Lake": (
        r"Intel.* (Platinum (8280L?|8276L)|Gold (6252|5218|5220|6238R|6226R)|Silver 4214)",
        0.6902978319127387, 4.063193520161689,
    ),
    "Coffee Lake": (r"Intel Xeon E-2[12]\d+G", 1.138425925925926, 5.421759259259259),
    "Ice Lake": (r"Intel Xeon Platinum 8380", 0.766796875, 3.7582031249999996),
    "Emerald Rapids": (r"Intel Xeon (Platinum 8581V|Gold (6548Y|6558Q))", 0.8140104166666666, 4.48203125),
    "Sapphire Rapids": (
        r"Intel Xeon (Platinum (8490H|8471N)|Gold 64(14U|21N|28N|38N|48Y|54S)|Silver 4510)",
        1.0362861003136936, 4.160476336606656,
    ),
    "Granite Rapids": (r"Intel Xeon 6(787|788|980)P", 0.5815883902616279, 2.5274707237711422),
}  # fmt: skip
"""Architecture -> names in its authors' list, mean idle and full watts per thread (ccf-coefficients, Apache-2.0)."""


@pytest.mark.parametrize("architecture", PUBLISHED)
def test_the_transcribed_results_have_the_means_that_their_source_published(architecture: str) -> None:
    pattern, idle_w, full_w = PUBLISHED[architecture]
    chosen = [row for row in results() if re.fullmatch(pattern, row["cpu"])]
    threads = [int(row["chips"]) * int(row["cores_per_chip"]) * int(row["threads_per_core"]) for row in chosen]
    assert mean(float(row["watts_idle"]) / n for row, n in zip(chosen, threads, strict=True)) == pytest.approx(idle_w)
    assert mean(float(row["watts_full"]) / n for row, n in zip(chosen, threads, strict=True)) == pytest.approx(full_w)


def test_the_committed_catalogue_is_what_the_program_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thermal = tmp_path / "cpu_power.csv"
    thermal.write_text("Name,TDP\nAMD EPYC 7763,280\nIntel Xeon A1,10\nIntel Xeon A1,20\n4276 HE,65\nVIA C7 1,5\n")
    monkeypatch.setattr(sys, "argv", ["power-catalogue", str(RESULTS), str(thermal), str(tmp_path)])
    runpy.run_path(str(ROOT / "scripts" / "power-catalogue"), run_name="__main__")
    for name in ("processors.csv", "generations.csv"):
        assert (tmp_path / name).read_text() == (DATA / name).read_text()
    assert (tmp_path / "thermal.csv").read_text() == "processor,tdp_w\nepyc 7763,280\n"


def test_a_processor_has_the_power_of_its_servers() -> None:
    power = server_power(read_processor(cpuinfo(EPYC, 4)))
    assert power is not None
    assert (power.kind, power.chip_threads) == ("epyc 7763", 128)
    assert 0.3 < power.idle_w < 0.6 < 1.5 < power.full_w < 2.5


def test_a_machine_has_whole_chips_and_a_virtual_one_its_share() -> None:
    power = server_power(Processor("AMD EPYC 7763 64-Core Processor"))
    assert power is not None
    whole_chips = curve_for(read_processor(cpuinfo(EPYC, 128, packages=2, cores=32)))  # half of the cores are off
    share = curve_for(read_processor(cpuinfo(EPYC + "\nflags : hypervisor", 8, packages=4)))
    assert whole_chips is not None
    assert share is not None
    assert whole_chips.full_w == pytest.approx(256 * power.full_w)
    assert share.full_w == pytest.approx(8 * power.full_w)
    assert "its share of a server" in share.source


def test_another_processor_has_the_power_of_its_generation_less_exactly() -> None:
    named, other = curve_of("Intel(R) Xeon(R) CPU E5-2699 v3 @ 2.30GHz", 4), curve_for(read_processor(cpuinfo(XEON, 4)))
    assert named is not None
    assert other is not None
    assert "Haswell processors" in other.source
    assert other.error > named.error > SHAPE_ERROR
    assert other.bend == BEND
    arm = curve_for(read_processor(cpuinfo(ALTRA, 80)))
    assert arm is not None
    assert "Neoverse N1" in arm.source


@pytest.mark.parametrize("name", ["", "AMD EPYC", "Intel(R) Xeon(R) CPU E5-2660 0 @ 2.20GHz", "Cortex-A53"])
def test_of_others_nothing_is_known(name: str) -> None:
    assert curve_of(name, 4) is None


def test_every_entry_is_a_power_that_can_be() -> None:
    for name in known_processors():
        power = server_power(Processor(name))
        assert power is not None
        assert power.kind == name
        assert 0 < power.idle_w < power.full_w < 12
        assert 0 < power.error < math.log(3)
    generations = {row["generation"] for row in csv.DictReader((DATA / "generations.csv").read_text().splitlines())}
    assert generations == {generation.name for generation in GENERATIONS}


def test_thermal_design_powers_are_found_by_the_kernel_s_names() -> None:
    assert tdp_of("Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz") == 85
    assert tdp_of("AMD EPYC 8024P 8-Core Processor") == 90
    assert tdp_of("Intel(R) Xeon(R) CPU E3-1240 V2 @ 3.40GHz") == 69
    assert tdp_of("AMD EPYC") is None


def test_a_text_of_watts_is_a_curve() -> None:
    assert (curve_in("120,350").idle_w, curve_in("120,350").full_w) == (120, 350)
    assert curve_in("120,350,1").bend == 1
    with pytest.raises(FieldError, match="power"):
        curve_in("watts")


# ---------------------------------------------------------------------- zones


def joules(**zones: float) -> dict[str, Joules]:
    return {name.replace("_", "-"): Joules.exactly(value) for name, value in zones.items()}


@pytest.mark.parametrize(
    ("zones", "total"),
    [
        (joules(psys=50.0, package_0=20.0, dram_0=5.0), 50.0),
        (joules(package_0=20.0, package_1=10.0, dram_0=5.0, dram_1=1.0), 36.0),
        (joules(package_0=20.0, machine=70.0), 20.0),
        (joules(machine=70.0), 70.0),
        (joules(psys=0.0, package_0=20.0), 20.0),
        (joules(psys=3.0), 3.0),
        (joules(core=3.0), None),
        ({}, None),
    ],
)
def test_zones_add_up_to_the_machine_once(zones: dict[str, Joules], total: float | None) -> None:
    found = whole(zones)
    assert (found.value if found is not None else None) == total


@given(st.dictionaries(st.sampled_from(["psys", "package-0", "package-1", "dram-0", "machine"]), st.floats(0, 1e9)))
def test_the_machine_has_no_less_than_its_packages_and_no_more_than_all(amounts: dict[str, float]) -> None:
    zones = {zone: Joules(value, value / 2, value * 2) for zone, value in amounts.items()}
    total = whole(zones)
    packages = sum(value for zone, value in amounts.items() if zone.startswith(("package", "dram")))
    assert (total is None) == (not zones)
    if total is not None:
        assert packages <= total.value <= sum(amounts.values())
        assert total.low <= total.value <= total.high
