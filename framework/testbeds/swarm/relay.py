"""Ways from this machine to containers on an overlay network, which only the swarm's own containers reach.

A container of Tailor's stands on the network.  Each connection to a loopback address of this machine goes on through
that container, by a command that its engine runs in it: no port is published, on no node.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import docker

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine

PROGRAM = "/program"
PART = 65536
FIRST, LAST = 2, 254


class Relay:
    """Loopback addresses that stand for containers.  ``container``: on the network of all of them."""

    def __init__(self, engine: Engine, connection: Connection, container: str) -> None:
        self._engine, self._connection, self._container = engine, connection, container
        self._addresses: dict[str, str] = {}  # of a container on the overlay -> on this machine
        self._servers: dict[tuple[str, int], _Server] = {}
        self._marks: list[socket.socket] = []  # one for each address: it is taken

    def address(self, remote: str) -> str:
        """Return the loopback address that stands for a container's."""
        if remote not in self._addresses:
            self._addresses[remote], mark = _free()
            self._marks.append(mark)
        return self._addresses[remote]

    def open(self, remote: str, ports: Iterable[int]) -> None:
        """Let connections to these ports of a container's loopback address through."""
        for port in ports:
            if (remote, port) not in self._servers:
                self._servers[remote, port] = _Server(self, self.address(remote), port, remote)

    def keep_listening(self, wanted: Mapping[str, Collection[int]]) -> None:
        """Let those ports through at which a container listens, and no others: a refusal here is a refusal there.

        ``wanted``: a container's address on the overlay -> the ports to try.
        """
        asked = [f"{remote}:{port}" for remote, ports in wanted.items() for port in sorted(ports)]
        code, output = self._engine.execute(self._container, [PROGRAM, "-listening", *asked])
        if code != 0:
            raise DeploymentFailed(
                f"the container on the application's network cannot tell which ports are open: {output}"
            )
        listening = {(remote, int(port)) for remote, _, port in (line.rpartition(":") for line in output.split())}
        for place in [place for place in self._servers if place not in listening]:
            self._servers.pop(place).end()
        for remote, port in listening:
            self.open(remote, [port])

    def close(self) -> None:
        """End all ways."""
        for server in self._servers.values():
            server.end()
        for mark in self._marks:
            mark.close()
        self._servers.clear()

    def carry(self, local: socket.socket, remote: str, port: int) -> None:
        """Carry one connection to its end."""

        def start(api: docker.APIClient) -> Any:
            command = [PROGRAM, "-relay", f"{remote}:{port}"]
            process = api.exec_create(self._container, command, stdin=True)["Id"]
            return api.exec_start(process, socket=True)

        try:
            stream = self._connection.ask("reach the application's network", start)
        except (DeploymentFailed, TestbedUnavailable):
            return  # the caller sees a connection that ends
        if stream is None:
            return
        sender = threading.Thread(target=_send, args=(local, stream), daemon=True)
        sender.start()
        reader = stream._response.raw._fp.fp  # the library loses what came with the headers (its issue 3332)
        try:
            with contextlib.suppress(OSError, ValueError):
                while len(header := reader.read(8)) == 8:
                    data = reader.read(int.from_bytes(header[4:], "big"))
                    if header[0] == 1:
                        local.sendall(data)
        finally:
            with contextlib.suppress(OSError):
                local.shutdown(socket.SHUT_RDWR)
            sender.join(1)
            stream._response.close()
            stream.close()


def _send(local: socket.socket, stream: Any) -> None:
    remote = getattr(stream, "_sock", stream)
    with contextlib.suppress(OSError):
        while part := local.recv(PART):
            remote.sendall(part)
        remote.shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # connections of the deployment before may still be in TIME_WAIT
    request_queue_size = 64

    def __init__(self, relay: Relay, address: str, port: int, remote: str) -> None:
        self._relay, self._remote, self._port = relay, remote, port
        super().__init__((address, port), socketserver.BaseRequestHandler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._relay.carry(request, self._remote, self._port)

    def end(self) -> None:
        self.shutdown()
        self.server_close()


def _free() -> tuple[str, socket.socket]:
    """Return a loopback address that nobody has, and the socket, on its port 1, that marks it as taken."""
    for third in range(FIRST, LAST):
        for fourth in range(FIRST, LAST):
            address = f"127.213.{third}.{fourth}"
            mark = socket.socket()
            try:
                mark.bind((address, 1))
                mark.listen(1)
            except OSError:
                mark.close()
                continue
            return address, mark
    raise DeploymentFailed("no loopback address is free")
