"""Whether the database can be used: what readiness asks, and never waits long for."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa

from framework.errors import StoreBusy, StoreError
from framework.store.database import Database
from framework.store.schema import keys, metadata

LOCKED_S = 2.0  # a writer takes milliseconds
LOOKED_S = 0.2  # at the pages of a SQLite file: a large one is looked at in part only
STEPS = 1_000  # of SQLite's machine between two looks at the clock


def examine(database: Database) -> None:
    """Read the schema and each table, and take a writer's turn.  Raises StoreError where that fails.

    A SQLite file is opened anew: connections that are open have in memory what may be lost on the disk.
    """
    place = database.file
    if place is not None:
        _examine_file(place)
        return
    with database.transaction() as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.select(table).limit(1)).first()
        connection.execute(keys.delete().where(sa.false()))  # refused where a server lets nobody write


def _examine_file(place: Path) -> None:
    if not os.access(place, os.W_OK):  # SQLite itself would take it for one that may be read only
        raise StoreError(f"the database {place} is not there, or cannot be written")
    try:
        connection = sqlite3.connect(f"{place.as_uri()}?mode=rw", uri=True, timeout=LOCKED_S, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"the database {place} cannot be opened: {error}") from error
    try:
        _looked_at(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM keys WHERE false")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreBusy(f"the database {place} is locked") from error
        raise StoreError(f"the database {place} cannot be used: {error}") from error
    except sqlite3.Error as error:
        raise StoreError(f"the database {place} is damaged: {error}") from error
    finally:
        connection.close()


def _looked_at(connection: sqlite3.Connection) -> None:
    """Each table, and as many pages as there is time for.  Raises sqlite3.Error."""
    for table in metadata.sorted_tables:
        connection.execute(f'SELECT * FROM "{table.name}" LIMIT 1').fetchone()
    deadline = time.monotonic() + LOOKED_S
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), STEPS)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        found = ("ok",)
    finally:
        connection.set_progress_handler(None, 0)
    if found != ("ok",):
        raise sqlite3.DatabaseError(str(found))
