"""The socket that the service listens on."""

from __future__ import annotations

import socket

from framework.errors import FieldName, InputError


def listening_on(host: str, port: int) -> socket.socket:
    """Raises InputError where nobody can listen there.  ``port`` 0: a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
        # asyncio turns Nagle's algorithm off only for sockets that it made itself: with it, answers wait 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise InputError(
            FieldName("host"), ", ", FieldName("port"),
            f": {host}:{port} cannot be used ({error.strerror or error})",
        ) from error  # fmt: skip
