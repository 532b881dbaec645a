"""What every request passes before a route sees it: size and origin; and what is noted of it."""

from __future__ import annotations

import abc
import logging
import time
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framework.api import problems

LOG = logging.getLogger("tailor.access")
MOST_BYTES = 2**20  # of a request: a study's options are a few kilobytes


class _Guard(abc.ABC):
    """Passes what is not HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._guard(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abc.abstractmethod
    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Guarded(_Guard):
    """What browsers are told, and that another site's page cannot act here.

    A request that changes something and comes from a page has to come from a page of this host.
    """

    HEADERS = (
        (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    )

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        here = headers.get(b"host", b"").decode("latin-1")
        changes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if changes and origin and urlsplit(origin).netloc != here:
            refused = problems.problem(HTTPStatus.FORBIDDEN, "a page of another site cannot act here")
            await refused(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.HEADERS]}
            await send(message)

        await self._app(scope, receive, guarded)


class Bounded(_Guard):
    """Refuses what is too long before anything reads it."""

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        said = f"at most {MOST_BYTES} bytes"
        if not announced.isdigit() or int(announced) > MOST_BYTES:
            await problems.problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)(scope, receive, send)
            return

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                raise problems.Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)
            return message

        await self._app(scope, counted, send)


class Noted(_Guard):
    """One line of the log for each request: method, path, status, milliseconds; never what was sent."""

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            ms = 1e3 * (time.monotonic() - began)
            about = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(ms, 1)}
            LOG.info("request", extra=about)
