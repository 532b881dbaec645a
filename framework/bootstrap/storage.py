"""The place of studies: below TAILOR_HOME, or on a database server."""

from __future__ import annotations

import time
from dataclasses import dataclass

from framework.config.settings import Settings
from framework.errors import InputError
from framework.store.artefacts import FileArtefacts, SqlArtefacts
from framework.store.database import Database
from framework.store.studies import SqlStudyStore


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Storage:
    """An open database with the stores that everything else works on."""

    database: Database
    artefacts: FileArtefacts | SqlArtefacts
    studies: SqlStudyStore
    clock: SystemClock


def storage(settings: Settings) -> Storage:
    """Open the storage of ``settings``.  Raises InputError when ``settings.home`` cannot be written, StoreError."""
    clock = SystemClock()
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"TAILOR_HOME: cannot create {settings.home}: {error.strerror}") from error
    database = Database(settings.database)
    # A SQLite file belongs to one machine; on a database server the large artefacts are shared as well.
    artefacts = FileArtefacts(settings.home / "artefacts") if database.is_sqlite else SqlArtefacts(database, clock)
    return Storage(database, artefacts, SqlStudyStore(database, artefacts, clock), clock)
