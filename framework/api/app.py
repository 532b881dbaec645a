"""The web application: the service over an open store, with its routes and middleware."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from fastapi import FastAPI

import framework
from framework.api import asktell, catalogue, dashboard, energy, events, guarding, planning, problems, studies, system
from framework.api.access import Access
from framework.api.asktell import ExternalWork
from framework.api.events import EventStreams
from framework.api.large_spaces import LargeSpaces
from framework.api.middleware import AccessLog, BodyLimit, HostCheck, OriginCheck
from framework.api.plain import PlainAddress
from framework.api.rate_limit import RateLimit
from framework.api.readiness import Readiness
from framework.api.rendering import Rendering
from framework.api.service import Service
from framework.bootstrap.adapters import Opened, gate_of
from framework.config.settings import Settings, host_name


def app_of(kept: Opened, settings: Settings, host: str = "127.0.0.1") -> FastAPI:
    """Return the application over an open store; ``host``: the address that it listens on."""
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
        access=Access(kept.tokens, RateLimit(settings.requests_per_s)),
        external=kept.external,
        sharing=kept.sharing,
        rendering=Rendering(settings, kept.store.revision),
        large_spaces=LargeSpaces(settings),
        readiness=Readiness(kept.sharing.home, kept.check),
        audits=kept.guards.audits,
        plans=kept.plans.records,
        energies=kept.energies.records,
        roots=settings.applications,
        gate=gate_of(settings),
    )
    return create_app(service, [*settings.hosts, *reached_at(host)])


def reached_at(host: str) -> list[str]:
    """Return the name of a service that listens on this address; none where it listens on all addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return [host_name(host)]
    return [] if address.is_unspecified else [str(address)]


def create_app(service: Service, hosts: Iterable[str] = ()) -> FastAPI:
    """Return the application for a web server; requests name it by loopback's names or one of ``hosts``."""
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
    ending = [service.rendering.close, service.large_spaces.close, streams.end]
    app.state.leave = lambda: [end() for end in ending]  # called by the server when it begins to end
    problems.install(app)
    # Asked most often first: routes are tried in turn.
    for routes in (asktell, studies, events, catalogue, system, guarding, planning, energy):
        app.include_router(routes.router, prefix="/v1")
    app.include_router(dashboard.router)
    app.add_middleware(PlainAddress)
    app.add_middleware(OriginCheck)
    app.add_middleware(BodyLimit)
    app.add_middleware(HostCheck, hosts=tuple(hosts))
    app.add_middleware(AccessLog)
    return app
