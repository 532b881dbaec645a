"""Endpoints of engines: URLs and docker contexts, and the socket of this machine or the TCP port that leads to each.

The library itself starts an SSH client for each of its connections, and cannot close a stream of SSH or TLS on one side
only, which the end of what is sent to a command means.  So an engine behind SSH is reached through one connection that
forwards its socket, and one behind TLS through the docker command.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import docker.errors

LOCAL = "unix:///var/run/docker.sock"
REMOTE = "/var/run/docker.sock"
_SSH_URL = re.compile(r"ssh://((?:[^@/]+@)?[^-@:/][^@:/]*)(?::([0-9]+))?(/.*)?")
READY_S = 30.0  # for SSH to log in
END_S = 2.0
SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ControlMaster=no", "-o", "ControlPath=none",
    "-T",
)  # fmt: skip
"""A password cannot be asked for; a machine that does not answer for 15 s is lost; another client's connection is not
used, which would keep the socket after this process.
"""
TLS = ("DOCKER_TLS_VERIFY", "DOCKER_TLS")  # of the environment, as the docker command takes them


class Endpoint:
    """The way to one engine.

    ``name``: a URL (unix, tcp, ssh) or a docker context; empty: what ``DOCKER_HOST`` names, or the local socket.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._way: Way | None = None
        self._url = ""

    def url(self) -> str:
        """Return the URL of a socket or of an unsecured port, after a start of what leads there where it is not open.

        Raises ContextNotFound, OSError for a URL that is none and where SSH does not get there.
        """
        if not self._url:
            self._resolve()
        return f"unix://{self._way.open()}" if self._way is not None else self._url

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return the docker command with its options for this engine, and its environment.  Raises as ``url`` does."""
        url = self.url()
        words = list(self._way.words) if isinstance(self._way, Dialer) else ["-H", url]
        # What says TLS for another engine is not for a socket, nor for a port without it.
        away = () if isinstance(self._way, Dialer) else TLS
        return ["docker", *words], {name: value for name, value in os.environ.items() if name not in away}

    @property
    def is_elsewhere(self) -> bool:
        """Whether something has to lead there; known after the first ``url``."""
        return self._way is not None

    def said(self) -> str:
        """Return the last words of what leads there: why it ended, or what the other side refused."""
        return self._way.said() if self._way is not None else ""

    def _resolve(self) -> None:
        named = "" if self.name == "default" else self.name  # of this name there is no file
        if not named or "://" in named:
            url = named or os.environ.get("DOCKER_HOST") or LOCAL
            secured = any(os.environ.get(name) for name in TLS)
            words: Sequence[str] = ("-H", url)
        else:
            url, secured = of_context(self.name)
            words = ("--context", self.name)  # it knows the certificates
        if url.startswith("ssh://"):
            self._way = _kept(url, lambda: Tunnel(url))
        elif url.startswith("tcp://") and secured:
            self._way = _kept(" ".join(words), lambda: Dialer(words))
        self._url = url


def of_context(name: str) -> tuple[str, bool]:
    """Return the URL of a docker context, and whether it is behind TLS.  Raises ContextNotFound.

    The library looks for contexts in the working directory where there is no config.json (docker 7.2, context/config).
    """
    directory = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "contexts"
    identity = hashlib.sha256(name.encode()).hexdigest()
    try:
        about = json.loads((directory / "meta" / identity / "meta.json").read_text())["Endpoints"]["docker"]
        secured = (directory / "tls" / identity / "docker").exists() or bool(about.get("SkipTLSVerify"))
        return str(about.get("Host") or LOCAL), secured
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise docker.errors.ContextNotFound(name) from error


class Way(Protocol):
    """A socket of this machine that leads to an engine."""

    def open(self) -> Path: ...

    def said(self) -> str: ...


class Dialer:
    """A socket that leads to an engine by the docker command, one for each connection: it knows TLS and contexts.

    ``words``: the command's options for the engine.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._directory = _directory()
        self._path = self._directory / "docker.sock"
        self._commands: list[subprocess.Popen[bytes]] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        atexit.register(self.close)

    def open(self) -> Path:
        """Return the socket.  Raises FileNotFoundError without a docker command."""
        if shutil.which("docker") is None:
            raise FileNotFoundError("there is no docker command, which leads to engines behind TLS")
        return self._path

    def said(self) -> str:
        """Return the last line that the command wrote."""
        return _last_line(self._directory / "said")

    def close(self) -> None:
        """End all connections, and remove the socket."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for command in self._commands:
            command.kill()
            command.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            self._commands = [command for command in self._commands if command.poll() is None]
            with connection, suppress(OSError):  # a command that cannot be started closes the connection
                self._commands.append(self._started(connection.fileno()))

    def _started(self, ends: int) -> subprocess.Popen[bytes]:
        """Start a command that carries a connection, and ends when either side closes it."""
        command = ["docker", *self.words, "system", "dial-stdio"]
        with (self._directory / "said").open("wb") as said:
            return subprocess.Popen(command, stdin=ends, stdout=ends, stderr=said, start_new_session=True)


class Tunnel:
    """A socket that leads to a socket of another machine, through one SSH client.

    ``url``: ssh://[user@]host[:port][/path of the socket there].  The client ends with this process, however that ends:
    its remote command waits for the end of its input.  Raises ConnectionError for another form.
    """

    def __init__(self, url: str) -> None:
        parts = _SSH_URL.fullmatch(url)
        if parts is None:
            raise ConnectionError(f"{url}: allowed: ssh://[USER@]HOST[:PORT][/PATH OF THE SOCKET]")
        host, port, path = parts.groups()
        self._target = [*(("-p", port) if port else ()), "--", host]
        self._remote = (path or "").rstrip("/") or REMOTE
        self._directory = _directory()
        self._client: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def open(self) -> Path:
        """Return the socket, after a start of SSH where it does not run.  Raises OSError."""
        with self._lock:
            if self._client is None or self._client.poll() is not None:
                self._end()
                self._start()
            return self._directory / "docker.sock"

    def said(self) -> str:
        """Return the last line that SSH wrote."""
        return _last_line(self._directory / "said")

    def close(self) -> None:
        """End SSH, and remove the socket."""
        self._end()
        shutil.rmtree(self._directory, ignore_errors=True)

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
        command = [*SSH, "-L", f"{self._directory}/docker.sock:{self._remote}", *self._target, "cat"]
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


def _directory() -> Path:
    """Return a directory for a socket that nobody else may use."""
    return Path(tempfile.mkdtemp(prefix="tailor-engine-"))


def _last_line(file: Path) -> str:
    with suppress(OSError):
        lines = file.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


_ways: dict[tuple[int, str], Way] = {}
_making = threading.Lock()


def _kept(name: str, make: Callable[[], Way]) -> Way:
    """Return this process's way of a name."""
    with _making:
        key = (os.getpid(), name)
        if key not in _ways:
            _ways[key] = make()
        return _ways[key]
