"""The web server of ``tailor serve``; tests run it too."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from framework.api.connections import Config, Limits

GRACE_S = 2  # for answers that are under way when the service ends


class Server(uvicorn.Server):
    """A uvicorn server that calls ``leave`` when it begins to shut down: its workers shut down at the same time."""

    def __init__(self, config: Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leave()
        await super().shutdown(sockets)


def server_of(app: Any, limits: Limits | None = None, leave: Callable[[], None] = lambda: None) -> Server:
    """Return a server of an ASGI application.  Proxies' headers are trusted where ``limits`` names the proxies.

    At shutdown it calls ``leave``, and before it the application's ``state.leave``, where there is one.
    """
    limits = limits or Limits()
    config = Config(
        app,
        limits,
        log_config=None,  # the application has the access log
        ws="none",
        lifespan="off",
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=list(limits.proxies),
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    end = getattr(getattr(app, "state", None), "leave", lambda: None)

    def leaving() -> None:
        leave()
        end()

    return Server(config, leaving)
