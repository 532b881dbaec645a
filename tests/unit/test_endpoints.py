"""Endpoints of engines: URLs, docker contexts, and sockets behind SSH."""

from __future__ import annotations

import hashlib
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker.errors
import pytest

from framework.errors import TestbedUnavailable
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.endpoints import Endpoint, Tunnel
from tests import ssh_server
from tests.ssh_server import SshServer

ROOT = Path(__file__).resolve().parents[2]
needs_ssh = pytest.mark.skipif(bool(ssh_server.missing()), reason=ssh_server.missing())


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def write_context(directory: Path, name: str, *, tls: bool = False, **endpoint: object) -> Path:
    """Write a docker context as the docker command does, with no config.json beside it."""
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta = directory / "contexts" / "meta" / identity / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    certificates = directory / "contexts" / "tls" / identity / "docker"
    for part in ("ca", "cert", "key") if tls else ():
        certificates.mkdir(parents=True, exist_ok=True)
        (certificates / f"{part}.pem").write_text("")
    return certificates


def test_a_url_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Endpoint("unix:///x.sock").url() == "unix:///x.sock"
    assert Endpoint("tcp://host:2375").url() == "tcp://host:2375"
    assert Endpoint("tcp://host:2375").command()[0] == ["docker", "-H", "tcp://host:2375"]
    assert Endpoint("").url() == Endpoint("default").url() == "unix:///var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "unix:///y.sock")
    assert Endpoint("").url() == "unix:///y.sock"
    assert Endpoint("unix:///x.sock").url() == "unix:///x.sock", "what is named counts"


def test_a_context_is_known_without_a_configuration_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_context(tmp_path / ".docker", "near", Host="unix:///x.sock", SkipTLSVerify=False)
    assert Endpoint("near").url() == "unix:///x.sock"
    assert Endpoint("near").command()[0] == ["docker", "-H", "unix:///x.sock"]
    write_context(tmp_path / ".docker", "here")
    assert Endpoint("here").url() == "unix:///var/run/docker.sock", "docker leaves out what is empty"
    write_context(tmp_path / "other", "far", Host="tcp://host:2375", SkipTLSVerify=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "other"))
    assert Endpoint("far").url() == "tcp://host:2375"
    with pytest.raises(docker.errors.ContextNotFound):
        Endpoint("near").url()


def test_an_engine_behind_tls_is_reached_by_the_docker_command(
    echo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command here is one that leads to the echo, whatever it is asked."""
    write_context(tmp_path / ".docker", "secured", tls=True, Host="tcp://host:2376", SkipTLSVerify=False)
    command = tmp_path / "bin" / "docker"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport tests.unit.test_endpoints as t\nt.carry({str(echo)!r})\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    endpoint = Endpoint("secured")
    path = Path(endpoint.url().removeprefix("unix://"))
    assert endpoint.command()[0] == ["docker", "--context", "secured"]
    assert said_through(path, b"hello") == b"hello"
    assert said_through(path, b"again") == b"again"
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    assert Path(Endpoint("tcp://host:2376").url().removeprefix("unix://")) != path, "another engine, another socket"
    assert Endpoint("tcp://host:2376").command()[0] == ["docker", "-H", "tcp://host:2376"]
    assert "DOCKER_TLS_VERIFY" in Endpoint("tcp://host:2376").command()[1]
    assert "DOCKER_TLS_VERIFY" not in Endpoint("unix:///x.sock").command()[1]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no docker command"):
        endpoint.url()


def carry(path: str) -> None:
    """Carry the standard input and output to a socket, as `docker system dial-stdio` does."""
    sys.stdout.buffer.write(said_through(Path(path), sys.stdin.buffer.read()))


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Send back what came, after its end: that needs a half-closed connection."""
        self.wfile.write(self.rfile.read())


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "echo.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield path
        server.shutdown()


def said_through(path: Path, text: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(4096), b""))


@needs_ssh
def test_a_socket_behind_ssh_is_one_of_this_machine(
    echo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SshServer(tmp_path / "ssh") as server:
        monkeypatch.setenv("PATH", server.environment["PATH"])
        tunnel = Tunnel(server.url(str(echo)))
        path = tunnel.open()
        assert said_through(path, b"hello") == b"hello"
        assert said_through(tunnel.open(), b"x" * 300_000) == b"x" * 300_000
        assert len(server.logins) == 1, "one login for all connections"
        server.drop()
        deadline = time.monotonic() + 30
        while len(server.logins) == 1 and time.monotonic() < deadline:
            tunnel.open()
            time.sleep(0.05)
        assert said_through(tunnel.open(), b"again") == b"again", "a lost connection is made anew"
        tunnel.close()
        assert not path.exists()


@pytest.mark.parametrize(
    "url", ["ssh://", "ssh://me@host:path", "ssh://host:22x", "ssh://-oProxyCommand=x", "ssh://a@b@c"]
)
def test_what_is_no_url_for_ssh_is_said(url: str) -> None:
    with pytest.raises(TestbedUnavailable, match=r"allowed: ssh://\[USER@\]HOST"):
        Connection(1, url).ask("tell its version", lambda api: api.version())


@needs_ssh
def test_what_ssh_cannot_reach_is_said(echo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SshServer(tmp_path / "ssh", forwards=False) as server:
        monkeypatch.setenv("PATH", server.environment["PATH"])
        with pytest.raises(TestbedUnavailable, match="does not answer"):
            Connection(1, server.url(str(echo))).ask("tell its version", lambda api: api.version())
        url = server.url(str(echo))
    with pytest.raises(TestbedUnavailable, match=r"ssh -p .*refused"):
        Connection(1, url.replace("tester", "other")).ask("tell its version", lambda api: api.version())
