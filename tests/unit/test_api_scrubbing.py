"""Answers over HTTP name no path, no address of a database, and no content of a file."""

from __future__ import annotations

import inspect
import io
import logging
import shutil
import socket
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework import errors
from framework.api.events import as_text
from framework.api.problems import problem
from framework.api.scrubbing import detail_of, scrubbed
from framework.model import StudyState
from tests.serving import JOB, PATIENCE_S, Here, serving
from tests.unit.test_sharing import SMALL

LEAKS = ("/srv", "secret-home", "hunter2", "10.1.2.3", "postgresql://", "content of a file")
TOLD = (
    "cannot write /srv/secret-home/tailor.db: no",
    "in '/srv/secret-home/a folder/application.yaml' at",
    "postgresql+psycopg://tailor:hunter2@10.1.2.3:5432/tailor is away",
    "sqlite:////srv/secret-home/tailor.db",
    "file:///srv/secret-home/x and ~/secret-home/y",
    "(/srv/secret-home/x)",
    "path=/srv/secret-home/x.",
    "http://somebody:hunter2@web.example/x",
    "unix:///srv/secret-home/docker.sock",
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    with serving(tmp_path, monkeypatch) as server:
        yield server


def every_error(text: str) -> Iterator[errors.TailorError]:
    """Make an error of each class, with the text for every argument."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TailorError):
            if kind is errors.FileError:
                yield errors.FileError("/srv/secret-home/application.yaml", "line 12: a.b", "content of a file", text)
                continue
            if kind.__init__ is Exception.__init__:
                yield kind(text)
                continue
            arguments = inspect.signature(kind).parameters.values()
            names = [argument.name for argument in arguments if argument.kind is not argument.KEYWORD_ONLY]
            named = {argument.name: text for argument in arguments if argument.kind is argument.KEYWORD_ONLY}
            yield kind(*([text] if name in ("reasons", "known") else text for name in names), **named)


@pytest.mark.parametrize("text", TOLD)
def test_no_error_names_a_place(text: str) -> None:
    every = list(every_error(text))
    assert len(every) >= 19
    for error in every:
        for said in (detail_of(error), scrubbed(str(error)), bytes(problem(500, str(error)).body).decode()):
            assert not [leak for leak in LEAKS if leak in said], (type(error), said)


def test_what_is_left_can_be_read() -> None:
    known = {
        "body.iterations: found 0; allowed: 1 to 10000": "body.iterations: found 0; allowed: 1 to 10000",
        "at most 200 requests/s; 5/6 of them": "at most 200 requests/s; 5/6 of them",
        "/srv/a/url-shortener has no twin.json": "url-shortener has no twin.json",
        "cannot write '/srv/my home/x.db': full": "cannot write 'x.db': full",
        "see http://127.0.0.1:9411/api/v2.": "see http://127.0.0.1:9411/api/v2.",
        "it lies in /srv/a.": "it lies in a.",
    }
    assert {text: scrubbed(text) for text in known} == known
    at_line = errors.FileError("/srv/a/application.yaml", "line 12: entry", "root:x:0", "a service")
    assert detail_of(at_line) == "application.yaml, line 12, cannot be used; the server's log says more"
    whole = errors.FileError("/srv/a/application.yaml", "", "root:x:0", "one document")
    assert detail_of(whole) == "application.yaml, cannot be used; the server's log says more"
    assert scrubbed(str(at_line)) == detail_of(at_line), "also where only its text was kept"
    assert scrubbed(str(whole)) == detail_of(whole)
    assert detail_of(errors.NotFound("no study 'x'")) == "no study 'x'"
    assert "log says more" in detail_of(errors.StoreError("/srv/x is full"))


def test_the_log_has_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tailor.api")
    detail_of(errors.FileError("/srv/a/application.yaml", "line 12", "found text", "another"))
    detail_of(errors.StoreError("the disk below /srv/a is full"))
    said = [str(vars(record)["error"]) for record in caplog.records]
    assert ["found text" in said[0], "/srv/a" in said[1]] == [True, True]


def test_a_broken_application_shows_nothing_of_itself(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in {
        "one": "hunter2: [",
        "two": "kind: hunter2\n",
        "three": "%hunter2\n",
        "four": "- hunter2\n",
    }.items():
        (here.roots[0] / name).mkdir()
        (here.roots[0] / name / "application.yaml").write_text(text)
    (here.roots[0] / "five").mkdir()
    (here.roots[0] / "five" / "application.yaml").symlink_to("/etc/hostname")
    listed = here.get("/applications")
    assert set(listed["broken"]) == {"one", "two", "three", "four", "five"}
    for said in (str(listed), here.client.get("/launch").text):
        assert "hunter2" not in said
        assert Path("/etc/hostname").read_text().strip() not in said
        assert str(here.roots[0]) not in said
        assert "application.yaml, " in said
    assert "hunter2" in str([vars(record) for record in caplog.records]), "the log says what is wrong"


def test_what_a_study_failed_of_is_scrubbed(here: Here) -> None:
    study = here.launch()
    store = here.kept.store
    kept = str(errors.FileError("/srv/secret-home/application.yaml", "line 3", "content of a file", "x"))
    store.set_state(study, StudyState.FAILED, kept)
    answers: list[Any] = [
        here.get(f"/studies/{study}"),
        here.get("/studies"),
        here.client.get(f"/studies/{study}").text,
    ]
    answers += [here.client.get("/").text, *map(as_text, store.events(study))]
    for said in map(str, answers):
        assert not [leak for leak in LEAKS if leak in said], said


def test_no_answer_names_where_things_lie(here: Here, tmp_path: Path) -> None:
    study = here.launch()
    here.kept.worker.run(until_empty=True)
    paths = [f"/v1/studies/{study}{end}" for end in ("", "/trials", "/trials/1", "/best", "/report", "/critical-path")]
    paths += [f"/studies/{study}", f"/studies/{study}/body", "/", "/launch", "/compare", "/optimizers", "/v1/studies"]
    paths += ["/v1/applications", "/v1/applications/url-shortener", "/v1/machine", "/v1/search-spaces/redis"]
    paths += [f"/v1/compare?first={study}&second={study}:default", "/v1/optimizers", "/v1/metrics"]
    for path in paths:
        answer = here.client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert str(tmp_path) not in answer.text, path
    refused = here.client.post("/v1/studies", json={**JOB, "prior": "twin", "testbed": "docker"})
    assert str(tmp_path) not in refused.text


def test_what_a_compose_file_asks_for_is_named_without_its_path(here: Here, tmp_path: Path) -> None:
    """A compose file's mounts say where things lie on this machine."""
    directory = here.roots[0] / "asks"
    shutil.copytree(SMALL, directory)
    about, compose = directory / "application.yaml", directory / "compose.yaml"
    about.write_text(about.read_text().replace("name: small", "name: asks"))
    mounts = f'volumes: ["{tmp_path}/elsewhere:/e"], env_file: [{tmp_path}/elsewhere/env]'
    compose.write_text(compose.read_text().replace("cache: {", f"cache: {{{mounts}, "))
    [asks] = [about["asks_for"] for about in here.get("/applications")["items"] if about["name"] == "asks"]
    assert asks == ["services.cache.volumes: elsewhere", "services.cache.env_file: env"]
    for path in ("/v1/applications", "/v1/applications/asks", "/launch", "/launch?application=asks"):
        said = here.client.get(path).text
        assert "services.cache.volumes: elsewhere" in said
        assert str(tmp_path) not in said
    refused = here.client.post("/v1/studies", json={**JOB, "application": "asks"})
    assert refused.status_code == 422
    assert str(tmp_path) not in refused.text


def test_the_best_as_files_names_the_applications_files_from_its_directory(here: Here, tmp_path: Path) -> None:
    study = here.launch()
    here.kept.worker.run(until_empty=True)
    packed = here.client.get(f"/v1/studies/{study}/best.tar.gz").content
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        parts = {name: file.extractfile(name) for name in file.getnames()}
        texts = {name: part.read().decode() for name, part in parts.items() if part is not None}
    assert str(tmp_path) not in str(texts)
    assert "./jaeger.yaml:/etc/jaeger/jaeger.yaml:ro" in texts[f"{study}/compose.yaml"]
    assert "put these files there" in texts[f"{study}/README.md"]


def test_a_form_that_is_not_sent_to_its_end_is_no_bug(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    address = here.client.base_url
    caplog.set_level(logging.INFO)
    with socket.create_connection((address.host, address.port or 0), timeout=PATIENCE_S) as half:
        half.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken=")
    deadline = time.monotonic() + PATIENCE_S
    while not (noted := [vars(record) for record in caplog.records if vars(record).get("path") == "/login"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert [record["status"] for record in noted] == [400]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
