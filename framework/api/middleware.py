"""Middleware that every request passes before a route sees it: checks of host, origin and size, and the access log."""

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


class HttpMiddleware(abc.ABC):
    """Handles HTTP requests, and passes on whatever is not HTTP."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @abc.abstractmethod
    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class HostCheck(HttpMiddleware):
    """Refuses requests for another host than this one.

    The name of another site can be made to point here (DNS rebinding).  For the browser, pages of that site then have
    the origin of this service; only the Host header tells them apart.  ``hosts``: names and addresses
    beside loopback's.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        super().__init__(app)
        self._hosts = LOOPBACK | frozenset(hosts)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        hosts = _values(scope, b"host")
        if len(hosts) == 1 and _name(hosts[0]) in self._hosts:
            await self._app(scope, receive, send)
        elif len(hosts) != 1 or not hosts[0]:
            await problems.problem(HTTPStatus.BAD_REQUEST, "one Host header is needed")(scope, receive, send)
        else:
            detail = "this service is not reached under this name; its operator can allow it (TAILOR_HOSTS)"
            await problems.problem(HTTPStatus.MISDIRECTED_REQUEST, detail)(scope, receive, send)


class OriginCheck(HttpMiddleware):
    """Keeps pages of other sites from acting here, and tells browsers what this host's pages may do.

    A page of another site gets no answer.  A browser's request that changes something must name its origin, which must
    be this host.  Programs send no origin and are let through.
    """

    HEADERS = (
        (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    )

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self.HEADERS]}
            await send(message)

        reason = _cross_site(scope)
        answer = problems.problem(HTTPStatus.FORBIDDEN, reason) if reason else self._app
        await answer(scope, receive, send_with_headers)


class BodyLimit(HttpMiddleware):
    """Refuses a body that is too long before anything reads it."""

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        detail = f"at most {MOST_BYTES} bytes"
        if not announced.isdigit() or int(announced) > MOST_BYTES:
            await problems.problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)(scope, receive, send)
            return

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                raise problems.Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return message

        await self._app(scope, receive_counted, send)


class AccessLog(HttpMiddleware):
    """Writes one line for each request: method, path, status, milliseconds; nothing of the body or the headers."""

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            ms = 1e3 * (time.monotonic() - began)
            fields = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(ms, 1)}
            LOG.info("request", extra=fields)


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return the value of every header of this name."""
    return [value.strip(b" \t").decode("latin-1") for header, value in scope["headers"] if header == name]


def _name(host: str) -> str:
    """Return the name in a Host header, without the port; empty where the header is malformed."""
    matched = _HOST.fullmatch(host)
    try:
        return host_name(matched[1]) if matched else ""
    except ValueError:
        return ""


def _cross_site(scope: Scope) -> str:
    """Return why a request is refused as one from another site; empty where it is not refused."""
    if "cross-site" in _values(scope, b"sec-fetch-site"):
        return "a page of another site cannot ask here"
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return ""
    hosts = [value.lower() for value in _values(scope, b"host")]
    origins = _values(scope, b"origin")
    if any([origin.lower().partition("://")[2]] != hosts for origin in origins):
        return "a page of another site cannot act here"
    if not origins and _is_browser(scope):
        return "a browser has to say which page asks (Origin)"
    return ""


def _is_browser(scope: Scope) -> bool:
    """Whether a request has headers that only browsers send: Sec-Fetch-*, a cookie, a User-Agent of Mozilla/..."""
    return any(
        name.startswith(b"sec-fetch-") or name == b"cookie" or (name == b"user-agent" and value.startswith(b"Mozilla/"))
        for name, value in scope["headers"]
    )
