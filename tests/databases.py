"""A PostgreSQL server in a container, whose data outlive its process."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType

from framework.errors import StoreError, Transient
from framework.store.database import Database

IMAGE = "postgres:15"


class Server:
    """Use as a context manager; ``url`` stays the same however often it is killed.

    ``sockets``: a directory for a socket of its own, by which processes in other network namespaces reach it too.
    """

    def __init__(self, sockets: Path | None = None) -> None:
        self._sockets = sockets

    def __enter__(self) -> Server:
        self._name = f"tailor-test-postgres-{uuid.uuid4().hex[:8]}"
        with socket.create_server(("127.0.0.1", 0)) as free:  # one that Docker chose would change with each start
            port = free.getsockname()[1]
        at, mounts = f"127.0.0.1:{port}", list[str]()
        if self._sockets is not None:
            self._sockets.mkdir(parents=True)
            self._sockets.chmod(0o777)  # the server runs as another user
            mounts = ["--volume", f"{self._sockets}:/var/run/postgresql"]
        _docker("run", "--detach", "--name", self._name, "--publish", f"{at}:5432", *mounts,
                "--env", "POSTGRES_PASSWORD=secret", IMAGE)  # fmt: skip
        host = f"{at}/postgres" if self._sockets is None else f"/postgres?host={self._sockets}"
        self.url = f"postgresql+psycopg://postgres:secret@{host}"
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["docker", "rm", "--force", "--volumes", self._name], check=False, capture_output=True)

    def kill(self, away_s: float = 0.0) -> None:
        """Send SIGKILL to the server and everything in its container; after ``away_s`` it is started again."""
        _docker("kill", "--signal", "KILL", self._name)
        time.sleep(away_s)
        _docker("start", self._name)

    def _wait(self) -> None:
        for _ in range(300):
            try:
                Database(self.url).close()
                return
            except (StoreError, Transient):
                time.sleep(0.2)
        raise TimeoutError(f"{self.url} does not answer")


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout
