"""Endpoints of engines: URLs and docker contexts, and how the library and the docker command reach them.

An engine behind SSH is reached through one connection that forwards its socket to one of this machine: the library
itself would start an SSH client for each of its connections, and has no half-closed streams there.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker.errors
import docker.tls
import docker.utils

REMOTE = "/var/run/docker.sock"
READY_S = 30.0  # for SSH to log in
END_S = 2.0
SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
)  # fmt: skip
"""A password cannot be asked for; a machine that does not answer for 15 s is lost."""


class Endpoint:
    """The way to one engine.

    ``name``: a URL (unix, tcp, ssh) or a docker context; empty: what ``DOCKER_HOST`` names, or the local socket.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._options: Mapping[str, Any] | None = None

    def options(self) -> Mapping[str, Any]:
        """Return the library's options; behind SSH, open the way first where it is not open.

        Raises DockerException for an unknown context, OSError where SSH does not get there.
        """
        if self._options is None:
            self._options = self._resolved()
        url = str(self._options.get("base_url", ""))
        return {"base_url": f"unix://{tunnel(url).open()}"} if url.startswith("ssh://") else self._options

    def words(self) -> list[str]:
        """Return the docker command's options for this engine.  Raises as ``options`` does."""
        url = str(self.options().get("base_url", ""))
        if "://" in self.name and not self.name.startswith("ssh://"):
            return ["-H", self.name]
        if url.startswith("unix://"):
            return ["-H", url]
        return ["--context", self.name] if self.name else []  # a context knows its certificates

    def said(self) -> str:
        """Return the last words of SSH, where there are any: why it ended, or what the other side refused."""
        url = str((self._options or {}).get("base_url", ""))
        return tunnel(url).said() if url.startswith("ssh://") else ""

    def _resolved(self) -> Mapping[str, Any]:
        if not self.name or "://" in self.name:
            environment = {**os.environ, **({"DOCKER_HOST": self.name} if self.name else {})}
            if environment.get("DOCKER_HOST", "").startswith(("ssh://", "unix://")):
                return {"base_url": environment["DOCKER_HOST"]}
            options: Mapping[str, Any] = docker.utils.kwargs_from_env(environment)
            return options
        return of_context(self.name)


def of_context(name: str) -> Mapping[str, Any]:
    """Return the library's options for a docker context.  Raises ContextNotFound.

    The library looks for contexts in the working directory where there is no config.json (docker 7.2, context/config).
    """
    directory = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "contexts"
    identity = hashlib.sha256(name.encode()).hexdigest()
    try:
        about = json.loads((directory / "meta" / identity / "meta.json").read_text())["Endpoints"]["docker"]
        host = str(about["Host"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise docker.errors.ContextNotFound(name) from error
    parts = {part: directory / "tls" / identity / "docker" / f"{part}.pem" for part in ("ca", "cert", "key")}
    there = {part: str(path) for part, path in parts.items() if path.exists()}
    if not host.startswith("tcp://") or not (there or about.get("SkipTLSVerify")):
        return {"base_url": host}
    pair = (there["cert"], there["key"]) if {"cert", "key"} <= there.keys() else None
    tls = docker.tls.TLSConfig(client_cert=pair, ca_cert=there.get("ca"), verify=not about.get("SkipTLSVerify"))
    return {"base_url": host.replace("tcp://", "https://", 1), "tls": tls}


class Tunnel:
    """A socket of this machine that leads to a socket of another one, through an SSH client of its own.

    ``url``: ssh://[user@]host[:port][/path of the socket there].  The client ends with this process, however that ends:
    its remote command waits for the end of its input.
    """

    def __init__(self, url: str) -> None:
        about = urllib.parse.urlsplit(url)
        user = f"{about.username}@" if about.username else ""
        self._target = [*(("-p", str(about.port)) if about.port else ()), "--", f"{user}{about.hostname}"]
        self._remote = about.path.rstrip("/") or REMOTE
        self._directory = Path(tempfile.mkdtemp(prefix="tailor-ssh-"))
        self._client: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def open(self) -> Path:
        """Return the socket, after a start of SSH where it does not run.  Raises OSError."""
        with self._lock:
            if self._client is None or self._client.poll() is not None:
                self._end()
                self._start()
            return self._socket

    def said(self) -> str:
        """Return the last line that SSH wrote."""
        with suppress(OSError):
            lines = (self._directory / "said").read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def close(self) -> None:
        """End SSH, and remove the socket."""
        self._end()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _socket(self) -> Path:
        return self._directory / "docker.sock"

    def _end(self) -> None:
        """End SSH, which does so at the end of its input."""
        client, self._client = self._client, None
        if client is None or client.stdin is None or client.stdout is None:
            return
        with suppress(OSError):
            client.stdin.close()
        try:
            client.wait(END_S)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()
        client.stdout.close()

    def _start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        command = [*SSH, "-L", f"{self._socket}:{self._remote}", *self._target, "cat"]
        with (self._directory / "said").open("wb") as said:
            # In a session of its own: Ctrl-C at a terminal is for this process.
            client = self._client = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True, bufsize=0
            )
        assert client.stdin is not None
        assert client.stdout is not None
        with suppress(OSError):  # it may have ended
            client.stdin.write(b"\n")
        # The echo comes after the login, and so after the socket.
        ready, _, _ = select.select([client.stdout], [], [], READY_S)
        if not ready or not client.stdout.read(1):
            client.kill()
            self._end()
            raise ConnectionError(f"ssh {' '.join(self._target)}: {self.said() or f'no login within {READY_S:g} s'}")


_tunnels: dict[tuple[int, str], Tunnel] = {}
_making = threading.Lock()


def tunnel(url: str) -> Tunnel:
    """Return this process's tunnel for a URL."""
    with _making:
        key = (os.getpid(), url)
        if key not in _tunnels:
            _tunnels[key] = Tunnel(url)
        return _tunnels[key]
