"""Requests as bytes on a connection, with no client library between; answers with everything in them unpacked."""

from __future__ import annotations

import gzip
import http.client
import io
import socket
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

PATIENCE_S = 900.0  # beyond what an answer may take which is computed, after those before it
MOST_BYTES = 64 * 2**20
STREAM = "text/event-stream"


@dataclass(frozen=True)
class Request:
    """``target``: as it stands in the first line.  ``what``: the route, by which answers are counted."""

    what: str
    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes | None = None

    def encoded(self) -> bytes:
        """Return the bytes, with Host and Content-Length added where they are not given."""
        names = {name.lower() for name, _ in self.headers}
        headers = list(self.headers)
        if b"host" not in names:
            headers.insert(0, (b"Host", b"127.0.0.1"))
        if self.body is not None and not names & {b"content-length", b"transfer-encoding"}:
            headers.append((b"Content-Length", str(len(self.body)).encode()))
        lines = [self.method.encode() + b" " + self.target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n" + (self.body or b"")


@dataclass(frozen=True)
class Answer:
    """``status`` 0: the connection was closed without one."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    unpacked: tuple[bytes, ...] = field(default=(), repr=False)

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def everything(self) -> bytes:
        """Return all bytes that are searched for secrets."""
        said = "\n".join(f"{name}: {value}" for name, value in self.headers).encode("latin-1", "replace")
        return b"\n".join([said, self.body, *self.unpacked])


class Connection:
    """One connection, made anew where the service closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, request: Request) -> Answer:
        """Return the answer; ``status`` 0 where there was none.  Raises TimeoutError where nothing comes."""
        fresh = self._socket is None
        answer = self._sent(request)
        if answer.status or fresh:
            return answer
        return self._sent(request)  # the connection had been closed since the answer before

    def _sent(self, request: Request) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
        answer = http.client.HTTPResponse(self._socket, method=request.method)
        try:
            self._socket.sendall(request.encoded())
            answer.begin()
            if answer.getheader("content-type", "").startswith(STREAM):
                body, closes = answer.read1(65_536), True
            else:
                body, closes = answer.read(MOST_BYTES), answer.will_close
        except TimeoutError:
            self.close()
            raise
        except (OSError, http.client.HTTPException):
            self.close()
            return Answer(0)
        finally:
            answer.close()
        if closes:
            self.close()
        return Answer(answer.status, tuple(answer.getheaders()), body, tuple(_unpacked(body)))


def _unpacked(body: bytes) -> Iterable[bytes]:
    """Yield the contents of an archive, and the plain pages of a table."""
    try:
        if body.startswith(b"\x1f\x8b"):
            yield gzip.decompress(body)
            with tarfile.open(fileobj=io.BytesIO(body)) as file:
                yield "\n".join(file.getnames()).encode()
        elif body.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(io.BytesIO(body)) as parts:
                for name in parts.namelist():
                    data = parts.read(name)
                    yield name.encode()
                    yield gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error):
        return
