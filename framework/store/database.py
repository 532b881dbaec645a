"""The database of the store: its connections, its migrations, its errors."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from framework.errors import StoreBusy, StoreError

WRITES = "tailor_writes"
IDLE_SINCE = "tailor_idle_since"
IDLE_S = 1.0
MIGRATION_LOCK = 7_461_205  # an arbitrary number, equal in every process: one migrates, the others wait
MIGRATIONS = Path(__file__).parent / "migrations"
VERSION = sa.table("alembic_version", sa.column("version_num"))  # one row, written by Alembic


class Database:
    """A database by its URL, such as ``sqlite:////home/me/.tailor/tailor.db`` or ``postgresql+psycopg://host/tailor``.

    Raises StoreError where it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, json_serializer=lambda value: json.dumps(value, allow_nan=False))
        self._writing = self._engine.execution_options(**{WRITES: True})
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        if self.is_sqlite:
            sa.event.listen(self._engine, "connect", _sqlite_settings)
            sa.event.listen(self._engine, "begin", _sqlite_begin)
            self._reading = self._single = self._engine
        else:
            sa.event.listen(self._engine, "checkin", _note_idle)
            sa.event.listen(self._engine, "checkout", self._check_alive)
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._migrate()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database; None for one in memory, and for a server."""
        name = self._engine.url.database if self.is_sqlite else None
        return Path(name).absolute() if name and name != ":memory:" else None

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Open a read-only transaction that sees one snapshot.  Raises StoreBusy, StoreError."""
        return self._begun(self._reading)

    def single_read(self) -> AbstractContextManager[sa.Connection]:
        """Open a connection for a single SELECT: on a server, without the round trips of BEGIN and COMMIT.

        Raises StoreBusy, StoreError.
        """
        return self._begun(self._single)

    def transaction(self) -> AbstractContextManager[sa.Connection]:
        """Open a transaction that may write: all or nothing, one writer at a time.  Raises StoreBusy, StoreError."""
        return self._begun(self._writing)

    @contextmanager
    def pipelined_commit(self, connection: sa.Connection) -> Iterator[None]:
        """Send the statements of the block and the COMMIT to a server without waiting for each answer.

        The block must not read results.  An error of a statement is raised at the end of the block.
        """
        psycopg: Any = self._engine.dialect.loaded_dbapi
        if self.is_sqlite or not psycopg.Pipeline.is_supported():
            yield
            return
        driver: Any = connection.connection.driver_connection
        try:
            with driver.pipeline():
                yield
                driver.commit()  # SQLAlchemy's own COMMIT then has nothing to do
        except psycopg.Error as error:  # raised past SQLAlchemy
            raise DBAPIError.instance(None, None, error, psycopg.Error, dialect=self._engine.dialect) from error

    @contextmanager
    def _begun(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise StoreError(f"the store refused a row: {error.orig}") from error
        except OperationalError as error:
            if "locked" in str(error.orig) or not self.is_sqlite:  # a database server that is away may come back
                raise StoreBusy(f"the store does not answer: {_first_line(error)}") from error
            raise StoreError(f"the store cannot be used ({self._engine.url!r}): {error.orig}") from error
        except DBAPIError as error:
            raise StoreError(f"the store failed: {error.orig}") from error

    def _check_alive(self, connection: Any, record: Any, _: Any) -> None:
        """Ping a connection that was idle before it is used: the server may have restarted in between.

        A connection that was used a moment ago is not pinged, because that would double the cost of a statement.
        """
        if time.monotonic() - record.info.get(IDLE_SINCE, math.inf) < IDLE_S:
            return
        try:
            self._engine.dialect.do_ping(connection)
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error

    def _migrate(self) -> None:
        """Bring the schema to its newest version, if it is older."""
        if self._version() == newest_version():
            return
        from alembic import command  # here: only a new or an old database needs it
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with self.transaction() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def _version(self) -> str | None:
        """Return the schema's version, None where there is no schema yet."""
        with self.single_read() as connection:
            if not self._engine.dialect.has_table(connection, VERSION.name):
                return None
            return connection.execute(sa.select(VERSION)).scalar()


def newest_version() -> str:
    """Return the number of the newest migration, with which the name of its file begins."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("*.py")).partition("_")[0]


Row = Mapping[str, Any]


def one_or_many(rows: Sequence[Row]) -> Row | Sequence[Row]:
    """Return a single row by itself, so that the driver does not execute it as many."""
    return rows if len(rows) > 1 else rows[0]


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _note_idle(_: Any, record: Any) -> None:
    record.info[IDLE_SINCE] = time.monotonic()


def _sqlite_begin(connection: sa.Connection) -> None:
    """Take the write lock at the start of a writing transaction: SQLite refuses it later if another one wrote."""
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _sqlite_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _sqlite_begin, not by the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers do not wait for a writer
    cursor.execute("PRAGMA synchronous=FULL")  # a finished trial survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()
