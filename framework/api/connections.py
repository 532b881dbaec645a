"""Connections that say nothing, or say it too slowly: uvicorn would keep them for ever.

Its protocol is given deadlines for what a client sends and takes, and limits on how many connections there are.  Where
a limit is reached, the connection that has waited longest without a complete request makes room, so that whoever holds
many open keeps nobody else out.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # httptools is a requirement, so never h11

SPARE_FILES = 200  # descriptors that the process needs besides: database, artefacts, engine, children


def _most_connections() -> int:
    """2,000, twice what event streams may take; fewer where the process may open fewer files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2_000 if soft == resource.RLIM_INFINITY else max(50, min(2_000, soft - SPARE_FILES))


@dataclass(frozen=True, slots=True)
class Limits:
    """``headers_s``, ``body_s``: for a request's, from its first byte (headers: or from the connection's beginning)
    to its last.  ``taken_s``: for an answer that the client does not take.  ``of_address``: connections of one
    address that is no proxy; a browser opens six, and a caller's event streams may be 50.  ``request_bytes``: of a
    request as it is sent, chunks and all; what is in it is bounded where it is read.
    """

    headers_s: float = 10.0
    body_s: float = 30.0
    taken_s: float = 60.0
    connections: int = field(default_factory=_most_connections)
    of_address: int = 256
    header_bytes: int = 64 * 1024
    request_bytes: int = 8 * 2**20
    proxies: tuple[str, ...] = ()

    def is_proxy(self, address: str) -> bool:
        try:
            known = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(known in ipaddress.ip_network(one) for one in self.proxies)


class Config(uvicorn.Config):
    """uvicorn's, with the limits of its connections."""

    def __init__(self, app: Any, limits: Limits, **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.limits = limits


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    limits: Limits

    def __init__(self, config: Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.limits = config.limits
        self.since = time.monotonic()  # it waits for a complete request
        self._timer: asyncio.TimerHandle | None = None  # of headers, then of the body
        self._taking: asyncio.TimerHandle | None = None
        self._in_headers = False
        self._received = 0  # bytes of the request that is under way

    @property
    def idle(self) -> bool:
        """Whether it has no complete request that is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    # ------------------------------------------------------------------ of asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(self.limits.headers_s)
        if not self._has_room():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None:  # the next request of a connection that was kept
            self._begins()
        self._received += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers and self._received > self.limits.header_bytes:
            self.send_400_response("The request's headers are too long.")
        elif self._received > self.limits.request_bytes:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self.loop.call_later(self.limits.taken_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    # ------------------------------------------------------------------ of the parser

    def on_message_begin(self) -> None:
        self._begins()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._expect(self.limits.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._expect(None)
        self._received = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()

    # ------------------------------------------------------------------ inside

    def _begins(self) -> None:
        self._in_headers, self._received = True, 0
        self._expect(self.limits.headers_s)

    def _expect(self, seconds: float | None) -> None:
        """Close the connection unless this is called again within ``seconds``."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        if self.flow.read_paused:  # the client waits for the service, not the service for the client
            self._timer = self.loop.call_later(seconds, self._late, seconds)
        else:
            self.transport.close()

    def _has_room(self) -> bool:
        """Whether this connection may stay; the longest idle one goes where it is one too many."""
        address = self.client[0] if self.client else ""
        if not self._one_of(self.limits.connections, lambda other: True):
            return False
        return self.limits.is_proxy(address) or self._one_of(
            self.limits.of_address, lambda other: other.client is not None and other.client[0] == address
        )

    def _one_of(self, most: int, counts: Callable[[BoundedProtocol], bool]) -> bool:
        others = [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self]
        others = [one for one in others if not one.transport.is_closing() and counts(one)]
        if len(others) < most:
            return True
        idle = min((one for one in others if one.idle), key=lambda one: one.since, default=None)
        if idle is not None:
            idle.transport.abort()
        return idle is not None
