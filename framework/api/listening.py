"""The socket that the service listens on."""

from __future__ import annotations

import socket

from framework.errors import FieldName, InputError


def listening_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; ``port`` 0: a free port.  Raises InputError where it cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
        # asyncio turns Nagle's algorithm off only for sockets that it makes itself; with it, answers are 40 ms late.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise InputError(
            FieldName("host"), ", ", FieldName("port"),
            f": {host}:{port} cannot be used ({error.strerror or error})",
        ) from error  # fmt: skip
