"""A PostgreSQL server in a container, whose data outlive its process."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from types import TracebackType

from framework.errors import StoreError, Transient
from framework.store.database import Database

IMAGE = "postgres:15"


class Server:
    """Use as a context manager; ``url`` stays the same however often it is killed."""

    def __enter__(self) -> Server:
        self._name = f"tailor-test-postgres-{uuid.uuid4().hex[:8]}"
        with socket.create_server(("127.0.0.1", 0)) as free:  # one that Docker chose would change with each start
            port = free.getsockname()[1]
        _docker("run", "--detach", "--name", self._name, "--publish", f"127.0.0.1:{port}:5432",
                "--env", "POSTGRES_PASSWORD=secret", IMAGE)  # fmt: skip
        self.url = f"postgresql+psycopg://postgres:secret@127.0.0.1:{port}/postgres"
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
