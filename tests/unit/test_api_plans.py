"""Plans of machines over HTTP: made, listed, shown, as JSON and as pages; what is wrong with a need is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.config.node_file import write_node
from framework.model.node_measurement import NodePoint
from tests.serving import Here, serving
from tests.unit.test_node_sweep import node_with

NEED: dict[str, Any] = {"name": "a store", "reads": "1M/s", "stored": "100GB", "record": "1KiB", "latency": "1ms"}
BODY: dict[str, Any] = {
    "need": NEED, "reads": [{"cores": 16, "rps": 1_000_000}], "regions": ["eu-west-1"], "draws": 100,
}  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path_factory.mktemp("plans"), patch) as server:
        yield server


def post(here: Here, **changes: Any) -> Any:
    return here.client.post("/v1/plans", json={**BODY, **changes})


def test_a_plan_is_made_listed_and_shown(here: Here) -> None:
    made = post(here)
    assert made.status_code == 201, made.text
    plan = made.json()["plan"]
    assert made.headers["location"] == f"/v1/plans/{plan}"
    assert made.json()["plans"]["plans"][0]["machine"]["region"] == "eu-west-1"
    assert here.get(f"/plans/{plan}") == made.json()
    listed = here.get("/plans")
    assert [item["plan"] for item in listed["items"]] == [plan]
    assert listed["items"][0]["name"] == "a store"
    assert listed["catalogues"] == ["ec2-2023-08"]
    report = here.client.get(f"/v1/plans/{plan}/report")
    assert report.status_code == 200
    assert "<svg" in report.text
    assert post(here, seed=1).json()["plan"] != plan
    page = here.client.get(f"/plans/{plan}").text
    assert "What it rests on" in page
    assert plan in here.client.get("/plans").text
    here.get("/plans/other", 404)
    here.get("/plans/..", 404)
    assert here.client.get("/plans/other").status_code == 404


def test_a_node_that_was_measured_here_is_planned_with(here: Here) -> None:
    points = tuple(NodePoint("default", "requests", n, 0, 1e5 * n, 1.01e5 * n, cpu_s={"web": 1e-5}) for n in (1, 2, 4))
    write_node(node_with(4, points=points), here.kept.backends.home / "nodes" / "shop.json")
    assert here.get("/plans")["nodes"] == ["shop"]
    made = post(here, reads=[], application="shop")
    assert made.status_code == 201, made.text
    assert made.json()["application"] == "shop"
    assert made.json()["plans"]["plans"][0]["services"][0]["service"] == "web"
    assert post(here, reads=[], application="none").json()["field"] == "application"
    assert "<option>shop</option>" in here.client.get("/plans").text


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"need": {**NEED, "reads": "10M"}}, "need.reads", "found '10M'; allowed: a rate above 0"),
        ({"need": {**NEED, "stored": 5}}, "need.stored", "found 5; allowed: bytes above 0"),
        ({"need": {"reads": "1/s"}}, "need", "the key"),
        ({"need": {**NEED, "kind": "jobs"}}, "need.kind", "found 'jobs'"),
        ({"need": {**NEED, "current": {"machine": "m9", "nodes": 2}}}, "need.current", "found 'm9'"),
        ({"need": {**NEED, "reads": "100"}}, "need.reads", "a rate above 0 per s, min, h or d, such as 10M/s"),
        ({"reads": [{"cores": 4, "rps": 100, "spread": 1e9}]}, "points", "a standard error below the rate"),
        ({"speeds": {"*Gravitonn*": [0.5]}}, "speeds", "a pattern that fits the whole name of a processor of"),
        ({"reads": []}, "reads", "found 'neither points nor a measured node'"),
        ({"application": "shop"}, "reads", "found 'points beside a measured node'"),
        (
            {"application": "shop", "reads": [], "writes": BODY["reads"]},
            "writes",
            "found 'points beside a measured node'",
        ),
        ({"catalogues": ["other"]}, "catalogues", "unknown catalogue 'other'"),
        ({"regions": ["nowhere"]}, "region", "unknown region 'nowhere'"),
        ({"speeds": {"*": [1.0, 2.0]}}, "speeds", "one speed, or low, likely and high"),
        ({"media": True}, "media", "a need without the key 'disk'"),
    ],
)
def test_what_cannot_be_planned_is_said(here: Here, changes: dict[str, Any], field: str, says: str) -> None:
    answer = post(here, **changes)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert says in problem["detail"]
    assert problem.get("field") == field
    assert str(here.kept.backends.home) not in answer.text


def test_bodies_are_checked(here: Here) -> None:
    bad: list[dict[str, Any]] = [
        {"reads": [{"cores": 0, "rps": 5}]},
        {"draws": 1e9},
        {"draws": 1},
        {"need": 5},
        {"speed": {}},
        {"confidence": 0},
    ]
    for changes in bad:
        assert post(here, **changes).status_code == 422
    assert "found an unknown key; allowed: the keys need, reads, writes," in post(here, speed={}).json()["detail"]
    assert "allowed: a JSON object" in post(here, need="reads: 1/s").json()["detail"]
    here.client.headers["content-type"] = "application/json"
    deep = "[" * 500 + "]" * 500
    answer = here.client.post("/v1/plans", content=json.dumps({**BODY, "need": {"reads": deep}}))
    assert answer.status_code == 422


def test_a_plan_that_was_damaged_is_no_bug(here: Here) -> None:
    plan = post(here, seed=5).json()["plan"]
    home: Path = here.kept.backends.home
    (home / "plans" / plan / "summary.json").write_text("{")
    assert plan not in [item["plan"] for item in here.get("/plans")["items"]]
    (home / "plans" / plan / "plan.json").write_text("{}")
    assert here.client.get(f"/v1/plans/{plan}/report").status_code == 404
