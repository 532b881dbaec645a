"""The service put together."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from fastapi import FastAPI

import framework
from framework.api import asktell, catalogue, dashboard, events, problems, studies, system
from framework.api.access import Access
from framework.api.asking import Asking
from framework.api.asktell import ExternalWork
from framework.api.events import EventStreams
from framework.api.middleware import Addressed, Bounded, Guarded, Noted
from framework.api.plain import Plain
from framework.api.rate_limit import Pace
from framework.api.readiness import Readiness
from framework.api.rendering import Rendering
from framework.api.service import Service
from framework.bootstrap.adapters import Opened, gate_of
from framework.config.settings import Settings, host_name


def app_of(kept: Opened, settings: Settings, host: str = "127.0.0.1") -> FastAPI:
    """The service over an open store; ``host``: the address that it listens on."""
    service = Service(
        backends=kept.backends,
        store=kept.store,
        catalogue=kept.catalogue,
        studies=kept.studies,
        results=kept.results,
        profiles=kept.profiles,
        runner=kept.runner,
        queue=kept.queue,
        launches=kept.launches,
        access=Access(kept.tokens, Pace(settings.requests_per_s)),
        external=kept.external,
        sharing=kept.sharing,
        rendering=Rendering(settings, kept.store.revision),
        asking=Asking(settings),
        readiness=Readiness(kept.sharing.home, kept.check),
        roots=settings.applications,
        gate=gate_of(settings),
    )
    return create_app(service, [*settings.hosts, *reached_at(host)])


def reached_at(host: str) -> list[str]:
    """The name under which a service is reached that listens there; none where it listens on all addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return [host_name(host)]
    return [] if address.is_unspecified else [str(address)]


def create_app(service: Service, hosts: Iterable[str] = ()) -> FastAPI:
    """The application that a web server runs, reached under the names of loopback and ``hosts``."""
    app = FastAPI(
        title="Tailor",
        version=framework.__version__,
        description="Tunes microservice applications by experiment.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service = service
    app.state.external_work = ExternalWork(service)
    app.state.streams = streams = EventStreams(service)
    ending = [service.rendering.close, service.asking.close, streams.end]
    app.state.leave = lambda: [end() for end in ending]  # called by the server when it begins to end
    problems.install(app)
    for routes in (asktell, studies, events, catalogue, system):  # asked most often first: routes are tried in turn
        app.include_router(routes.router, prefix="/v1")
    app.include_router(dashboard.router)
    app.add_middleware(Plain)
    app.add_middleware(Guarded)
    app.add_middleware(Bounded)
    app.add_middleware(Addressed, hosts=tuple(hosts))
    app.add_middleware(Noted)
    return app
