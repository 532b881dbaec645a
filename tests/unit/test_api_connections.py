"""Connections that say nothing, or say it too slowly, are closed; a client that opens many keeps nobody else out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from framework.api.connections import Limits
from tests.serving import PATIENCE_S, served

SHORT = Limits(headers_s=1.0, body_s=1.0, taken_s=1.0)
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def service() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def here() -> Response:
        return PlainTextResponse("here")

    @app.get("/much")
    async def much() -> Response:
        return PlainTextResponse("x" * 50_000_000)

    @app.post("/")
    async def length(request: Request) -> int:
        return len(await request.body())

    return app


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """Read until the other side closes; a time-out is an error."""
    said = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(65536):
            said += data
    return said


def answer(connection: socket.socket) -> bytes:
    said = b""
    while not said.endswith(b"here"):
        data = connection.recv(65536)
        assert data, said
        said += data
    return said


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", b"\r\n\r\n", ASK[:-2], b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
     b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
     b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\n"],
)  # fmt: skip
@pytest.mark.parametrize("later", [False, True])
def test_a_request_that_is_not_completed(sent: bytes, later: bool) -> None:
    with served(service(), SHORT) as address, connected(address) as connection:
        if later:
            connection.sendall(ASK)
            answer(connection)
        connection.sendall(sent)
        assert b" 200 " not in rest(connection)


def test_a_request_that_trickles_in_is_closed() -> None:
    with served(service(), SHORT) as address, connected(address) as connection:
        assert _closed(connection, b"X", 0.1)


def test_headers_without_end() -> None:
    with served(service()) as address, connected(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")

        def send() -> None:
            try:
                for number in range(100_000):
                    connection.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
            except OSError:
                return

        sending = threading.Thread(target=send)
        sending.start()
        assert b" 200 " not in rest(connection)
        sending.join(PATIENCE_S)
        assert not sending.is_alive()


def test_a_body_without_end() -> None:
    with served(service(), Limits(request_bytes=100_000)) as address, connected(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert _closed(connection, b"400\r\n" + b"x" * 1024 + b"\r\n")


def test_an_answer_that_nobody_takes() -> None:
    with served(service(), SHORT) as address, connected(address) as connection:
        connection.sendall(ASK.replace(b"/ ", b"/much ", 1))
        time.sleep(3)
        assert len(rest(connection)) < 50_000_000


def test_a_request_in_pieces_and_one_after_the_other_are_answered() -> None:
    with served(service(), Limits()) as address, connected(address) as connection:
        for _ in range(3):
            for piece in (ASK[:10], ASK[10:]):
                connection.sendall(piece)
                time.sleep(0.05)
            answer(connection)
        connection.sendall(ASK + ASK)
        assert answer(connection).count(b" 200 ") >= 1


def test_half_sent_requests_keep_nobody_out_and_are_closed() -> None:
    limits = Limits(headers_s=PATIENCE_S, of_address=50)
    with served(service(), limits) as address:
        half = _half(address)
        assert httpx.get(address, timeout=PATIENCE_S).text == "here"
        closed = 0
        for connection in half[: 300 - limits.of_address]:
            assert rest(connection) == b""
            closed += 1
        assert closed == 250, "without waiting for their time to run out"
        for connection in half:
            connection.close()


def test_all_of_them_are_closed_in_time() -> None:
    with served(service(), SHORT) as address:
        half = _half(address)
        for connection in half:
            assert rest(connection) == b""
            connection.close()
        assert httpx.get(address, timeout=PATIENCE_S).text == "here"


def test_a_proxy_may_have_more() -> None:
    with served(service(), Limits(of_address=2, proxies=("127.0.0.1",))) as address:
        many = [socket.create_connection(_place(address), PATIENCE_S) for _ in range(10)]
        for connection in many:
            connection.sendall(ASK)
            answer(connection)
            connection.close()


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").partition(":")
    return host, int(port)


def _closed(connection: socket.socket, data: bytes, every_s: float = 0.0) -> bool:
    """Return whether the other side closes while ``data`` are sent again and again."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            connection.sendall(data)
        except OSError:
            return True
        time.sleep(every_s)
    return False


def _half(address: str) -> list[socket.socket]:
    """Open 300 connections, each with an incomplete request; some may be closed at once."""
    made = [socket.create_connection(_place(address), PATIENCE_S) for _ in range(300)]
    for connection in made:
        with suppress(OSError):
            connection.sendall(ASK[:-2])
    return made
