"""Bodies that are refused: paths in place of names, numbers that are not finite, text with control characters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.api.requests import NewExternal, NewStudy
from tests.serving import JOB, Here, serving

ROOT = Path(__file__).resolve().parents[2]
SECRET = "swordfish-in-a-file"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Write a file that the server can read and that no answer may show."""
    path = tmp_path / "secret"
    path.write_text(f"root:x:0:0:{SECRET}:/root:/bin/sh\nnobody:x:65534:{SECRET}:/:/bin/false\n")
    return path


EXTERNAL: dict[str, Any] = {
    "name": "ours",
    "budget": 5,
    "optimizer": "random",
    "parameters": [{"name": "a.x", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0}],
}


def refused(here: Here, path: str, body: Any) -> str:
    """Return the problem that answers a refused body, sent as JSON with NaN and Infinity as Python writes them."""
    before = len(here.get("/studies")["items"])
    content = json.dumps(body) if not isinstance(body, str) else body
    answer = here.client.post(f"/v1{path}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(here.get("/studies")["items"]) == before, "nothing was made"
    return answer.text


@pytest.mark.parametrize(
    "field",
    [
        {"reduce": "bottlenecks:{}"},
        {"reduce": "screening:{}"},
        {"reduce": "{}"},
        {"reduce": "bottlenecks", "bottlenecks": ["{}"]},
        {"history": ["{}"]},
        {"history": ["../{}"]},
        {"transfer": ["../{}"]},
        {"initial": "{}"},
        {"rivals": ["{}"]},
        {"profile": "{}", "placement": "only"},
        {"domains": "{}", "placement": "only"},
        {"only": ["{}"]},
        {"without": ["{}"]},
        {"allow_weaker": ["{}"]},
        {"prior": "{}"},
        {"testbed": "{}"},
        {"optimizer": "{}"},
        {"application": "{}"},
        {"optimizer": "serial", "options": {"inner": "{}"}},
    ],
    ids=str,
)
def test_no_field_of_a_job_reads_a_file(here: Here, secret: Path, field: dict[str, Any]) -> None:
    body = json.loads(json.dumps({**JOB, **field}).replace("{}", str(secret)))
    assert SECRET not in refused(here, "/studies", body)


def test_a_problem_names_the_field_and_no_flag(here: Here) -> None:
    for job, expected in (
        ({"testbed": "cloud"}, {"field": "testbed", "found": "cloud"}),
        ({"optimizer": "none"}, {"field": "optimizer", "found": "none"}),
        ({"pairs": 1}, {"field": "pairs", "found": 1, "allowed": "at least 2"}),
        ({"also": ["memory"]}, {"field": "also", "found": "memory"}),
        ({"pin": ["nginx=0"]}, {"field": "pin"}),
        ({"only": ["nothing"]}, {"field": "only", "found": "nothing"}),
    ):
        problem = json.loads(refused(here, "/studies", {**JOB, **job}))
        assert expected.items() <= problem.items(), problem
        assert "--" not in problem["detail"]
    known = json.loads(refused(here, "/studies", {**JOB, "testbed": "cloud"}))
    assert known["detail"].startswith("unknown testbed 'cloud'; known: auto, docker, ")
    assert "twin" in known["allowed"]


def test_bottlenecks_are_names_over_http(here: Here) -> None:
    said = refused(here, "/studies", {**JOB, "reduce": "bottlenecks", "bottlenecks": ["nothing"]})
    assert "unknown bottleneck" in said
    refused(here, "/studies", {**JOB, "reduce": "bottlenecks"})
    refused(here, "/studies", {**JOB, "bottlenecks": ["nginx"]})
    study = here.launch(reduce="bottlenecks", bottlenecks=["nginx", "nginx"])
    assert here.kept.store.get(study).plan.bottlenecks == ("nginx",)


def test_earlier_studies_are_named_by_their_ids(here: Here) -> None:
    missing = here.client.post("/v1/studies", json={**JOB, "history": ["20260101-000000-abcd"]})
    assert missing.status_code == 404
    missing = here.client.post("/v1/studies", json={**JOB, "reduce": "screening:20260101-000000-abcd"})
    assert missing.status_code == 404
    first = here.launch()
    here.kept.worker.run(until_empty=True)
    here.launch(history=[first])


NAN, INFINITE = float("nan"), float("inf")
NUMBERS = (NAN, INFINITE, -INFINITE, 10**30)


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_only_finite_numbers_are_taken(here: Here, number: float) -> None:
    for job in (
        {"options": {"candidates": number}},
        {"options": {"candidates": [1, number]}},
        {"thresholds": {"share": number}},
        {"limits": {"stolen_cpu": number}},
        {"target_ms": number},
        {"time_limit_s": number},
        {"window_s": number},
        {"rate_rps": number},
        {"rates": [1.0, number]},
        {"iterations": number},
    ):
        refused(here, "/studies", {**JOB, "optimizer": "tailor", **job})
    [parameter] = EXTERNAL["parameters"]
    for change in (
        {"low": number},
        {"high": number},
        {"step": number},
        {"default": number},
        {"kind": "categorical", "choices": [0.5, number], "low": None, "high": None},
    ):
        refused(here, "/external", {**EXTERNAL, "parameters": [parameter | change]})
    refused(here, "/external", {**EXTERNAL, "options": {"candidates": number}})
    study = here.client.post("/v1/external", json=EXTERNAL).json()["study"]
    here.client.post(f"/v1/external/{study}/ask", json={"client": "me"})
    for result in (
        {"value": number},
        {"value": 1.0, "quantities": {"x": number}},
        {"value": 1.0, "costs": {"a": number}},
    ):
        refused(here, f"/external/{study}/tell", {"results": [{"trial": 1, **result}]})
    refused(here, f"/external/{study}/ask", {"client": "me", "lease_s": number})


def test_options_are_plain_values(here: Here) -> None:
    for value in ({"a": 1}, [[1]], [{"a": 1}], [0] * 101, "x" * 501):
        refused(here, "/studies", {**JOB, "options": {"candidates": value}})


TEXTS = ("a\0b", "a\x1b[31mb", "a\nb", "a\x85b", "a\x7f", "\ud800", "b\udfff")


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_only_plain_text_is_taken(here: Here, text: str) -> None:
    for job in (
        {"application": text},
        {"optimizer": text},
        {"only": [text]},
        {"pin": [text]},
        {"domains": text},
        {"history": [text]},
        {"reduce": text},
        {"also": [text]},
        {"options": {"x": text}},
        {"options": {text: 1}},
        {"limits": {text: 1}},
        {text: 1},
    ):
        refused(here, "/studies", {**JOB, **job})
    refused(here, "/external", {**EXTERNAL, "name": text})
    [parameter] = EXTERNAL["parameters"]
    refused(here, "/external", {**EXTERNAL, "parameters": [parameter | {"name": text}]})
    refused(here, "/external", {**EXTERNAL, "parameters": [parameter | {"group": text}]})
    study = here.client.post("/v1/external", json=EXTERNAL).json()["study"]
    refused(here, f"/external/{study}/ask", {"client": text})
    refused(here, f"/external/{study}/tell", {"results": [{"trial": 1, "state": "failed", "reason": text}]})
    refused(here, f"/external/{study}/heartbeat", {"client": text, "trials": []})


@pytest.mark.parametrize("query", ["a%00b", "%1b[31m", "a%0Ab", "%c2%85", "%7f"])
def test_only_plain_text_is_taken_in_a_query(here: Here, query: str) -> None:
    for path in ("/studies?application=", "/studies?after=", "/studies?optimizer=", "/compare?second=x&first="):
        here.get(f"{path}{query}", 422)
    here.get(f"/studies?{query}=1", 422)
    here.get(f"/studies/{query}", 422)
    for page in ("/?application=", "/compare?first=", "/launch?application="):
        assert here.client.get(f"{page}{query}").status_code == 422


def test_other_languages_are_plain_text(here: Here) -> None:
    answer = here.client.post("/v1/external", json={**EXTERNAL, "name": "größer als Ωμέγα 🚀"})
    assert answer.status_code == 201
    assert here.get("/studies?application=größer")["items"] == []


@pytest.mark.parametrize("name", ["/etc/passwd", "../../x", "a/b", "..\\x", "."])
def test_the_name_of_an_external_study_is_no_path(here: Here, name: str) -> None:
    refused(here, "/external", {**EXTERNAL, "name": name})


def test_what_needs_an_application_says_that_an_external_study_has_none(here: Here, tmp_path: Path) -> None:
    (tmp_path / "etc").write_text(SECRET)
    study = here.client.post("/v1/external", json=EXTERNAL).json()["study"]
    here.client.post(f"/v1/external/{study}/ask", json={"client": "me"})
    here.client.post(f"/v1/external/{study}/tell", json={"results": [{"trial": 1, "value": 2.0}]})
    store = here.kept.store
    for name in ("ours", str(tmp_path / "etc")):  # an older version took the second name, a path
        kept = store.get(study)
        study = f"{kept.id[:-4]}{len(name):04x}"
        store.create(replace(kept, id=study, plan=replace(kept.plan, application=name)))
        for path in ("report", "best", "best.tar.gz", "critical-path"):
            said = here.get(f"/studies/{study}/{path}", 409)
            assert "measured elsewhere" in said["detail"]
        assert "measured elsewhere" in here.get(f"/compare?first={study}&second={study}", 409)["detail"]
        assert here.client.get(f"/v1/studies/{study}/export").status_code == 200
        assert here.get(f"/studies/{study}")["application"] == name
        for page in (f"/studies/{study}", "/", "/optimizers", f"/compare?first={study}&second={study}"):
            answer = here.client.get(page)
            assert answer.status_code == 200
            assert SECRET not in answer.text
    assert here.client.get(f"/studies/{study}/body").status_code == 409
    assert here.client.post(f"/v1/studies/{study}/resume", json={}).status_code == 409


def test_no_code_takes_the_text_of_a_plan_for_a_path() -> None:
    """Only the model knows what the application of a plan is; everything else asks the study."""
    for path in (ROOT / "framework").rglob("*"):
        if path.suffix in (".py", ".html") and path != ROOT / "framework" / "model" / "study.py":
            text = path.read_text()
            assert "plan.application" not in text, f"{path.relative_to(ROOT)}: use Study.directory or application_name"


def test_the_schemas_say_what_is_allowed() -> None:
    for kind in (NewStudy, NewExternal):
        assert kind.model_json_schema()["additionalProperties"] is False
    assert "bottlenecks" in NewStudy.model_json_schema()["properties"]
