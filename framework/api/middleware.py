"""What every request passes before a route sees it: host, origin and size; and what is noted of it."""

from __future__ import annotations

import abc
import logging
import re
import time
from collections.abc import Iterable
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from framework.api import problems
from framework.config.settings import host_name

LOG = logging.getLogger("tailor.access")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(?::[0-9]*)?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
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


class Addressed(_Guard):
    """Refuses requests for another host than this one.

    A page of another site can let its own name point here (DNS rebinding), and is then of the same origin to the
    browser; only the Host header tells it apart.  ``hosts``: names and addresses beside loopback's.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        super().__init__(app)
        self._hosts = LOOPBACK | frozenset(hosts)

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = _values(scope, b"host")
        if len(given) == 1 and _name(given[0]) in self._hosts:
            await self._app(scope, receive, send)
        elif len(given) != 1 or not given[0]:
            await problems.problem(HTTPStatus.BAD_REQUEST, "one Host header is needed")(scope, receive, send)
        else:
            said = "this service is not reached under this name; its operator can allow it (TAILOR_HOSTS)"
            await problems.problem(HTTPStatus.MISDIRECTED_REQUEST, said)(scope, receive, send)


class Guarded(_Guard):
    """Keeps pages of other sites from acting here, and tells browsers what this host's pages may do.

    Nothing is answered to a page of another site.  A request that changes something and comes from a browser has to
    name its origin, which has to be this host; programs send none and are let through.
    """

    HEADERS = (
        (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    )

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.HEADERS]}
            await send(message)

        refused = _foreign(scope)
        answer = problems.problem(HTTPStatus.FORBIDDEN, refused) if refused else self._app
        await answer(scope, receive, guarded)


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


def _values(scope: Scope, name: bytes) -> list[str]:
    """Of every header of this name."""
    return [value.strip(b" \t").decode("latin-1") for header, value in scope["headers"] if header == name]


def _name(host: str) -> str:
    """The name in a Host header, without the port; empty where it is none."""
    matched = _HOST.fullmatch(host)
    try:
        return host_name(matched[1]) if matched else ""
    except ValueError:
        return ""


def _foreign(scope: Scope) -> str:
    """Why a request is refused as another site's; empty where it is not."""
    if "cross-site" in _values(scope, b"sec-fetch-site"):
        return "a page of another site cannot ask here"
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return ""
    here = [value.lower() for value in _values(scope, b"host")]
    origins = _values(scope, b"origin")
    if any([origin.lower().partition("://")[2]] != here for origin in origins):
        return "a page of another site cannot act here"
    if not origins and _is_browser(scope):
        return "a browser has to say which page asks (Origin)"
    return ""


def _is_browser(scope: Scope) -> bool:
    """Whether it sends what programs do not: Sec-Fetch-*, a cookie, the name that all browsers bear."""
    return any(
        name.startswith(b"sec-fetch-") or name == b"cookie" or (name == b"user-agent" and value.startswith(b"Mozilla/"))
        for name, value in scope["headers"]
    )
