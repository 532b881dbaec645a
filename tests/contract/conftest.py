"""The databases that a store has to work on: SQLite, and a real PostgreSQL server in a container."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from framework.errors import StoreError, Transient
from framework.store.database import Database

IMAGE = "postgres:15"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a server; return its address without a database's name."""
    name = f"tailor-test-postgres-{uuid.uuid4().hex[:8]}"
    run = ["docker", "run", "--detach", "--rm", "--name", name, "--publish", "127.0.0.1::5432",
           "--tmpfs", "/var/lib/postgresql/data", "--env", "POSTGRES_PASSWORD=secret", IMAGE,
           "postgres", "-c", "fsync=off"]  # fmt: skip
    subprocess.run(run, check=True, capture_output=True)
    try:
        port = subprocess.run(["docker", "port", name, "5432"], check=True, capture_output=True, text=True).stdout
        address = f"postgresql+psycopg://postgres:secret@127.0.0.1:{port.split(':')[-1].strip()}"
        _until_it_answers(address)
        yield address
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", name], check=False, capture_output=True)


def _until_it_answers(address: str) -> None:
    """Wait until the server answers.  While a new container sets up its data, its server listens on a socket only."""
    for _ in range(300):
        try:
            Database(f"{address}/postgres").close()
            return
        except (StoreError, Transient):
            time.sleep(0.2)
    raise TimeoutError(f"{address} does not answer")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of a new database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 's.db'}"
        return
    address = request.getfixturevalue("postgresql")
    name = f"t{uuid.uuid4().hex}"
    server = sa.create_engine(f"{address}/postgres", isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    yield f"{address}/{name}"
    with server.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()
