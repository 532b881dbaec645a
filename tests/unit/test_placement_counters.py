"""Hardware counters from recorded output of perf."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import InputError
from framework.testbeds.host.counters import derived, read_perf

CASES = Path(__file__).resolve().parents[1] / "cases" / "perf"


def case(name: str) -> str:
    return (CASES / f"{name}.csv").read_text()


def test_the_pipelines_slots_of_an_intel_machine() -> None:
    counters = derived(read_perf(case("intel-topdown"))["docker/frontend"])
    assert counters.ipc == pytest.approx(0.6, abs=1e-3)
    # perf's own column for the same counts: 10.2, 7.6 (8.1 here, of the four counts), 51.0 and 31.1 %
    assert counters.topdown == pytest.approx(
        {"retiring": 0.102, "bad speculation": 0.081, "frontend bound": 0.511, "backend bound": 0.306}, abs=1e-3
    )
    assert sum(counters.topdown.values()) == pytest.approx(1)
    assert not counters.refused


def test_what_took_too_short_a_turn_is_refused() -> None:
    services = read_perf(case("multiplexed"))
    counters = derived(services["docker/search"])
    assert counters.ipc == pytest.approx(0.660, abs=1e-3)
    assert counters.mpki == pytest.approx({"L1d": 27.25, "LLC": 17.23, "dTLB": 1.436}, rel=1e-3)
    assert counters.refused == {
        "LLC-load-misses": "counted for 18% of the time; allowed: from 25%",
        "iTLB-load-misses": "not supported",
    }
    assert not counters.topdown
    idle = derived(services["docker/geo"])
    assert idle.ipc is None
    assert set(idle.refused.values()) == {"not counted"}


def test_an_amd_machine_counts_its_second_level() -> None:
    counters = derived(read_perf(case("amd"))["docker/rate"])
    assert counters.ipc == pytest.approx(1.5)
    assert counters.mpki == pytest.approx({"L1i": 3.0, "L1d": 15.0, "L2": 4.0})


def test_a_machine_without_counters_says_nothing_and_why() -> None:
    counters = derived(read_perf(case("none"))["docker/user"])
    assert (counters.ipc, counters.mpki, counters.topdown) == (None, {}, {})
    assert set(counters.refused.values()) == {"not supported"}


@pytest.mark.parametrize("line", ["cycles 12", "1;2;3", "abc;;cycles;a;1;100.00;;", "1;;cycles;a;1;many;;"])
def test_what_perf_does_not_write_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="perf"):
        read_perf(line)
