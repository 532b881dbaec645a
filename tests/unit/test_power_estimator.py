"""The estimator of unseen processors: its numbers are those of the fit, and its errors those that are kept."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from experiments.energy.fitting import OTHERS, OURS, LoadReading, fitted, fitted_form
from framework.energy.unseen import BEND, FITTED, SHAPE_ERROR, UNSEEN_ERROR, Known, UnseenModel

ENERGY = Path(__file__).resolve().parents[2] / "experiments" / "energy"
KEPT: dict[str, Any] = json.loads((ENERGY / "results" / "estimator.json").read_text())
SCORED: dict[str, Any] = KEPT["readings"]["the energy of a row over its duration"]
KWH = 3.6e6


def test_the_numbers_are_those_of_the_fit() -> None:
    fit = SCORED["fitted"]
    assert FITTED.idle_share == pytest.approx(fit["idle_share"], abs=5e-4)
    assert FITTED.core_w_per_ghz == pytest.approx(fit["core_w_per_ghz"], abs=5e-3)
    assert pytest.approx(fit["bend"], abs=5e-3) == BEND == FITTED.bend
    assert pytest.approx(SCORED["error_95"], abs=5e-3) == UNSEEN_ERROR
    assert pytest.approx(SCORED["shape_error_95"], abs=5e-3) == SHAPE_ERROR


def test_of_processors_that_it_has_not_seen_the_median_error_is_at_most_a_fifth() -> None:
    for readings in KEPT["readings"].values():
        assert readings["all"]["estimator"]["median"] <= 0.20 < readings["all"]["tdp"]["median"]


def test_the_program_finds_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = runpy.run_path(str(ENERGY / "estimator"))
    scored = program["scored"](program["recordings"](program["energy_watts"]))
    assert_close(json.loads(json.dumps(scored)), SCORED)
    monkeypatch.setattr(sys, "argv", ["estimator", "--help"])
    with pytest.raises(SystemExit) as left:
        program["main"]()
    assert left.value.code == 0


def assert_close(found: Any, kept: Any) -> None:
    """Raise AssertionError unless the numbers are equal but for how a processor rounds."""
    if isinstance(kept, dict):
        assert found.keys() == kept.keys()
        for key, value in kept.items():
            assert_close(found[key], value)
    else:
        assert found == pytest.approx(kept, rel=1e-6)


@pytest.mark.parametrize("path", sorted((ENERGY / "recordings").glob("*.csv")), ids=lambda path: path.stem)
def test_the_power_of_a_row_is_the_energy_of_the_row_before(path: Path) -> None:
    """So does each transcribed number agree with another one, but for the second in which the load changed."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    watts = [float(row["rapl_energy"]) * KWH / float(row["duration"]) for row in rows]
    for before, now, row in zip(watts, watts[1:], rows[1:], strict=False):
        assert float(row["rapl_power"]) == pytest.approx(before + (now - before) / 31, rel=0.01)
    loads = [float(row["cpu_load"]) for row in rows]
    assert all(later > earlier - 6 for earlier, later in pairwise(loads))
    assert {row["load_type"] for row in rows} == {path.stem.rpartition("-")[2]}


KNOWN = (Known(100.0, 10, 2.0, False), Known(200.0, 20, 3.0, True), Known(60.0, 4, 3.0, False))


def test_the_fit_finds_the_model_that_made_the_readings() -> None:
    truth = UnseenModel((0.1, 0.2), 2.5, 0.8)
    groups = [
        [LoadReading(known, "made", load / 10, truth.curve(known).watts(load / 10), 0.0) for load in range(11)]
        for known in KNOWN
    ]
    found = fitted(groups)
    assert found.idle_share == pytest.approx(truth.idle_share, rel=0.05)
    assert found.core_w_per_ghz == pytest.approx(truth.core_w_per_ghz, rel=0.03)
    assert found.bend == pytest.approx(truth.bend, abs=0.03)


def test_every_form_that_was_tried_tells_a_curve() -> None:
    groups = [[LoadReading(known, "made", load / 4, 20 + 10 * load, 0.0) for load in range(5)] for known in KNOWN]
    for form in (OURS, *OTHERS):
        curve = form.curve(KNOWN[0], fitted_form(form, groups))
        assert 0 < curve.idle_w <= curve.full_w
