"""The web server that ``tailor serve`` runs, as tests run it too."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from framework.api.connections import Config, Limits

PATIENCE_S = 2  # with answers that are under way when the service ends


class Server(uvicorn.Server):
    """``leave`` is called when the server begins to end: whoever works for it shall end at the same time."""

    def __init__(self, config: Config, leave: Callable[[], None]) -> None:
        super().__init__(config)
        self._leave = leave

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._leave()
        await super().shutdown(sockets)


def server_of(app: Any, limits: Limits | None = None, leave: Callable[[], None] = lambda: None) -> Server:
    """A server of an ASGI application.  Headers of proxies are believed where ``limits`` names the proxies.

    Where the application has a ``state.leave``, it is called before ``leave``.
    """
    limits = limits or Limits()
    config = Config(
        app,
        limits,
        log_config=None,  # requests are noted by the application
        ws="none",
        lifespan="off",
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=list(limits.proxies),
        server_header=False,
        timeout_graceful_shutdown=PATIENCE_S,
    )
    end = getattr(getattr(app, "state", None), "leave", lambda: None)

    def leaving() -> None:
        leave()
        end()

    return Server(config, leaving)
