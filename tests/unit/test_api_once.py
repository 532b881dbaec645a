"""One request, one outcome: launches with keys, and stops and resumptions at the same time.  A real server."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from framework.client import Client as ApiClient
from framework.config.content import content_hash
from framework.model import StudyState
from framework.study.imported import IMPORTED
from tests.serving import JOB, PATIENCE_S, Here, serving
from tests.unit.test_api_bodies import EXTERNAL


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


def ids(here: Here) -> list[str]:
    return [study["study"] for study in here.get("/studies")["items"]]


def test_a_key_that_comes_with_another_body_makes_nothing(here: Here) -> None:
    for path, body, other in (
        ("/v1/studies", JOB, {**JOB, "seed": 9}),
        ("/v1/external", EXTERNAL, {**EXTERNAL, "seed": 9}),
    ):
        keyed = {"Idempotency-Key": f"key of {path}"}
        first = here.client.post(path, json=body, headers=keyed)
        before = ids(here)
        refused = here.client.post(path, json=other, headers=keyed)
        assert refused.status_code == 422
        assert "another request" in refused.json()["detail"]
        again = here.client.post(path, json=body, headers=keyed)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["study"] == first.json()["study"]
        assert ids(here) == before
    crossed = here.client.post("/v1/external", json=EXTERNAL, headers={"Idempotency-Key": "key of /v1/studies"})
    assert crossed.status_code == 422, "another kind of request is another request"
    jobs = [job.study for job in here.kept.queue.jobs()]
    launched = [study["study"] for study in here.get("/studies")["items"] if study["testbed"] != "external"]
    assert jobs == launched, "every study that waits for a worker has its job"


def test_many_with_one_key_at_the_same_time_make_one_study_with_its_job(here: Here) -> None:
    def launch(seed: int) -> tuple[int, str]:
        answer = here.client.post("/v1/studies", json={**JOB, "seed": seed}, headers={"Idempotency-Key": "k"})
        return answer.status_code, answer.json().get("study", "")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(launch, [1, 1, 2, 2, 1, 2, 1, 2]))
    assert [status for status, _ in answers].count(201) == 1
    assert {status for status, _ in answers} <= {200, 201, 422}
    assert {study for _, study in answers if study} == set(ids(here))
    assert [job.study for job in here.kept.queue.jobs()] == ids(here)


def test_what_was_made_is_found_though_its_application_is_gone(here: Here) -> None:
    keyed = {"Idempotency-Key": "k"}
    first = here.client.post("/v1/studies", json=JOB, headers=keyed)
    shutil.rmtree(here.roots[0] / "url-shortener")
    again = here.client.post("/v1/studies", json=JOB, headers=keyed)
    assert (again.status_code, again.json()["study"]) == (200, first.json()["study"])


def test_a_request_that_is_refused_uses_up_no_key(here: Here) -> None:
    keyed = {"Idempotency-Key": "k"}
    assert here.client.post("/v1/studies", json={**JOB, "only": ["nothing"]}, headers=keyed).status_code == 422
    assert here.client.post("/v1/studies", json=JOB, headers=keyed).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 129, "a\x7fb"])
def test_a_key_is_short_and_plain(here: Here, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}
    assert here.client.post("/v1/studies", json=JOB, headers=headers).status_code in (400, 422)
    assert ids(here) == []


def test_the_client_sends_keys_for_external_studies(here: Here) -> None:
    with ApiClient(str(here.client.base_url)) as client:
        asked = {name: value for name, value in EXTERNAL.items() if name not in ("name", "parameters")}
        first = client.create("ours", EXTERNAL["parameters"], key="k", **asked)
        assert client.create("ours", EXTERNAL["parameters"], key="k", **asked) == first
        [trial] = client.ask(first, "me")
        client.tell(first, trial.trial, None, why="no memory:\n\x1b[31m  killed")


def test_an_external_study_runs_from_its_beginning(here: Here) -> None:
    study = here.client.post("/v1/external", json=EXTERNAL).json()["study"]
    assert here.get(f"/studies/{study}")["state"] == "running"
    assert [event["kind"] for event in here.kept.store.events(study)] == ["state"]


def test_stops_and_resumptions_at_the_same_time(here: Here) -> None:
    """After every round of simultaneous requests there is a job, unless a stop was answered last."""
    study = here.launch(iterations=400)
    working = threading.Thread(target=here.kept.worker.run)
    working.start()

    def send(action: str) -> tuple[str, int]:
        return action, here.client.post(f"/v1/studies/{study}/{action}", json={}).status_code

    try:
        for _ in range(6):
            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(send, ["stop", "resume", "stop", "resume"]))
            assert {status for action, status in answers if action == "resume"} == {202}
            assert {status for action, status in answers if action == "stop"} <= {202, 404}
            assert send("resume") == ("resume", 202)
            before = len(here.kept.store.trials(study))
            grown(here, study, before)
    finally:
        here.kept.worker.leave()
        working.join(PATIENCE_S)


def grown(here: Here, study: str, trials: int) -> None:
    """Wait until the study has more trials; fail where it is paused and has no job."""
    waited = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if len(here.kept.store.trial_page(study, 0, 1000)) > trials:
            return
        jobs = [(job.study, job.stop) for job in here.kept.queue.jobs()]
        assert jobs == [(study, "")], f"it was resumed, and is {here.kept.store.get(study).state}"
        waited.wait(0.05)
    raise AssertionError("it does not go on")


def test_resume_looks_at_the_compose_file_as_launch_does(here: Here) -> None:
    study = here.launch()
    here.client.post(f"/v1/studies/{study}/stop", json={})
    compose = here.roots[0] / "url-shortener" / "compose.yaml"
    compose.write_text(compose.read_text().replace("  nginx:\n", "  nginx:\n    privileged: true\n", 1))
    answer = here.client.post(f"/v1/studies/{study}/resume", json={})
    assert answer.status_code == 422
    assert "services.nginx.privileged" in answer.json()["detail"]
    assert here.kept.queue.jobs() == []


def imported(here: Here, hostile: bool) -> str:
    """Make a paused study whose application lies in its import directory, with the right hash."""
    study = here.launch()
    here.client.post(f"/v1/studies/{study}/stop", json={})
    store, home = here.kept.store, here.kept.sharing.home
    where = home / IMPORTED / study / "url-shortener"
    shutil.copytree(here.roots[0] / "url-shortener", where)
    if hostile:
        compose = where / "compose.yaml"
        wanted = "  nginx:\n    privileged: true\n    volumes: ['/:/host']\n"
        compose.write_text(compose.read_text().replace("  nginx:\n", wanted, 1))
    kept = store.get(study)
    store.delete(study)
    plan = {name: getattr(kept.plan, name) for name in kept.plan.__dataclass_fields__}
    values: dict[str, Any] = {name: getattr(kept, name) for name in kept.__dataclass_fields__}
    values |= {
        "plan": type(kept.plan)(**{**plan, "application": str(where)}),
        "application_hash": content_hash(where),
    }
    store.create(type(kept)(**values))
    return study


@pytest.mark.parametrize("hostile", [False, True])
def test_what_came_with_an_import_is_never_run(here: Here, hostile: bool) -> None:
    study = imported(here, hostile)
    answer = here.client.post(f"/v1/studies/{study}/resume", json={})
    assert answer.status_code == 422
    assert "came without its application" in answer.json()["detail"]
    assert here.kept.queue.jobs() == [], "no job is made"
    here.kept.queue.put(study)  # as an older version did on resume
    here.kept.worker.run(until_empty=True)
    assert here.kept.store.get(study).state is StudyState.CREATED
    assert here.kept.store.trials(study) == []
    assert here.kept.queue.jobs() == []
