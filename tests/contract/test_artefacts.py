"""What every artefact store promises, as files, on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from framework.errors import NotFound, StoreError
from framework.ports.store import ArtefactStore
from framework.store.artefacts import FileArtefacts, SqlArtefacts
from framework.store.database import Database
from framework.store.schema import artefacts
from tests.fakes import VirtualClock

HOUR_NS = 3_600 * 10**9


class Kept:
    """A store, its clock, and a way to damage what it keeps."""

    def __init__(
        self,
        store: ArtefactStore,
        pass_: Callable[[float], None],
        now: Callable[[], int],
        damage: Callable[[str], object],
    ) -> None:
        self.store, self.pass_, self.now, self.damage = store, pass_, now, damage


@pytest.fixture(params=["files", "sqlite", pytest.param("postgresql", marks=pytest.mark.docker)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
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

    yield Kept(SqlArtefacts(database, clock), clock.sleep, clock.now_ns, damage)
    with database.transaction() as connection:
        connection.execute(artefacts.delete())
    database.close()


def _files(directory: Path) -> Kept:
    """Time passes by making every file older."""

    def pass_(seconds: float) -> None:
        for path in directory.glob("??/*"):
            about = path.stat()
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns - int(seconds * 1e9)))

    return Kept(
        FileArtefacts(directory), pass_, time.time_ns, lambda digest: _path(directory, digest).write_bytes(b"x")
    )


def _path(directory: Path, digest: str) -> Path:
    return directory / digest[:2] / digest


def test_what_is_put_comes_back_and_is_kept_once(kept: Kept) -> None:
    first = kept.store.put(b"traces" * 1000)
    assert kept.store.put(b"traces" * 1000) == first
    assert kept.store.get(first) == b"traces" * 1000
    assert kept.store.put(b"") != first
    with pytest.raises(NotFound):
        kept.store.get("0" * 64)


def test_damage_is_noticed(kept: Kept) -> None:
    digest = kept.store.put(b"samples")
    kept.damage(digest)
    with pytest.raises(StoreError, match="damaged"):
        kept.store.get(digest)


def test_what_is_old_and_not_referred_to_goes(kept: Kept) -> None:
    referred, unused, again = (kept.store.put(data) for data in (b"referred", b"unused", b"again"))
    kept.pass_(7_200)
    kept.store.put(b"again")
    young = kept.store.put(b"young")
    assert kept.store.remove_but({referred}, kept.now() - HOUR_NS) == 1
    for digest in (referred, again, young):
        kept.store.get(digest)
    with pytest.raises(NotFound):
        kept.store.get(unused)
