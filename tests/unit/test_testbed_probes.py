"""From an answer to a value, and whether it is the wanted one; real sockets, no engine."""

from __future__ import annotations

import http.server
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model import Container, Probe
from framework.model.agreement import agrees
from framework.testbeds.docker import probes
from framework.testbeds.docker.engine import Engine
from optimizer.space import Value


def command(pattern: str, **options: object) -> Probe:
    return Probe("command", pattern, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("probe", "answer", "like", "value"),
    [
        (command(r"STAT maxbytes (\d+)", multiply=2**-20), "STAT maxbytes 67108864\r\n", 64, 64),
        (command(r"^a=(.+)$"), "a=on\nb=off\n", True, True),
        (command(r"^b=(.+)$"), "a=on\nb=off\n", True, False),
        (command(r"^m=(.+)$", words={"auto": 0}), "m=auto\n", 5, 0),
        (command(r"^p=(.+)$"), "p=allkeys-lru\n", "noeviction", "allkeys-lru"),
        (command(r"^p=(.+)$"), "p=128\n", "128", "128"),
        (command(r"^q=(.+)$", absent=16), "nothing here", 5, 16),
        (command(r"k (\d+);"), "k 5; k 5; k 5;", 1, 5),
        (command(r"r=(.+)"), "r=1.25", 1.0, 1.25),
        (command(r"r=(.+)"), "r=off", 1.0, "off"),
    ],
)
def test_the_value_in_an_answer(probe: Probe, answer: str, like: Value, value: Value) -> None:
    parsed = probes.parse(probe, answer, like)
    assert (type(parsed), parsed) == (type(value), value)


def test_no_match_and_matches_that_disagree_are_no_answer() -> None:
    with pytest.raises(probes.NoAnswer, match=r"no match of .* in 'abc'"):
        probes.parse(command(r"x=(\d+)"), "abc", 1)
    with pytest.raises(probes.NoAnswer, match="several values: 1, 2"):
        probes.parse(command(r"x=(\d+)"), "x=1 x=2", 1)


@pytest.mark.parametrize(
    ("wanted", "value", "same"),
    [
        (64, 64, True), (64, 63.99999999, True), (64, 65, False), (64, "64MB", False), (1, True, False),
        (0.25, 0.2501, True), (0.25, 0.26, False), (0.0, 0.0, True),
        (True, True, True), (True, 1, True), (False, 0, True), (True, False, False), (True, "perhaps", False),
        ("lru", "lru", True), ("lru", "lfu", False), ("128", 128, True),
    ],
)  # fmt: skip
def test_agreement(wanted: Value, value: Value, same: bool) -> None:
    assert agrees(wanted, value) is same


@given(st.integers(1, 10**6), st.sampled_from([2**-20, 1e-3, 0.0078125, 1e-9, 1.0]))
def test_integers_survive_a_conversion_of_units_and_neighbours_do_not(value: int, multiply: float) -> None:
    text = f"v={round(value / multiply)}"
    parsed = probes.parse(command(r"v=(\d+)", multiply=multiply), text, value)
    assert agrees(value, parsed)
    assert not agrees(value + 1 + value // 1000, parsed)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    received: list[str]


class Cache(socketserver.StreamRequestHandler):
    """Answers in two parts and stays connected, as memcached does."""

    def handle(self) -> None:
        assert isinstance(self.server, Server)
        line = self.rfile.readline().decode()
        self.server.received.append(line)
        for part in (b"STAT a 1\r\nSTAT b", b" 2\r\nEND\r\n"):
            self.wfile.write(part)
            self.wfile.flush()
        self.rfile.read(1)


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.received.append(self.path)
        self.send_response(200 if self.path == "/v" else 404)
        self.end_headers()
        self.wfile.write(b'{"value": 7}')

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), handler) as server:
        server.received = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def local(service: str) -> Container:
    return Container(service, "id", service, "image", "digest", "127.0.0.1", 1, "")


def test_one_request_serves_all_patterns() -> None:
    with serving(Cache) as server:
        port = server.server_address[1]
        a, b = (
            Probe("tcp", rf"STAT {name} (\d+)", port=port, send="stats\r\n", until="END\r\n") for name in ("a", "b")
        )
        answers = probes.answers(Engine(), {"cache": local("cache")}, [("cache", a), ("cache", b)])
        assert server.received == ["stats\r\n"]
    text = answers[probes.request("cache", b)]
    assert isinstance(text, str)
    assert (probes.parse(a, text, 0), probes.parse(b, text, 0)) == (1, 2)


def test_http() -> None:
    with serving(Pages) as server:
        port = server.server_address[1]
        probe = Probe("http", r'"value": (\d+)', port=port, path="/v")
        assert probes.parse(probe, probes.ask(Engine(), "", "127.0.0.1", probe), 0) == 7
        missing = Probe("http", "x", port=port, path="/other")
        with pytest.raises(probes.NoAnswer, match="status 404"):
            probes.ask(Engine(), "", "127.0.0.1", missing)


def test_what_does_not_answer_is_said() -> None:
    with serving(Cache) as server:
        port = server.server_address[1]
    for kind in ("tcp", "http"):
        probe = Probe(kind, "x", port=port, send="x\n")
        with pytest.raises(probes.NoAnswer, match=f"port {port}"):
            probes.ask(Engine(), "", "127.0.0.1", probe)
        with pytest.raises(probes.NoAnswer, match="no address"):
            probes.ask(Engine(), "", "", probe)
    unknown = probes.answers(Engine(), {}, [("gone", probe)])
    assert "no container" in str(unknown[probes.request("gone", probe)])


def test_an_answer_that_never_ends_is_given_up() -> None:
    with serving(Cache) as server, pytest.raises(probes.NoAnswer, match="port"):
        probes.send("127.0.0.1", server.server_address[1], "stats\r\n", "NEVER", timeout_s=0.2)


class OneContainer:
    """An engine with one container, of the process 7."""

    def inspect(self, container: str) -> dict[str, object]:
        return {"State": {"Pid": 7, "Running": True}}


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue\n"
SOCKETS = {
    "a port of any address": ("00000000:1F90 00000000:0000 0A", True),
    "Docker's name server": ("0B00007F:A1B2 00000000:0000 0A", False),
    "a connection": ("0100007F:1F90 0100007F:C350 01", False),
    "nothing": ("", False),
}


@pytest.mark.parametrize(("row", "listens"), SOCKETS.values(), ids=SOCKETS)
@pytest.mark.parametrize("table", ["tcp", "tcp6"])
def test_the_kernel_tells_whether_a_container_listens(tmp_path: Path, table: str, row: str, listens: bool) -> None:
    container = "0123456789abcdef"
    directory = tmp_path / "7"
    (directory / "net").mkdir(parents=True)
    (directory / "cgroup").write_text(f"0::/docker/{container}\n")
    (directory / "net" / table).write_text(HEAD + (f"   0: {row} 0:0\n" if row else ""))
    if listens:
        assert probes._listens(OneContainer(), container, tmp_path) == probes.LISTENS  # type: ignore[arg-type]
    else:
        with pytest.raises(probes.NoAnswer, match="it listens on no port yet"):
            probes._listens(OneContainer(), container, tmp_path)  # type: ignore[arg-type]


def test_where_the_kernel_cannot_tell_a_container_counts_as_listening(tmp_path: Path) -> None:
    assert probes._listens(OneContainer(), "0123456789abcdef", tmp_path) == probes.LISTENS  # type: ignore[arg-type]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/user.slice\n")
    assert probes._listens(OneContainer(), "0123456789abcdef", tmp_path) == probes.LISTENS  # type: ignore[arg-type]
