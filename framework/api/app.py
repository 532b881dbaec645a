"""The service put together."""

from __future__ import annotations

from fastapi import FastAPI

import framework
from framework.api import asktell, catalogue, dashboard, events, problems, studies, system
from framework.api.access import Access
from framework.api.guards import Bounded, Guarded, Noted
from framework.api.pace import Pace
from framework.api.plain import Plain
from framework.api.service import Service
from framework.bootstrap import Opened, gate_of
from framework.config import Settings


def app_of(kept: Opened, settings: Settings) -> FastAPI:
    """The service over an open store."""
    service = Service(
        tailor=kept.tailor,
        queue=kept.queue,
        launches=kept.launches,
        access=Access(kept.tokens, Pace(settings.requests_per_s)),
        external=kept.external,
        sharing=kept.sharing,
        roots=settings.applications,
        gate=gate_of(settings),
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
    for module in (asktell, studies, events, catalogue, system):  # asked most often first: routes are tried in turn
        app.include_router(module.router(service), prefix="/v1")
    app.include_router(dashboard.router(service))
    app.add_middleware(Plain)
    app.add_middleware(Guarded)
    app.add_middleware(Bounded)
    app.add_middleware(Noted)
    return app
