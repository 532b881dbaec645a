"""Stores of artefacts, compressed and named by the SHA-256 of their content.

Files for one machine, a table for several machines.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Collection
from pathlib import Path

import sqlalchemy as sa

from framework.errors import NotFound, StoreError
from framework.ports.clock import Clock
from framework.store.database import Database
from framework.store.schema import artefacts

DIGEST = re.compile(r"[0-9a-f]{64}")


class FileArtefacts:
    """ArtefactStore in a directory: one zlib file per artefact, in folders of two hexadecimal digits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, data: bytes) -> str:
        """Keep ``data``; return its digest.  Raises StoreError where the disk refuses."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        try:
            if path.exists():
                path.touch()  # now young, so that remove_but leaves it alone
                return digest
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written to a temporary file and renamed, so that a crash never leaves half a file under a digest.
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(data, 6))
            Path(temporary).rename(path)
        except OSError as error:
            raise StoreError(f"cannot write below {self._directory}: {error.strerror or error}") from error
        return digest

    def get(self, digest: str) -> bytes:
        """Return the data of a digest.  Raises NotFound, and StoreError where the file is damaged."""
        try:
            compressed = self._path(digest).read_bytes()
        except (OSError, ValueError) as error:
            raise NotFound(f"no artefact {digest}") from error
        return _checked(digest, compressed)

    def remove_but(self, referred: Collection[str], before_ns: int) -> int:
        """Remove artefacts that were last put before a time and are not ``referred`` to; return how many.

        Raises StoreError.
        """
        removed = 0
        for path in self._directory.glob("??/*"):
            try:
                if path.name not in referred and path.stat().st_mtime_ns < before_ns:
                    path.unlink()
                    removed += len(path.name) == 64  # a temporary file of a crash has another length
            except FileNotFoundError:  # another process removed it
                continue
            except OSError as error:
                raise StoreError(f"cannot remove {path}: {error.strerror or error}") from error
        return removed

    def _path(self, digest: str) -> Path:
        """Return the file of a digest.  Raises ValueError for other text, which could lead out of the directory."""
        if not DIGEST.fullmatch(digest):
            raise ValueError(f"{digest[:80]!r} is no digest")
        return self._directory / digest[:2] / digest


class SqlArtefacts:
    """ArtefactStore in the database that all workers share."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, data: bytes) -> str:
        """Keep ``data``; return its digest.  Raises StoreBusy, StoreError."""
        from sqlalchemy.dialects import postgresql, sqlite  # here: artefacts in files need neither

        digest = hashlib.sha256(data).hexdigest()
        row = {"digest": digest, "data": zlib.compress(data, 6), "put_ns": self._clock.now_ns()}
        insert = sqlite.insert(artefacts) if self._database.is_sqlite else postgresql.insert(artefacts)
        again = insert.values(row).on_conflict_do_update(
            index_elements=[artefacts.c.digest], set_={"put_ns": row["put_ns"]}
        )
        with self._database.transaction() as connection:
            connection.execute(again)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the data of a digest.  Raises NotFound, StoreBusy, and StoreError where they are damaged."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(artefacts.c.data).where(artefacts.c.digest == digest)).first()
        if row is None:
            raise NotFound(f"no artefact {digest}")
        return _checked(digest, row.data)

    def remove_but(self, referred: Collection[str], before_ns: int) -> int:
        """Remove artefacts that were last put before a time and are not ``referred`` to; return how many."""
        with self._database.transaction() as connection:
            old = artefacts.c.put_ns < before_ns
            digests = connection.execute(sa.select(artefacts.c.digest).where(old)).scalars().all()
            unused = [digest for digest in digests if digest not in referred]
            for first in range(0, len(unused), 500):  # a statement takes a limited number of parameters
                some = artefacts.c.digest.in_(unused[first : first + 500])
                connection.execute(artefacts.delete().where(old & some))
        return len(unused)


def _checked(digest: str, compressed: bytes) -> bytes:
    try:
        data = zlib.decompress(compressed)
    except zlib.error as error:
        raise StoreError(f"artefact {digest} is damaged: {error}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"artefact {digest} is damaged: its content has another digest")
    return data
