"""Every experiment's runner can be started, and its evaluation works on the results that are kept."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.studies import at_one_speed, between

ROOT = Path(__file__).resolve().parents[2]
RUNNERS = sorted(
    path for path in (ROOT / "experiments").rglob("run") if path.read_text().startswith("#!/usr/bin/env python3")
)
SHORT = {"agreement"}  # their runners take no options
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


def side_by_side(slope: float) -> dict[str, Any]:
    """Return ten groups measured on a machine that gets slower; ``b`` takes 0.8 of ``a``'s time."""

    def trial(label: str, group: int, value: float) -> dict[str, Any]:
        tick = 40.0 * 1.1**group * (1.3 if label == "b" else 1.0)
        measurement = {"value": 1.0, "invalid": [], "tick_us": tick}
        value *= (tick / 40.0) ** slope
        return {"purpose": "verdict", "label": label, "pair": group, "value": value, "measurements": [measurement]}

    trials = [trial(label, group, value) for group in range(10) for label, value in (("a", 10.0), ("b", 8.0))]
    return {"trials_detail": trials, "equal_speed": {"sensitivity": {"slope": slope}}}


def test_two_arms_are_compared_directly_and_at_equal_speed() -> None:
    said = between(side_by_side(1.5), "a", "b")
    assert said.startswith("a to b: worse, gain -18.6 %"), said  # 0.8 x 1.3 ** 1.5, as it was measured
    assert "at equal speed improvement, gain +20.0 % [+20.0, +20.0]" in said


def test_a_group_that_an_arm_misses_counts_for_no_arm_at_equal_speed() -> None:
    document = side_by_side(1.0)
    document["trials_detail"].pop()
    levels = at_one_speed(document)
    assert {name: len(groups) for name, groups in levels.items()} == {"a": 9, "b": 9}
    assert at_one_speed({**document, "equal_speed": None}) == {}


def test_ranks_of_arms_and_how_far_apart_they_must_be() -> None:
    figure4 = loaded("figure4")
    levels = {name: {group: float(place) for group in range(10)} for place, name in enumerate("abc")}
    assert figure4["mean_ranks"](levels) == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert "p = 0.000; two differ where their mean ranks are more than 1.0 apart" in figure4["differences"](levels)


def test_changes_by_random_configurations_are_computed() -> None:
    drawn = loaded("agreement")["chances"]({"cores": 2, "memory_mib": 24_105}, {"nginx.upstream_keepalive": 0})
    assert drawn["nginx.upstream_keepalive"]["up"] > 0.5
    assert not drawn["nginx.upstream_keepalive"]["down"]
