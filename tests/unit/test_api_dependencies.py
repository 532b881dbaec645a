"""All FastAPI applications of a process share the routes; a request gets the adapters of its own application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from framework.api.app import app_of
from framework.api.rate_limit import RateLimit
from framework.bootstrap.adapters import opened
from framework.config.settings import Settings
from tests.serving import PATIENCE_S, served

EXTERNAL: dict[str, Any] = {
    "name": "mine", "optimizer": "random",
    "parameters": [{"name": "threads", "kind": "integer", "default": 8, "low": 1, "high": 64}],
}  # fmt: skip


@contextmanager
def client_of(home: Path) -> Iterator[Client]:
    """Serve this home without applications; return a client of the service."""
    applications = home / "apps"
    applications.mkdir(parents=True)
    settings = Settings.from_environment({"TAILOR_HOME": str(home), "TAILOR_APPLICATIONS": str(applications)})
    kept = opened(settings)
    with served(app_of(kept, settings)) as address, Client(base_url=address, timeout=PATIENCE_S) as client:
        yield client
    kept.close()


def test_applications_of_one_process_share_nothing(tmp_path: Path) -> None:
    with client_of(tmp_path / "first") as first, client_of(tmp_path / "second") as second:
        study = first.post("/v1/external", json=EXTERNAL).json()["study"]
        assert first.post(f"/v1/external/{study}/ask", json={"client": "a"}).status_code == 200
        assert second.post(f"/v1/external/{study}/ask", json={"client": "a"}).status_code == 404
        assert [len(client.get("/v1/studies").json()["items"]) for client in (first, second)] == [1, 0]
        assert second.get(f"/v1/studies/{study}/events").status_code == 404
        with first.stream("GET", f"/v1/studies/{study}/events") as events:
            assert events.status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/external"), ("POST", "/v1/external/x/heartbeat"), ("GET", "/v1/optimizers"), ("GET", "/v1/studies"),
     ("DELETE", "/v1/studies/x"), ("GET", "/v1/studies/x/events"), ("GET", "/launch")],
)  # fmt: skip
def test_a_request_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str) -> None:
    """A request is counted once also where both the router and the route name a scope."""
    counted: list[str] = []
    monkeypatch.setattr(RateLimit, "count", lambda limit, caller: counted.append(caller))
    with client_of(tmp_path) as client:
        client.request(method, path)
    assert counted == ["address 127.0.0.1"]
