"""A quick check that the database can be used, for the readiness of the service."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa

from framework.errors import StoreBusy, StoreError
from framework.store.database import Database
from framework.store.schema import keys, metadata

LOCKED_S = 2.0  # limit of the wait for another writer, which takes milliseconds
CHECK_S = 0.2  # limit of the check of a SQLite file's pages: of a large file, only a part is checked
STEPS = 1_000  # instructions of SQLite's virtual machine between two looks at the clock


def examine(database: Database) -> None:
    """Read the schema and each table, and begin to write.  Raises StoreError where that fails, StoreBusy.

    A SQLite file is opened anew: open connections have pages in memory that may be damaged on the disk.
    """
    file = database.file
    if file is not None:
        _examine_file(file)
        return
    with database.transaction() as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.select(table).limit(1)).first()
        connection.execute(keys.delete().where(sa.false()))  # fails on a read-only server


def _examine_file(path: Path) -> None:
    if not os.access(path, os.W_OK):  # SQLite itself would open it read-only
        raise StoreError(f"the database {path} is not there, or cannot be written")
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCKED_S, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} cannot be opened: {error}") from error
    try:
        _check_tables(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM keys WHERE false")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise StoreBusy(f"the database {path} is locked") from error
        raise StoreError(f"the database {path} cannot be used: {error}") from error
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} is damaged: {error}") from error
    finally:
        connection.close()


def _check_tables(connection: sqlite3.Connection) -> None:
    """Read each table, and check as many pages as there is time for.  Raises sqlite3.Error."""
    for table in metadata.sorted_tables:
        connection.execute(f'SELECT * FROM "{table.name}" LIMIT 1').fetchone()
    deadline = time.monotonic() + CHECK_S
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), STEPS)
    try:
        result = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        result = ("ok",)
    finally:
        connection.set_progress_handler(None, 0)
    if result != ("ok",):
        raise sqlite3.DatabaseError(str(result))
