"""Dependencies of the routes: the service of the application that answers, and the caller with the scope it needs.

All are coroutines: a plain function would take a thread for each request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from framework.api.access import Caller, Scope
from framework.api.service import Service


async def service_of(request: Request) -> Service:
    """Return the service of the application that answers: several may live in one process."""
    service: Service = request.app.state.service
    return service


def needs(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Return a dependency: the caller, who must have this scope.  It raises Refused: 401, 403, 429."""

    async def caller_with_scope(request: Request) -> Caller:
        service = await service_of(request)
        return await service.access.caller_with_scope(request, scope)

    return caller_with_scope


# One object for each scope: a request that names one twice (router and route) is checked and counted once.
READ, RUN, ADMIN = Depends(needs("read")), Depends(needs("run")), Depends(needs("admin"))

AppService = Annotated[Service, Depends(service_of)]
ReadCaller = Annotated[Caller, READ]
RunCaller = Annotated[Caller, RUN]
