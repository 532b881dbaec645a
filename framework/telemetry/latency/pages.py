"""Pages read over HTTP from a server that may be slow, wrong or hostile: short timeouts, a bound on the size."""

from __future__ import annotations

import time
from collections.abc import Mapping

import httpx

from framework.errors import FieldError, Transient
from framework.telemetry.latency.source import without_password

CONNECT_S, READ_S, WHOLE_S = 1.0, 2.0, 5.0
LAST_PORT = 65535
LARGEST = 32 * 2**20  # bytes of a page, unpacked


class Pages:
    """Pages below one address, whose user and password, where it has them, are never shown in a message."""

    def __init__(self, address: str, what: str, field: str = "latency") -> None:
        """``what``: the kind of server, for messages.  ``field``: of the request that names the address.

        Raises FieldError where the address is none.
        """
        self.what = what
        try:
            self.url = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise FieldError(field, without_password(address), f"the address of {what}: {error}") from error
        if self.url.scheme not in ("http", "https") or not self.url.host or (self.url.port or 0) > LAST_PORT:
            raise FieldError(field, without_password(address), f"the address of {what}, such as http://127.0.0.1:9090")
        self._client = httpx.Client(timeout=httpx.Timeout(READ_S, connect=CONNECT_S))

    @property
    def shown(self) -> str:
        """The address without user and password."""
        return str(self.url.copy_with(userinfo=b""))

    def get(self, path: str = "", query: Mapping[str, str] | None = None, accept: str = "application/json") -> bytes:
        """Return the page at a path below the address.  Raises Transient where there is no answer, or another one."""
        url = self.url.copy_with(path=self.url.path.rstrip("/") + path) if path else self.url
        begun, body = time.monotonic(), bytearray()
        try:
            with self._client.stream("GET", url, params=query or None, headers={"Accept": accept}) as reply:
                for piece in reply.iter_bytes():
                    body += piece
                    if len(body) > LARGEST or time.monotonic() - begun > WHOLE_S:
                        raise Transient(
                            f"{self.shown}: the page is not at its end after {len(body)} bytes and "
                            f"{time.monotonic() - begun:.1f} s"
                        )
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            reason = str(error) or type(error).__name__
            raise Transient(f"{self.shown}: no answer from {self.what}: {reason}") from error
        if reply.status_code != 200:
            said = bytes(body[:300]).decode(errors="replace").strip()
            raise Transient(f"{self.shown}: {self.what} answers {reply.status_code} {said}".rstrip())
        return bytes(body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def split_address(text: str, after: str) -> tuple[str, str]:
    """Return the address and the text behind its first ``#``.

    ``after``: that text, for messages.  Raises FieldError.
    """
    address, _, rest = text.partition("#")
    if not rest.strip():
        raise FieldError("latency", without_password(text), f"an address, #, and {after}")
    return address.strip(), rest.strip()
