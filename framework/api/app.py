"""The service put together."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import framework
from framework.api import asktell, catalogue, dashboard, events, problems, studies, system
from framework.api.access import Access
from framework.api.service import Service
from framework.bootstrap import Opened
from framework.config import Settings

MOST_BYTES = 1 << 20  # of a request: a study's options are a few kilobytes


def app_of(kept: Opened, settings: Settings) -> FastAPI:
    """The service over an open store."""
    service = Service(
        tailor=kept.tailor,
        queue=kept.queue,
        keys=kept.keys,
        access=Access(kept.tokens),
        external=kept.external,
        roots=settings.applications,
        allowed=settings.allowed,
    )
    return create_app(service)


def create_app(service: Service) -> FastAPI:
    """The application that a web server runs."""
    app = FastAPI(
        title="Tailor",
        version=framework.__version__,
        description="Tunes microservice applications by experiment.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    problems.install(app)
    for module in (studies, events, asktell, catalogue, system):
        app.include_router(module.router(service), prefix="/v1")
    app.include_router(dashboard.router(service))
    app.add_middleware(Guarded)
    app.add_middleware(Bounded)
    return app


class Guarded:
    """What browsers are told, and that another site's page cannot act here.

    A request that changes something and comes from a page has to come from a page of this host.
    """

    HEADERS = (
        (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
    )

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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


class Bounded:
    """Refuses what is too long before anything reads it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received = 0
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > MOST_BYTES:
            await self._refuse(scope, receive, send)
            return

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BYTES:
                raise problems.Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes")
            return message

        await self._app(scope, counted, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = problems.problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes")
        await said(scope, receive, send)
