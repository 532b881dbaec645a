"""Processors as kernels show them, and their generations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.energy.generations import GENERATIONS, by_numbers, short_name
from framework.energy.processor import read_processor
from framework.energy.unseen import has_several_dies

XEON = (
    "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 63\nmodel name : Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz\n"
    "stepping : 2"
)
EPYC = (
    "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC 7763 64-Core Processor\nstepping : 1\n"
    "cpu MHz : 2450.000"
)
HIDDEN = "processor : 0\nmodel name : QEMU Virtual CPU\nflags : hypervisor\n\n"
ALTRA = "BogoMIPS : 50.00\nCPU implementer : 0x41\nCPU architecture: 8\nCPU variant : 0x3\nCPU part : 0xd0c"


def cpuinfo(thread: str, threads: int, packages: int = 1, cores: int = 0) -> str:
    """Return a /proc/cpuinfo.  ``cores``: of a package, each of two threads; 0: as many as its threads."""
    of_package = threads // packages
    cores = cores or of_package
    return "".join(
        f"processor : {number}\nphysical id : {number // of_package}\ncore id : {number % of_package % cores}\n"
        f"{thread}\n\n"
        for number in range(threads)
    )


def test_a_server_is_read() -> None:
    processor = read_processor(cpuinfo(XEON, 24, packages=2, cores=6))
    assert (processor.cpus, processor.packages, processor.cores, processor.virtual) == (24, 2, 12, False)
    assert (processor.named_ghz, processor.named_cores) == (2.4, None)
    assert processor.short == "xeon e5-2620 v3"
    assert processor.generation is not None
    assert processor.generation.name == "Haswell"
    assert not has_several_dies(processor)


def test_a_virtual_machine_says_so() -> None:
    processor = read_processor(cpuinfo(EPYC + "\nflags : fpu vme hypervisor", 4))
    assert processor.virtual
    assert (processor.named_cores, processor.mhz) == (64, 2450.0)
    assert has_several_dies(processor)


def test_an_arm_server_has_its_core_s_number() -> None:
    processor = read_processor(cpuinfo(ALTRA, 80))
    assert processor.generation is not None
    assert processor.generation.name == "Neoverse N1"
    assert not has_several_dies(processor)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "xeon 8380"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", "xeon 8592+"),
        ("Intel(R) Xeon(R) CPU E3-1265L v3 @ 2.50GHz", "xeon e3-1265l v3"),
        ("Intel Xeon E3-1265LV3", "xeon e3-1265l v3"),
        ("Intel Xeon E E-2488", "xeon e-2488"),
        ("Intel Xeon-D 2776NT", "xeon d-2776nt"),
        ("AMD EPYC 7601 32-Core Processor", "epyc 7601"),
        ("AMD EPYC 7601 Dell SKU [338-BNCG]", "epyc 7601"),
        ("AMD Ryzen Threadripper 1950X 16-Core Processor", "ryzen threadripper 1950x"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", ""),
        ("AMD EPYC", ""),
        ("Intel Xeon Processor (Skylake, IBRS)", ""),
        ("", ""),
    ],
)
def test_names_have_a_short_form(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "name"),
    [
        ("GenuineIntel", 6, 85, 4, "Skylake"),
        ("GenuineIntel", 6, 85, 7, "Cascade Lake"),
        ("GenuineIntel", 6, 85, 11, "Cooper Lake"),
        ("GenuineIntel", 6, 143, 8, "Sapphire Rapids"),
        ("GenuineIntel", 6, 158, 9, "Kaby Lake"),
        ("GenuineIntel", 6, 158, 13, "Coffee Lake"),
        ("GenuineIntel", 6, 45, 7, None),
        ("AuthenticAMD", 23, 1, 2, "Naples"),
        ("AuthenticAMD", 23, 49, 0, "Rome"),
        ("AuthenticAMD", 25, 17, 1, "Genoa"),
        ("AuthenticAMD", 25, 160, 2, "Bergamo and Siena"),
        ("AuthenticAMD", 26, 2, 1, "Turin"),
        ("AuthenticAMD", 26, 17, 0, "Turin Dense"),
        ("AuthenticAMD", 6, 85, 7, None),
        ("HygonGenuine", 24, 1, 1, None),
    ],
)
def test_numbers_tell_the_generation(vendor: str, family: int, model: int, stepping: int, name: str | None) -> None:
    generation = by_numbers(vendor, family, model, stepping)
    assert (generation.name if generation is not None else None) == name


def test_no_numbers_belong_to_two_generations() -> None:
    for generation in GENERATIONS:
        for model in range(generation.models[0], generation.models[1] + 1):
            for stepping in {generation.steppings[0], generation.steppings[1]}:
                assert by_numbers(generation.vendor, generation.family, model, stepping) == generation


@given(text=st.text(max_size=300))
def test_any_text_is_some_machine(text: str) -> None:
    for shown in (text, "processor : 0\n" + text, f"processor : {text}\nmodel : {text}\ncpu MHz : {text}\n"):
        processor = read_processor(shown)
        assert processor.cpus >= 1
        assert processor.cores >= 1
        assert processor.mhz >= 0
        assert processor.short.strip() == processor.short
