"""What is noted of a request."""

from __future__ import annotations

import logging

import httpx
import pytest
from fastapi import FastAPI, Request

from framework.api.guards import Noted
from framework.cli.logs import JsonLines, Text
from tests.serving import PATIENCE_S, served


def service() -> FastAPI:
    app = FastAPI()

    @app.get("/things/{name}")
    def thing(name: str, request: Request) -> str:
        return name

    return app


def test_a_request_is_noted_without_what_was_sent(caplog: pytest.LogCaptureFixture) -> None:
    app = service()
    app.add_middleware(Noted)
    caplog.set_level(logging.INFO, "tailor.access")
    with served(app) as address:
        httpx.get(
            f"{address}/things/a?password=hunter2", headers={"Authorization": "Bearer hunter3"}, timeout=PATIENCE_S
        )
    [record] = [one for one in caplog.records if one.name == "tailor.access"]
    line = JsonLines().format(record)
    assert '"path": "/things/a"' in line
    assert '"status": 200' in line
    assert "hunter" not in line
    assert "hunter" not in Text().format(record)


def test_an_error_has_its_place_in_the_log() -> None:
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        import sys

        record = logging.makeLogRecord({"name": "tailor.api", "msg": "failed", "exc_info": sys.exc_info()})
    assert "ZeroDivisionError: a bug" in JsonLines().format(record)
    assert "\n" not in JsonLines().format(record), "one line an event"
    assert "ZeroDivisionError: a bug" in Text().format(record)
