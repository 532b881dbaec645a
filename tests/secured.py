"""An engine behind TLS, in a network namespace: certificates, a port of this machine that leads there, a context.

As a program, ``python -m tests.secured FD PORT``: carries connections that are accepted at an inherited socket to a
port of the namespace that it runs in.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme

from tests.swarm_nodes import Node

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "127.0.0.1"
PORT = 2376


def write_certificates(directory: Path) -> str:
    """Write certificates of an engine and of its user; return the options of a daemon that asks for them."""
    authority = trustme.CA()
    directory.mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    for name, issued in (("server", authority.issue_cert(ADDRESS)), ("", authority.issue_cert("user@example.org"))):
        issued.private_key_pem.write_to_path(str(directory / f"{name}{'-' if name else ''}key.pem"))
        issued.cert_chain_pems[0].write_to_path(str(directory / f"{name}{'-' if name else ''}cert.pem"))
    return (
        f"-H tcp://{ADDRESS}:{PORT} --tlsverify --tlscacert={directory}/ca.pem "
        f"--tlscert={directory}/server-cert.pem --tlskey={directory}/server-key.pem"
    )


@contextmanager
def way_to(node: Node) -> Iterator[int]:
    """Let a port of this machine lead to the engine's in its namespace; yield the port."""
    with socket.create_server((ADDRESS, 0)) as server:
        number = server.fileno()
        command = node.inside(sys.executable, "-m", "tests.secured", str(number), str(PORT))
        carrier = subprocess.Popen(command, pass_fds=[number], cwd=ROOT)
        try:
            yield server.getsockname()[1]
        finally:
            carrier.kill()
            carrier.wait()


def write_context(config: Path, name: str, host: str, certificates: Path) -> None:
    """Write a docker context with certificates, as `docker context create` does.  ``config``: DOCKER_CONFIG."""
    identity = hashlib.sha256(name.encode()).hexdigest()
    meta, tls = config / "contexts" / "meta" / identity, config / "contexts" / "tls" / identity / "docker"
    meta.mkdir(parents=True)
    tls.mkdir(parents=True)
    endpoint = {"Host": host, "SkipTLSVerify": False}
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    for part in ("ca", "cert", "key"):
        (tls / f"{part}.pem").write_bytes((certificates / f"{part}.pem").read_bytes())


def main(arguments: list[str]) -> None:
    """Carry connections until the end of the process."""
    server = socket.socket(fileno=int(arguments[0]))
    while True:
        near, _ = server.accept()
        try:
            far = socket.create_connection((ADDRESS, int(arguments[1])))
        except OSError:
            near.close()
            continue
        for origin, target in ((near, far), (far, near)):
            threading.Thread(target=_carry, args=(origin, target), daemon=True).start()


def _carry(origin: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := origin.recv(65536):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(sys.argv[1:])
