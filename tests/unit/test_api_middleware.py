"""The access log: a line for each request, and nothing that was sent."""

from __future__ import annotations

import logging

import httpx
import pytest
from fastapi import FastAPI, Request

from framework.api.middleware import AccessLog
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
    app.add_middleware(AccessLog)
    caplog.set_level(logging.INFO, "tailor.access")
    with served(app) as address:
        httpx.get(
            f"{address}/things/a?password=hunter2", headers={"Authorization": "Bearer hunter3"}, timeout=PATIENCE_S
        )
    [record] = [record for record in caplog.records if record.name == "tailor.access"]
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


@pytest.mark.parametrize("sent", ["%1b%5B31mred", "a%0Ab%0D", "%E2%80%AE", "%00", "%C2%9B31m"])
def test_a_path_moves_no_cursor(sent: str, caplog: pytest.LogCaptureFixture) -> None:
    app = service()
    app.add_middleware(AccessLog)
    caplog.set_level(logging.INFO, "tailor.access")
    with served(app) as address:
        httpx.get(f"{address}/things/{sent}", timeout=PATIENCE_S)
    [record] = [record for record in caplog.records if record.name == "tailor.access"]
    for form in (Text(), JsonLines()):
        line = form.format(record)
        assert line.isprintable(), repr(line)
        assert "/things/" in line
    assert not str(vars(record)["path"]).isprintable(), "it was one that had to be escaped"


def test_what_an_error_says_moves_no_cursor() -> None:
    try:
        raise ValueError("a\x1b[31m\nline")
    except ValueError:
        import sys

        made = {
            "name": "tailor.api",
            "msg": "of %s",
            "args": ("\x1b[2J\n",),
            "exc_info": sys.exc_info(),
            "more": "\x07",
        }
        record = logging.makeLogRecord(made)
    text = Text().format(record)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[2J\\n" in text.split("\n")[0]
    assert JsonLines().format(record).isprintable()
