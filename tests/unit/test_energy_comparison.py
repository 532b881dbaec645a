"""Comparisons of energy on a pretended machine: rounds alternate, and no claim is made where there is no difference."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework.energy.idle import GENERATOR
from framework.errors import (
    InputError,
)
from framework.model.energy import Joules, Phase
from framework.model.energy_measurement import EnergyWindow
from framework.study.energy_verdict import ratios
from framework.use_cases.energy_comparison import by_round
from tests.energy_machine import (
    BUSY,
    CACHE,
    REQUEST,
    SMALL,
    Made,
    energy_measured,
    opened_machines,
    quiet,
    watts,
)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    yield from opened_machines(tmp_path)


def test_two_configurations_are_compared_round_by_round(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    other = tmp_path / "other"
    other.mkdir()
    for file in SMALL.iterdir():
        if file.is_file():
            (other / file.name).write_text(file.read_text().replace("name: small", "name: larger"))
    dear = {"cache": (CACHE[0], replace(CACHE[1], user=2 * CACHE[1].user, system=2 * CACHE[1].system))}
    cheap = machine.meter.services

    def on_load(number: int) -> None:
        machine.meter.services = dear if machine.application == "larger" else cheap

    machine.on_load = on_load
    second = replace(REQUEST, application=other)
    comparison = tailor.energy_comparisons.compare(REQUEST, second, quiet)
    assert (comparison.first, comparison.second) == ("small", "larger")
    by_name = {ratio.quantity: ratio for ratio in comparison.ratios}
    ratio = by_name["CPU time per request"]
    assert ratio.pairs == 6
    assert ratio.value == pytest.approx(2.0, rel=0.01)
    assert ratio.shown
    assert by_name["cycles per I/O (cpio)"].value == pytest.approx(2.0, rel=0.01)
    assert by_name["joules per request, all that is metered"].value == pytest.approx(
        watts(2 * BUSY) / watts(BUSY), rel=0.01
    )
    assert GENERATOR not in {row.service for row in tailor.energies.measure(REQUEST, quiet).answer.runs[0].services}
    with pytest.raises(InputError, match="both are called small"):
        tailor.energy_comparisons.compare(REQUEST, REQUEST, quiet)


def test_a_slower_disk_is_a_limit_on_each_service(made: Made) -> None:
    tailor, machine = made()
    comparison = tailor.energy_comparisons.compare(
        replace(REQUEST, rounds=2), replace(REQUEST, rounds=2, disk_mbs=100.0), quiet
    )
    assert comparison.second == "small-100-mbs"
    assert machine.meter.throttled == [100.0, 0.0] * 2, "each deployment of the second, and taken away again"
    with pytest.raises(InputError, match="disk_mbs"):
        tailor.energies.measure(replace(REQUEST, disk_mbs=-1.0), quiet)


def test_on_rising_numbers_of_cores_services_get_so_many(made: Made) -> None:
    tailor, machine = made()
    request = replace(REQUEST, rounds=2)
    few = tailor.energy_comparisons.scale(request, [1, 2], quiet)
    assert [point.cores for point in few.points] == [1, 2]
    assert any("at least 4 numbers of cores" in note for note in few.notes)
    assert not few.projections
    sets = {str(configuration["front.cpuset"]) for configuration in machine.deployed}
    assert sets == {"0", "0-1"}
    enough = tailor.energy_comparisons.scale(request, [1, 2, 4, 8], quiet)
    assert [projection.law for projection in enough.projections] == ["linear", "USL"]
    # The pretended service takes as many cycles on any number of cores: both laws say so.
    assert enough.projections[0].times == pytest.approx(1.0, rel=0.01)
    assert enough.figure is not None
    assert "<svg" in enough.figure.read_text()
    assert enough.points[0].system_cpio == pytest.approx(CACHE[1].system * 2e9 / (4e6 / 512))
    with pytest.raises(InputError, match="cores"):
        tailor.energy_comparisons.scale(request, [], quiet)


def test_identical_arms_do_not_differ_by_the_error_of_their_baselines(made: Made) -> None:
    """Idle power that varies between rounds is the error of each round, and not one that an arm's rounds share."""
    shown = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        arms = []
        for _ in range(2):
            windows = []
            for number in range(10):
                quiet_w, loaded_w = 100.0 + random.standard_normal(), 106.0 + random.standard_normal()
                windows += [powered("baseline", number, quiet_w), powered("run", number, loaded_w)]
            arms.append(replace(energy_measured(), windows=tuple(windows)))
        compared = ratios(by_round(arms[0], "device"), by_round(arms[1], "device"))
        shown += next(ratio for ratio in compared if ratio.quantity == "joules per request, application").shown
    assert shown <= 6, "5 % of 40, and chance"


def powered(phase: Phase, number: int, watts_: float) -> EnergyWindow:
    joules = Joules.exactly(10.0 * watts_)
    made = next(window for window in energy_measured().windows if window.phase == phase)
    return replace(made, round=number, joules={"machine": joules}, whole=joules)


def test_cycles_of_two_arms_are_counted_by_one_clock(made: Made, tmp_path: Path) -> None:
    tailor, machine = made()
    other = Path(shutil.copytree(SMALL, tmp_path / "other"))
    text = (other / "application.yaml").read_text()
    (other / "application.yaml").write_text(text.replace("name: small", "name: larger"))
    clocks = iter([1e9, 3e9, *[2e9] * 100])
    machine.meter.clocks = lambda: next(clocks)
    comparison = tailor.energy_comparisons.compare(REQUEST, replace(REQUEST, application=other), quiet)
    [cpio] = [ratio for ratio in comparison.ratios if "cpio" in ratio.quantity]
    assert cpio.value == pytest.approx(1.0, rel=0.01)


def test_two_applications_at_different_rates_are_refused_before_they_are_measured(made: Made, tmp_path: Path) -> None:
    other = Path(shutil.copytree(SMALL, tmp_path / "other"))
    text = (other / "application.yaml").read_text()
    changed = text.replace("name: small", "name: larger").replace("rate_rps: 10,", "rate_rps: 20,")
    (other / "application.yaml").write_text(changed)
    tailor, machine = made()
    own = replace(REQUEST, rates_rps=())
    with pytest.raises(InputError, match=r"10 and 20 requests/s of their own.*allowed: a rate for both"):
        tailor.energy_comparisons.compare(own, replace(own, application=other), quiet)
    with pytest.raises(InputError, match="1 to 8, the cores"):
        tailor.energy_comparisons.scale(REQUEST, [1, 4, 16], quiet)
    with pytest.raises(InputError, match="a recording begins anew"):
        tailor.energy_comparisons.scale(replace(REQUEST, power="recording:x.csv"), [1, 2], quiet)
    assert not machine.deployed
