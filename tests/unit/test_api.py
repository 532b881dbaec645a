"""The REST API on a twin made by hand: studies are launched, watched, compared and downloaded without an engine."""

from __future__ import annotations

import io
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework import errors
from framework.api.access import TOKENS_TTL_S, new_token
from framework.api.middleware import MOST_BYTES
from framework.api.problems import status_of
from framework.client import Client as ApiClient
from framework.client import Refused
from framework.config.application import load_application
from framework.model import DEFAULT_OPTIMIZER
from framework.report.summary_json import summary_document
from tests.serving import JOB, Here, serving
from tests.unit.test_modelling import profile_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


def test_a_job_from_launch_to_download(here: Here) -> None:
    study = here.launch()
    waiting = here.get(f"/studies/{study}")
    assert (waiting["state"], waiting["job"]["worker"]) == ("created", "")
    here.kept.worker.run(until_empty=True)
    done = here.get(f"/studies/{study}")
    assert done["state"] == "completed"
    assert done["modelled"] is True
    assert done["job"] is None
    same = summary_document(here.kept.results.summary(here.kept.store.get(study)))
    assert done["headline"] == same["headline"], "as the command line says it"
    trials = here.get(f"/studies/{study}/trials?limit=2")
    assert [trial["number"] for trial in trials["items"]] == [1, 2]
    assert here.get(f"/studies/{study}/trials?after={trials['next']}&limit=200")["items"][0]["number"] == 3
    fresh = here.get(f"/studies/{study}/trials?purpose=verdict&state=completed&limit=200")["items"]
    assert {trial["purpose"] for trial in fresh} == {"verdict"}
    assert len(fresh) == 12, "six pairs"
    here.get(f"/studies/{study}/trials/1000", 404)
    whole = here.client.get(f"/v1/studies/{study}/export")
    assert zipfile.is_zipfile(io.BytesIO(whole.content))
    trial = here.get(f"/studies/{study}/trials/1")
    assert trial["measurements"][0]["quantities"]["p95"]["value"] > 0
    assert here.get(f"/studies/{study}/best")["trial"] == done["best"]["trial"]
    page = here.client.get(f"/v1/studies/{study}/report")
    assert "Modelled, not measured" in page.text
    archive = here.client.get(f"/v1/studies/{study}/best.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as file:
        assert f"{study}/compose.yaml" in file.getnames()
    groups = here.get(f"/compare?first={study}:default&second={study}")
    assert groups["first"].endswith("(modelled)")
    assert groups["groups"]["first_ms"]["value"] > 0
    metrics = here.client.get("/v1/metrics").text
    assert 'tailor_studies{state="completed"} 1' in metrics


def test_lists_have_filters_and_pages(here: Here) -> None:
    made = [here.launch(optimizer=name) for name in ("dds", "random", "dds")]
    first = here.get("/studies?limit=2")
    assert len(first["items"]) == 2
    rest = here.get(f"/studies?limit=2&after={first['next']}")
    assert sorted(study["study"] for study in first["items"] + rest["items"]) == sorted(made)
    assert rest["next"] is None
    assert len(here.get("/studies?optimizer=dds")["items"]) == 2
    assert here.get("/studies?application=url-shortener&state=created&testbed=docker")["items"] == []


def test_an_idempotency_key_makes_one_study(here: Here) -> None:
    keyed = {"Idempotency-Key": "k1"}
    first = here.client.post("/v1/studies", json=JOB, headers=keyed)
    again = here.client.post("/v1/studies", json=JOB, headers=keyed)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["study"] == again.json()["study"]
    assert [job.study for job in here.kept.queue.jobs()] == [first.json()["study"]]
    assert len(here.get("/studies")["items"]) == 1
    other = here.client.post("/v1/studies", json={**JOB, "seed": 9}, headers=keyed)
    assert other.status_code == 422


def test_stop_resume_delete(here: Here) -> None:
    study = here.launch()
    assert here.client.post(f"/v1/studies/{study}/stop", json={"when": "now"}).status_code == 202
    assert here.get(f"/studies/{study}")["job"] is None
    assert here.client.post(f"/v1/studies/{study}/resume", json={}).status_code == 202
    here.kept.worker.run(until_empty=True)
    assert here.get(f"/studies/{study}")["state"] == "completed"
    assert here.client.post(f"/v1/studies/{study}/resume", json={}).status_code == 409
    assert here.client.delete(f"/v1/studies/{study}").status_code == 204
    here.get(f"/studies/{study}", 404)


DONE = '"kind": "state", "state": "completed"'


def events_until(here: Here, study: str, until: str, **headers: str) -> list[tuple[int, str]]:
    """Pairs (id, kind) of a study's events, up to the event whose data contain ``until``."""
    events = []
    with here.client.stream("GET", f"/v1/studies/{study}/events", headers=headers, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        identity = 0
        for line in answer.iter_lines():
            if line.startswith("id: "):
                identity = int(line[4:])
            if line.startswith("event: "):
                events.append((identity, line[7:]))
                identity = 0
            if line.startswith("data: ") and until in line:
                return events
    return events


def test_events_come_live_and_again(here: Here) -> None:
    study = here.launch()
    working = threading.Thread(target=here.kept.worker.run, kwargs={"until_empty": True})
    working.start()
    live = events_until(here, study, DONE)
    working.join()
    kinds = [kind for _, kind in live]
    assert kinds.count("trial-begins") == kinds.count("trial-ends") > 10
    assert "progress" in kinds
    kept = [event for event in live if event[0]]
    assert [identity for identity, _ in kept] == sorted({identity for identity, _ in kept}), "each once, in order"
    assert [event for event in events_until(here, study, DONE) if event[0]] == kept, "the same again afterwards"
    from_there = kept[len(kept) // 2][0]
    rest = events_until(here, study, DONE, **{"Last-Event-ID": str(from_there)})
    assert [event for event in rest if event[0]] == [event for event in kept if event[0] > from_there]
    for text in (b"x", b"-1", b"\xb2", b"9" * 30):  # the third: a superscript digit, which int() refuses
        answer = here.client.get(f"/v1/studies/{study}/events", headers={b"Last-Event-ID": text})
        assert answer.status_code == 422, text
    here.get("/studies/nothing/events", 404)


def test_a_placement_by_the_kept_profile(here: Here) -> None:
    job = {
        "optimizer": "placement-exact",
        "placement": "only",
        "profile": True,
        "only": ["url-shorten", "url-shorten-db"],
    }
    refused = here.client.post("/v1/studies", json={**JOB, **job})
    assert refused.status_code == 409
    assert "no profile of url-shortener is kept here" in refused.json()["detail"]
    path = here.kept.profiles.path(load_application(here.roots[0] / "url-shortener"))
    path.parent.mkdir(parents=True)
    profile_of(path)
    assert here.get("/applications")["items"][0]["profile"] is True
    study = here.launch(**{**job, "iterations": 1})
    here.kept.worker.run(until_empty=True)
    trials = here.get(f"/studies/{study}/trials?limit=200")["items"]
    [searched] = [trial for trial in trials if trial["purpose"] == "search"]
    assert set(searched["configuration"].values()) == {"0", "1"}, "they harm each other"


def test_catalogue(here: Here) -> None:
    [application] = here.get("/applications")["items"]
    assert application["twin"] is True
    parameters = here.get("/applications/url-shortener")["parameters"]
    assert "nginx.worker_processes" in {parameter["name"] for parameter in parameters}
    assert "dds" in {optimizer["name"] for optimizer in here.get("/optimizers")["items"]}
    assert here.get("/search-spaces/nginx")["name"] == "nginx"
    assert here.get("/health")["status"] == here.get("/ready")["status"] == "ok"
    assert here.get("/machine")["machine"]["cores"] >= 1
    assert here.get("/openapi.json")["info"]["title"] == "Tailor"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({**JOB, "application": "../../etc"}, "unknown application"),
        ({**JOB, "optimizer": "magic"}, "unknown optimizer"),
        ({**JOB, "iterations": 0}, "body.iterations"),
        ({**JOB, "surprise": 1}, "body.surprise"),
        ({**JOB, "only": ["nothing"]}, "unknown service"),
        ({}, "body.application"),
    ],
)
def test_bad_jobs_are_problems(here: Here, body: dict[str, Any], says: str) -> None:
    answer = here.client.post("/v1/studies", json=body)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert "/tmp" not in answer.text


def test_what_is_too_long_is_refused(here: Here) -> None:
    answer = here.client.post("/v1/studies", content=b"x" * (MOST_BYTES + 1))
    assert answer.status_code == 413
    assert here.client.get("/v1/nothing").json()["title"] == "Not Found"


def test_tokens_have_scopes(here: Here) -> None:
    tokens = {}
    for scope in ("read", "run", "admin"):
        tokens[scope], digest = new_token()
        here.kept.tokens.add(scope, digest, scope)

    def ask(method: str, path: str, scope: str, **more: Any) -> int:
        headers = {"Authorization": f"Bearer {tokens[scope]}"} if scope else {}
        return int(here.client.request(method, f"/v1{path}", headers=headers, **more).status_code)

    assert ask("GET", "/health", "") == 200
    assert ask("GET", "/studies", "") == 401
    assert ask("GET", "/studies", "read") == 200
    assert ask("POST", "/studies", "read", json=JOB) == 403
    assert ask("POST", "/studies", "run", json=JOB) == 201
    [study] = here.client.get("/v1/studies", headers={"Authorization": f"Bearer {tokens['read']}"}).json()["items"]
    assert ask("DELETE", f"/studies/{study['study']}", "run") == 403
    assert ask("DELETE", f"/studies/{study['study']}", "admin") == 204
    assert all(token not in str(here.kept.tokens.tokens()) for token in tokens.values()), "kept as digests only"


def test_every_error_has_a_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TailorError)]
    for kind in kinds:
        if kind is not errors.TailorError:
            assert status_of(kind.__new__(kind)) >= 400


def test_the_dashboard_is_behind_a_token_too(here: Here) -> None:
    assert "Studies" in here.client.get("/").text
    token, digest = new_token()
    here.kept.tokens.add("ann", digest, "run")
    time.sleep(TOKENS_TTL_S)
    html = {"Accept": "text/html"}
    asked = here.client.get("/", headers=html)
    assert (asked.status_code, asked.headers["location"]) == (303, "/login")
    assert here.client.post("/login", data={"token": "wrong"}).status_code == 401
    entered = here.client.post("/login", data={"token": token})
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "ann: leave" in here.client.get("/", headers=html).text, "the client kept the cookie"
    elsewhere = {"Origin": "http://evil.example"}
    assert here.client.post("/v1/studies", json=JOB, headers=elsewhere).status_code == 403
    page = here.client.get("/launch")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert here.client.get("/static/../app.py").status_code == 404


SPACE: list[dict[str, Any]] = [
    {"name": "web.threads", "kind": "integer", "default": 8, "low": 1, "high": 64, "scale": "log"},
    {"name": "web.policy", "kind": "categorical", "default": "lru", "choices": ["lru", "lfu", "random"]},
    {"name": "db.ratio", "kind": "real", "default": 0.5, "low": 0, "high": 1, "group": "db"},
]


def post(here: Here, path: str, body: Any, status: int = 200) -> Any:
    answer = here.client.post(f"/v1/external{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def value(configuration: Any) -> float:
    return float(10 + abs(configuration["web.threads"] - 20) + 5 * configuration["db.ratio"])


def test_ask_and_tell(here: Here) -> None:
    made = post(here, "", {"name": "mine", "parameters": SPACE, "budget": 12, "optimizer": "dds"}, 201)
    study = made["study"]
    assert made["default"]["web.threads"] == 8
    for _ in range(3):
        asked = post(here, f"/{study}/ask", {"client": "a", "count": 3})["trials"]
        results = [{"trial": trial["trial"], "value": value(trial["configuration"])} for trial in asked]
        post(here, f"/{study}/tell", {"results": results[::-1]})
        post(here, f"/{study}/tell", {"results": results})
    looked = here.get(f"/external/{study}")
    assert looked["best"]["value"] == min(t.value for t in here.kept.store.trials(study) if t.value is not None)
    [trial] = post(here, f"/{study}/ask", {"client": "a"})["trials"]
    post(here, f"/{study}/tell", {"results": [{"trial": trial["trial"], "value": None}]}, 422)
    post(here, f"/{study}/tell", {"results": [{"trial": trial["trial"], "state": "failed", "reason": "no memory"}]})
    post(here, f"/{study}/tell", {"results": [{"trial": trial["trial"], "value": 3.0}]}, 409)
    post(here, f"/{study}/tell", {"results": [{"trial": 99, "value": 3.0}]}, 404)
    assert len(post(here, f"/{study}/ask", {"client": "a", "count": 50})["trials"]) == 2, "the budget ends"
    assert here.get(f"/studies/{study}")["testbed"] == "external"
    assert "measured elsewhere" in here.client.get(f"/studies/{study}").text
    post(here, f"/{study}/finish", {}, 204)
    post(here, f"/{study}/ask", {"client": "a"}, 409)


def test_limits_and_further_objectives_of_an_external_study(here: Here) -> None:
    goals = {"subject_to": ["errors <= 0.01"], "also": ["cpu"]}
    post(here, "", {"name": "mine", "parameters": SPACE, "subject_to": ["errors"]}, 422)
    study = post(here, "", {"name": "mine", "parameters": SPACE, "budget": 12} | goals, 201)["study"]
    assert here.get(f"/external/{study}")["best"] is None
    asked = post(here, f"/{study}/ask", {"client": "a", "count": 3})["trials"]
    told = [(7.0, 0.02, 1.0), (8.0, 0.0, 2.0), (9.0, 0.0, 1.5)]
    results = [
        {"trial": trial["trial"], "value": ms, "quantities": {"errors": errors, "cpu": cpu}, "costs": {"web": 10 * cpu}}
        for trial, (ms, errors, cpu) in zip(asked, told, strict=True)
    ]
    post(here, f"/{study}/tell", {"results": [results[0] | {"costs": {"queue": 1.0}}]}, 422)
    post(here, f"/{study}/tell", {"results": results})
    looked = here.get(f"/external/{study}")
    assert (looked["best"]["trial"], looked["best"]["keeps_limits"]) == (2, True)
    assert [trial["trial"] for trial in looked["front"]] == [2, 3]
    assert looked["front"][1]["quantities"] == {"errors": 0.0, "cpu": 1.5}


def test_the_trial_of_a_client_that_vanished_is_offered_again(here: Here) -> None:
    study = post(here, "", {"name": "mine", "parameters": SPACE, "optimizer": "random"}, 201)["study"]
    lost, kept = post(here, f"/{study}/ask", {"client": "a", "count": 2, "lease_s": 0.01})["trials"]
    assert post(here, f"/{study}/heartbeat", {"client": "a", "trials": [kept["trial"]]})["renewed"] == [kept["trial"]]
    time.sleep(0.05)
    [again] = post(here, f"/{study}/ask", {"client": "c"})["trials"]
    assert again == lost
    beat = post(here, f"/{study}/heartbeat", {"client": "a", "trials": [lost["trial"]]})
    assert beat == {"renewed": [], "lost": [lost["trial"]]}


def test_another_process_goes_on_by_replay(here: Here, tmp_path: Path) -> None:
    study = post(here, "", {"name": "mine", "parameters": SPACE, "optimizer": "tailor", "budget": 9}, 201)["study"]
    for _ in range(4):
        [trial] = post(here, f"/{study}/ask", {"client": "a"})["trials"]
        post(here, f"/{study}/tell", {"results": [{"trial": trial["trial"], "value": value(trial["configuration"])}]})
    here.kept.external.leave(study)  # its optimizer is dropped, as if another process went on
    [after] = post(here, f"/{study}/ask", {"client": "a"})["trials"]
    twin = post(here, "", {"name": "mine", "parameters": SPACE, "optimizer": "tailor", "budget": 9}, 201)["study"]
    for _ in range(5):
        [trial] = post(here, f"/{twin}/ask", {"client": "a"})["trials"]
        post(here, f"/{twin}/tell", {"results": [{"trial": trial["trial"], "value": value(trial["configuration"])}]})
    assert trial["configuration"] == after["configuration"]
    kinds = [event["kind"] for event in here.kept.store.events(study)]
    assert "replay diverged" not in kinds


def test_an_invalid_space_is_refused(here: Here) -> None:
    wrong = [{**SPACE[0], "low": 100}]
    said = post(here, "", {"name": "mine", "parameters": wrong}, 422)
    assert "web.threads" in said["detail"]


def test_a_compose_file_may_not_lead_out_of_its_containers(here: Here) -> None:
    [root] = here.roots
    compose = root / "url-shortener" / "compose.yaml"
    compose.write_text(compose.read_text().replace("  nginx:\n", "  nginx:\n    privileged: true\n", 1))
    answer = here.client.post("/v1/studies", json=JOB)
    assert answer.status_code == 422
    assert "services.nginx.privileged" in answer.json()["detail"]
    [listed] = here.get("/applications")["items"]
    assert listed["asks_for"] == ["services.nginx.privileged"], "the list says why, and is there"
    assert "asks for services.nginx.privileged" in here.client.get("/launch").text


def test_the_client(here: Here) -> None:
    with ApiClient(str(here.client.base_url)) as client:
        study = client.launch(key="k", **JOB)
        assert client.launch(key="k", **JOB) == study
        here.kept.worker.run(until_empty=True)
        assert client.wait(study)["headline"].startswith("Modelled")
        assert [row["study"] for row in client.studies(optimizer=DEFAULT_OPTIMIZER)] == [study]
        assert len(list(client.trials(study))) > 10
        assert zipfile.is_zipfile(io.BytesIO(client.export(study)))
        mine = client.create("mine", SPACE, optimizer="random", budget=3)
        for asked in client.ask(mine, "me", 3):
            assert client.heartbeat(mine, "me", [asked.trial]) == []
            measured = value(asked.configuration) if asked.trial != 2 else None
            client.tell(mine, asked.trial, measured, quantities={"errors": 0.0}, costs={"web": 5.0})
        assert [trial["costs"] for trial in client.trials(mine)] == 3 * [{"web": 5.0}]
        assert client.ask(mine, "me") == []
        with pytest.raises(Refused, match="404: no study"):
            client.study("nothing")


def test_names_are_text_on_a_page(here: Here) -> None:
    made = post(here, "", {"name": "<script>alert(1)", "parameters": SPACE, "optimizer": "random"}, 201)
    page = here.client.get(f"/studies/{made['study']}").text
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
