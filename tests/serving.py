"""A real web server on a port of its own, for tests of what it serves."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from framework.api.app import app_of
from framework.api.connections import Limits
from framework.api.listening import listening_on
from framework.api.server import server_of
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.config.twin_file import twin_path, twin_text
from tests.unit.test_twin_testbed import SLICE, TWIN

PATIENCE_S = 300.0  # with an answer: its time says something about the machine; longer than any limit of the service


@contextmanager
def served(app: Any, limits: Limits | None = None) -> Iterator[str]:
    """The address of ``app``, on the server that ``tailor serve`` runs."""
    listening = listening_on("127.0.0.1", 0)
    server = server_of(app, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


JOB: dict[str, Any] = {
    "application": "url-shortener", "testbed": "twin", "iterations": 3, "repetitions": 2, "pairs": 6, "window_s": 4,
    "warmup_s": 1, "rate_rps": 200, "drift_every": 0, "minimal": 0,
}  # fmt: skip


@dataclass
class Here:
    client: Client
    kept: Opened
    roots: tuple[Path, ...]

    def launch(self, **changes: Any) -> str:
        answer = self.client.post("/v1/studies", json={**JOB, **changes})
        assert answer.status_code == 201, answer.text
        assert answer.headers["location"] == f"/v1/studies/{answer.json()['study']}"
        return str(answer.json()["study"])

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.client.get(f"/v1{path}")
        assert answer.status_code == status, answer.text
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == status
        return answer.json()


@contextmanager
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """The service on the slice with a twin made by hand; no engine answers."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    shutil.copytree(SLICE.directory, tmp_path / "apps" / "url-shortener")
    twin_path(tmp_path / "apps" / "url-shortener").write_text(twin_text(TWIN))
    given = {
        "TAILOR_HOME": str(tmp_path / "home"),
        "TAILOR_APPLICATIONS": str(tmp_path / "apps"),
        "TAILOR_REQUESTS_PER_S": "0",
    }
    settings = Settings.from_environment(given)
    kept = opened(settings)
    with served(app_of(kept, settings)) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        yield Here(client, kept, settings.applications)
    kept.close()
