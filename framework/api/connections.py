"""Deadlines and limits of connections: uvicorn would keep idle and slow ones for ever.

Its protocol gets deadlines for the data that a client sends and receives, and limits on the number of connections.
Where a limit is reached, the connection is closed that has waited longest without a complete request.  So a client that
holds many connections open does not keep others out.
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

SPARE_FILES = 200  # descriptors that the process needs for the rest: database, artefacts, engine, children


def _most_connections() -> int:
    """Return 2,000, twice the number of event streams; fewer where the process may open fewer files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2_000 if soft == resource.RLIM_INFINITY else max(50, min(2_000, soft - SPARE_FILES))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of connections.

    ``headers_s``: from the connection's start, or from a later request's first byte, to the last byte of the headers.
    ``body_s``: for the body.  ``taken_s``: while the client does not receive an answer.  ``connections``: in all;
    ``of_address``: of one address that is no proxy (a browser opens six, and a caller may have 50 event streams).
    ``request_bytes``: of a request as it is sent, with its chunk headers; a body's length is limited where it is read.
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
        """Whether the address is in one of the networks of ``proxies``."""
        try:
            client = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(client in ipaddress.ip_network(proxy) for proxy in self.proxies)


class Config(uvicorn.Config):
    """uvicorn's configuration, with the limits of connections."""

    def __init__(self, app: Any, limits: Limits, **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.limits = limits


class BoundedProtocol(HttpToolsProtocol):
    """One connection, with deadlines and limits."""

    limits: Limits

    def __init__(self, config: Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.limits = config.limits
        self.idle_since = time.monotonic()  # waiting for a complete request
        self._receiving: asyncio.TimerHandle | None = None  # deadline of the headers, then of the body
        self._sending: asyncio.TimerHandle | None = None  # deadline of the client to receive
        self._in_headers = False
        self._received = 0  # bytes of the current request

    @property
    def idle(self) -> bool:
        """Whether no request that is complete is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    # ------------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline(self.limits.headers_s)
        if not self._has_room():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._receiving is None:  # the next request of a connection that stayed open
            self._request_begins()
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
        self._sending = self.loop.call_later(self.limits.taken_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    # ------------------------------------------------------------------ called by the parser

    def on_message_begin(self) -> None:
        self._request_begins()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._set_deadline(self.limits.body_s)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._set_deadline(None)
        self._received = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.idle_since = time.monotonic()
        super().on_response_complete()

    # ------------------------------------------------------------------ inside

    def _request_begins(self) -> None:
        self._in_headers, self._received = True, 0
        self._set_deadline(self.limits.headers_s)

    def _set_deadline(self, seconds: float | None) -> None:
        """Close the connection in ``seconds``, unless another deadline is set before; None: no deadline."""
        if self._receiving is not None:
            self._receiving.cancel()
        self._receiving = None if seconds is None else self.loop.call_later(seconds, self._miss_deadline, seconds)

    def _miss_deadline(self, seconds: float) -> None:
        if self.flow.read_paused:  # reading is paused by the service: the client is not late
            self._receiving = self.loop.call_later(seconds, self._miss_deadline, seconds)
        else:
            self.transport.close()

    def _has_room(self) -> bool:
        """Whether this connection may stay; where there is one too many, the one that is idle longest is closed."""
        address = self.client[0] if self.client else ""
        if not self._make_room(self.limits.connections, lambda other: True):
            return False
        return self.limits.is_proxy(address) or self._make_room(
            self.limits.of_address, lambda other: other.client is not None and other.client[0] == address
        )

    def _make_room(self, most: int, counts: Callable[[BoundedProtocol], bool]) -> bool:
        """Whether this connection is one of ``most`` that ``counts`` counts; close an idle one if need be."""
        others = [other for other in self.connections if isinstance(other, BoundedProtocol) and other is not self]
        others = [other for other in others if not other.transport.is_closing() and counts(other)]
        if len(others) < most:
            return True
        idle = min((other for other in others if other.idle), key=lambda other: other.idle_since, default=None)
        if idle is not None:
            idle.transport.abort()
        return idle is not None
