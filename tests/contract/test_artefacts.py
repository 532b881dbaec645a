"""Artefact stores: files, SQLite and PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from framework.store.artefacts import FileArtefacts, SqlArtefacts
from framework.store.database import Database
from framework.store.schema import artefacts
from framework.testing.artefact_store import ArtefactStoreContract, KeptArtefacts
from framework.testing.clock import VirtualClock


@pytest.fixture(params=["files", "sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeptArtefacts]:
    if request.param == "files":
        yield _files(tmp_path)
        return
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 's.db'}")
    else:
        database = Database(f"{request.getfixturevalue('postgresql')}/postgres")
    clock = VirtualClock()

    def damage(digest: str) -> None:
        with database.transaction() as connection:
            connection.execute(sa.update(artefacts).where(artefacts.c.digest == digest).values(data=b"x"))

    yield KeptArtefacts(SqlArtefacts(database, clock), clock.sleep, clock.now_ns, damage)
    with database.transaction() as connection:
        connection.execute(artefacts.delete())
    database.close()


def _files(directory: Path) -> KeptArtefacts:
    """Keep artefacts as files; ``sleep`` makes every file older."""

    def sleep(seconds: float) -> None:
        for path in directory.glob("??/*"):
            about = path.stat()
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns - int(seconds * 1e9)))

    return KeptArtefacts(
        FileArtefacts(directory), sleep, time.time_ns, lambda digest: _path(directory, digest).write_bytes(b"x")
    )


def _path(directory: Path, digest: str) -> Path:
    return directory / digest[:2] / digest


class TestArtefacts(ArtefactStoreContract):
    """The contract of every artefact store."""
