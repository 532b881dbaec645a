"""Readiness: a full disk and a damaged database are noticed, and nothing else keeps the answer waiting."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from framework.api import readiness
from framework.api.readiness import Readiness
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.errors import StoreBusy, StoreError
from framework.store import examination
from tests.serving import Here, serving


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Opened]:
    adapters = opened(Settings.from_environment({"TAILOR_HOME": str(tmp_path)}))
    yield adapters
    adapters.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    monkeypatch.setattr(readiness, "TTL_S", 0.0)
    with serving(tmp_path, monkeypatch) as server:
        yield server


def test_a_whole_database(kept: Opened) -> None:
    kept.check()
    kept.check()


def test_a_database_that_was_overwritten(here: Here, tmp_path: Path) -> None:
    assert here.get("/ready") == {"status": "ok"}
    here.launch()
    file = tmp_path / "home" / "tailor.db"
    with file.open("r+b") as database:
        database.write(os.urandom(file.stat().st_size))
    for log in ("tailor.db-wal",):
        (tmp_path / "home" / log).write_bytes(b"")
    assert here.get("/ready", 503)["detail"] == "the database cannot be read and written"
    assert here.get("/health")["status"] == "ok"


def test_a_table_whose_pages_are_lost(kept: Opened, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "tailor.db")) as connection:
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trials'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "tailor.db").open("r+b") as database:
        database.seek((root - 1) * size)
        database.write(b"\xff" * size)
    with pytest.raises(StoreError, match="damaged"):
        kept.check()


def test_a_database_that_is_gone_is_not_made_again(kept: Opened, tmp_path: Path) -> None:
    for file in tmp_path.glob("tailor.db*"):
        file.unlink()
    with pytest.raises(StoreError, match="not there"):
        kept.check()
    assert not (tmp_path / "tailor.db").exists()


def test_a_database_without_a_table(kept: Opened, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "tailor.db")) as connection:
        connection.execute("DROP TABLE offers")
    with pytest.raises(StoreError, match="no such table"):
        kept.check()


def test_a_database_that_somebody_does_not_let_go(
    kept: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "LOCKED_S", 0.1)
    with closing(sqlite3.connect(tmp_path / "tailor.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            kept.check()
        connection.execute("ROLLBACK")
    kept.check()


def test_a_large_database_is_looked_at_in_part(kept: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(tmp_path / "tailor.db")) as connection, connection:
        rows = (("x", str(number), "r" * 64, "s" * 64, number) for number in range(200_000))
        connection.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", rows)
    monkeypatch.setattr(examination, "CHECK_S", 0.0)
    monkeypatch.setattr(examination, "STEPS", 1)
    kept.check()


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a file system of 24 megabytes."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tailor-test", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("ballast", [10, 100])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ballast: int) -> None:
    """The service is not ready with a few megabytes left, nor with none at all."""
    monkeypatch.setattr(readiness, "TTL_S", 0.0)
    if ballast == 100:
        monkeypatch.setattr(readiness, "LEAST_FREE", 0)  # only a write shows that it is full
    with small_disk(tmp_path / "disk") as disk, serving(disk, monkeypatch) as here:
        assert here.get("/ready") == {"status": "ok"}
        try:
            with (disk / "ballast").open("wb", buffering=0) as file:
                for _ in range(ballast * 256):
                    file.write(bytes(4096))
        except OSError:
            assert ballast == 100
        assert here.get("/ready", 503)["detail"] == readiness.FULL
        assert here.get("/health")["status"] == "ok"
        (disk / "ballast").unlink()
        assert here.get("/ready") == {"status": "ok"}


def test_a_home_that_is_gone(tmp_path: Path) -> None:
    assert asyncio.run(Readiness(tmp_path / "nothing", lambda: None).missing()) == "TAILOR_HOME cannot be written"


def test_one_look_at_a_time_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PATIENCE_S", 0.2)
    going, looks, clock = threading.Event(), 0, [0.0]

    def look() -> None:
        nonlocal looks
        looks += 1
        going.wait()

    asked = Readiness(tmp_path, look, lambda: clock[0])

    async def ask() -> tuple[list[str], str, str]:
        waited = await asyncio.gather(*(asked.missing() for _ in range(50)))
        going.set()
        while (missing := await asked.missing()) and looks == 1:
            await asyncio.sleep(0.01)
        clock[0] += 0.9
        shared = await asked.missing()
        return list(waited), missing, shared

    waited, missing, shared = asyncio.run(ask())
    assert set(waited) == {"disk and database have not answered for 0.2 s"}
    assert (missing, shared, looks) == ("", "", 1)
