"""Another planner's kept answers (experiments/second-opinion): where ours differ, it is where requests wait."""

from __future__ import annotations

import json
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "second-opinion"


@pytest.fixture(scope="module")
def compared() -> dict[str, dict[str, Any]]:
    loader = SourceFileLoader("second_opinion", str(EXPERIMENT / "run"))
    spec = spec_from_loader("second_opinion", loader)
    assert spec is not None
    experiment = module_from_spec(spec)
    loader.exec_module(experiment)
    rows = experiment.compare(json.loads((EXPERIMENT / "results" / "theirs.json").read_text()))
    return {row["need"]: row for row in rows}


def test_the_kept_comparison_is_todays(compared: dict[str, dict[str, Any]]) -> None:
    kept = json.loads((EXPERIMENT / "results" / "compared.json").read_text())
    assert kept == json.loads(json.dumps(list(compared.values())))


@pytest.mark.parametrize("need", ["memory", "network"])
def test_both_planners_agree_where_no_core_binds(compared: dict[str, dict[str, Any]], need: str) -> None:
    least, _, most = compared[need]["ratio of nodes"]
    assert 0.85 <= least <= most <= 1.05


@pytest.mark.parametrize("need", ["cpu", "two copies", "no state"])
def test_where_cores_bind_they_differ_by_where_requests_wait(compared: dict[str, dict[str, Any]], need: str) -> None:
    _, pooled, _ = compared[need]["with one queue for all nodes"]
    assert 0.95 <= pooled <= 1.05
    assert compared[need]["ratio of nodes"][1] > 1.3
