"""The database that everything recorded shares: its connection, its migrations, its errors."""

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
RESTS = "tailor_rests"
RESTED_S = 1.0
MIGRATION_LOCK = 7_461_205  # any number, the same for every process: one of them migrates, the others wait
MIGRATIONS = Path(__file__).parent / "migrations"
VERSION = sa.table("alembic_version", sa.column("version_num"))  # a single row, which Alembic writes


class Database:
    """``url`` such as ``sqlite:////home/me/.tailor/tailor.db`` or ``postgresql+psycopg://user:password@host/tailor``.

    Raises StoreError where it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, json_serializer=lambda value: json.dumps(value, allow_nan=False))
        self._writing = self._engine.execution_options(**{WRITES: True})
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        if self.is_sqlite:
            sa.event.listen(self._engine, "connect", _sqlite_settings)
            sa.event.listen(self._engine, "begin", _sqlite_begin)
            self._reading = self._glancing = self._engine
        else:
            sa.event.listen(self._engine, "checkin", _rests)
            sa.event.listen(self._engine, "checkout", self._still_there)
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._glancing = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._migrate()

    def close(self) -> None:
        self._engine.dispose()

    @property
    def file(self) -> Path | None:
        """Where a SQLite database lies; None for one in memory, and for a server's."""
        name = self._engine.url.database if self.is_sqlite else None
        return Path(name).absolute() if name and name != ":memory:" else None

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """One moment of the database, for looking only.  Raises StoreBusy, StoreError."""
        return self._begun(self._reading)

    def glance(self) -> AbstractContextManager[sa.Connection]:
        """For a single statement that looks: a server is spared the begin and the end of a transaction.

        Raises StoreBusy, StoreError.
        """
        return self._begun(self._glancing)

    def transaction(self) -> AbstractContextManager[sa.Connection]:
        """All or nothing, one after the other.  Raises StoreBusy, StoreError."""
        return self._begun(self._writing)

    @contextmanager
    def ending(self, connection: sa.Connection) -> Iterator[None]:
        """What a transaction writes last: sent to a server with its end, without waiting for each statement's answer,
        which nobody may read.

        What was wrong with one of them is raised at the end, as by the statement itself.
        """
        psycopg: Any = self._engine.dialect.loaded_dbapi
        if self.is_sqlite or not psycopg.Pipeline.is_supported():
            yield
            return
        driver: Any = connection.connection.driver_connection
        try:
            with driver.pipeline():
                yield
                driver.commit()  # SQLAlchemy's own finds nothing left to commit
        except psycopg.Error as error:  # SQLAlchemy did not see it
            raise DBAPIError.instance(None, None, error, psycopg.Error, dialect=self._engine.dialect) from error

    @contextmanager
    def _begun(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except IntegrityError as error:
            raise StoreError(f"the store refused a row: {error.orig}") from error
        except OperationalError as error:
            if "locked" in str(error.orig) or not self.is_sqlite:  # a database server that is away comes back
                raise StoreBusy(f"the store does not answer: {_first_line(error)}") from error
            raise StoreError(f"the store cannot be used ({self._engine.url!r}): {error.orig}") from error
        except DBAPIError as error:
            raise StoreError(f"the store failed: {error.orig}") from error

    def _still_there(self, connection: Any, record: Any, _: Any) -> None:
        """A connection that has rested is tried before it is used: the server may have been away in between.

        Not one that was used a moment ago, where trying would double what a statement costs.
        """
        if time.monotonic() - record.info.get(RESTS, math.inf) < RESTED_S:
            return
        try:
            self._engine.dialect.do_ping(connection)
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error

    def _migrate(self) -> None:
        """Bring the schema to its newest version, unless it is there already, as it nearly always is."""
        if self._version() == newest_version():
            return
        from alembic import command  # here: only a new or an older database pays for it
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with self.transaction() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def _version(self) -> str | None:
        """The schema's version, None where there is no schema yet."""
        with self.glance() as connection:
            if not self._engine.dialect.has_table(connection, VERSION.name):
                return None
            return connection.execute(sa.select(VERSION)).scalar()


def newest_version() -> str:
    """The number of the newest migration, which begins the name of its file."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("*.py")).partition("_")[0]


Row = Mapping[str, Any]


def one_or_many(rows: Sequence[Row]) -> Row | Sequence[Row]:
    """One row alone is spared the protocol of many."""
    return rows if len(rows) > 1 else rows[0]


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _rests(_: Any, record: Any) -> None:
    record.info[RESTS] = time.monotonic()


def _sqlite_begin(connection: sa.Connection) -> None:
    """A writer takes its turn when it begins: one that read first could not become a writer while another writes."""
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _sqlite_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun here and not by the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers do not wait for the writer
    cursor.execute("PRAGMA synchronous=FULL")  # a finished trial survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()
