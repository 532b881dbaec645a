"""The use case of plans: what runs now in another region, a gain and media beside it, and the plans that are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.capacity import records
from framework.capacity.records import PlanRecords
from framework.errors import FieldError
from framework.model import Estimate
from framework.model.capacity import Current, Interval, Need, OnDisk, ScalingPoint
from framework.use_cases.capacity import PlanRequest, plan_machines
from tests.unit.test_node_sweep import node_with

EXACTLY = Interval.exactly
CATALOGUE = """kind: machine-catalogue
version: 1
provider: p
purchase: on-demand
currency: EUR
per: hour
priced_on: "2026"
source: s
types:
  - {name: a, prices: {x: 1.0, y: 1.1}, SIZES}
  - {name: old, prices: {y: 1.0}, SIZES}
"""
SIZES = "cores: 16, ram_gib: 64, network_gbps: 25, disk_gib: 8000, disk_mb_s: 2000, iops: 500000"
NEED = Need("n", EXACTLY(1e6), EXACTLY(0.0), EXACTLY(1e11), EXACTLY(1e3), current=Current("old", 3))
RATIO = Estimate(0.5, 0.48, 0.52, 8)


@pytest.fixture
def request_of(tmp_path: Path) -> Any:
    catalogue = tmp_path / "machines.yaml"
    catalogue.write_text(CATALOGUE.replace("SIZES", SIZES))
    points = tuple(ScalingPoint(n, 1e5 * n, 1.0) for n in (1, 2, 4, 8, 16))
    asked = PlanRequest(NEED, [catalogue], reads=points, regions=("x",), draws=100)
    return lambda **changes: replace(asked, **changes)


def test_what_runs_now_may_be_elsewhere_whatever_else_is_asked(request_of: Any) -> None:
    on_disk = replace(NEED, on_disk=OnDisk(0.05, 0.8, 1e-4))
    answer = plan_machines(request_of(need=on_disk, study="s", cpu_ratio=RATIO, media=True))
    assert answer.plans.current is not None
    assert answer.plans.current.machine.region == "y"
    assert answer.gain is not None
    assert answer.media is not None
    assert any(row.disk for row in answer.media.rows)


def test_a_node_is_given_in_one_way(request_of: Any) -> None:
    for changes, says in (
        ({"reads": ()}, "reads: found 'neither points nor a measured node'"),
        ({"node": node_with(2)}, "reads: found 'points beside a measured node'"),
        ({"node": node_with(2), "reads": (), "writes": (ScalingPoint(1, 1.0),)}, "writes: found 'points beside"),
    ):
        with pytest.raises(FieldError, match=says):
            plan_machines(request_of(**changes))


def test_other_directories_beside_the_plans_are_none(
    request_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST", 2)
    kept, answer = PlanRecords(tmp_path), plan_machines(request_of())
    for name in ("backup", "20260101-120000-b", "2026"):
        (tmp_path / "plans" / name).mkdir(parents=True)
        (tmp_path / "plans" / name / "plan.json").write_text("{}")
    names = [kept.add(answer) for _ in range(3)]
    assert kept.ids() == names[:0:-1]
    assert (tmp_path / "plans" / "backup" / "plan.json").exists()


def test_a_plan_that_another_process_forgets_first_is_no_error(
    request_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, answer = PlanRecords(tmp_path), plan_machines(request_of())
    kept.add(answer)
    gone = "20200101-000000"
    monkeypatch.setattr(records, "MOST", 1)
    monkeypatch.setattr(PlanRecords, "ids", lambda self: ["20990101-000000", gone])
    assert kept.add(answer) != gone
