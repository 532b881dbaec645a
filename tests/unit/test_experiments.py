"""Every experiment's runner can be started, and what needs no machine works on results that are there."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNERS = sorted(
    path for path in (ROOT / "experiments").rglob("run") if path.read_text().startswith("#!/usr/bin/env python3")
)
SHORT = {"agreement"}  # they take no options
DDS = json.loads((ROOT / "experiments" / "first-studies" / "results" / "dds-seed1.json").read_text())


def loaded(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "experiments" / name / "run"))


@pytest.mark.parametrize("path", RUNNERS, ids=lambda path: str(path.parent.relative_to(ROOT / "experiments")))
def test_a_runner_says_what_it_does(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if path.parent.name in SHORT:
        assert callable(loaded(path.parent.name)["main"])
        return
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    assert left.value.code == 0
    assert "usage: run" in capsys.readouterr().out


def test_convergence_is_read_off_a_finished_search() -> None:
    best = loaded("figure5")["convergence"](DDS)
    assert len(best) == 16
    assert best[0] == 1.0
    assert best == sorted(best, reverse=True)


def test_what_a_search_and_its_optimizer_took_is_read_off_its_result() -> None:
    figure4 = loaded("figure4")
    assert 0.2 < figure4["own_gain"](DDS) < 0.5
    assert 0 < figure4["optimizer_seconds"](DDS) < 1
    table = figure4["the_table"]()
    assert "| dds |" in table
    assert "23.4 %" in table


def test_directions_of_changes() -> None:
    direction = loaded("agreement")["direction"]
    assert [direction(4, 8), direction(4, 1), direction(False, True), direction("a", "b")] == [
        "up",
        "down",
        "to True",
        "to b",
    ]
