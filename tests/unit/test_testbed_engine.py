"""The engine's answers, over a real socket, from a server that talks like it."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.testbeds.docker.engine import Engine


class Talk(http.server.BaseHTTPRequestHandler):
    """Runs one command in its way: its output comes in the same packet as the headers, its end a moment later."""

    protocol_version = "HTTP/1.1"
    codes: list[int | None]

    def do_GET(self) -> None:
        if self.path.endswith("/version"):
            self._say({"ApiVersion": "1.41"})
        else:
            self._say({"ExitCode": self.codes.pop(0)})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if not self.path.endswith("/start"):
            self._say({"Id": "one"})
            return
        head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        frames = (b"\x01\0\0\0\0\0\0\x05hits=", b"\x02\0\0\0\0\0\0\x03 17")
        self.wfile.write(head + b"".join(frames))
        self.close_connection = True

    def _say(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "a socket"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with Server(str(path), Talk) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Engine(attempts=1)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("codes", "code"), [([0], 0), ([None, None, 3], 3)])
def test_output_that_comes_with_the_headers_is_not_lost(engine: Engine, codes: list[int | None], code: int) -> None:
    Talk.codes = list(codes)
    assert engine.execute("container", ["ask"]) == (code, "hits= 17")
