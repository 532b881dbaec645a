"""Large things as files named by the SHA-256 of their content, compressed."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from pathlib import Path

from framework.errors import NotFound, StoreError


class FileArtefacts:
    """ArtefactStore in a directory: two-letter folders, one zlib file each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, data: bytes) -> str:
        """Keep ``data``; returns its digest.  Raises StoreError when the disk refuses."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if path.exists():
            return digest
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed, so that a crash never leaves half a file under a digest.
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(data, 6))
            Path(temporary).rename(path)
        except OSError as error:
            raise StoreError(f"cannot write below {self._directory}: {error.strerror or error}") from error
        return digest

    def get(self, digest: str) -> bytes:
        """The data of a digest.  Raises NotFound, or StoreError when the file is damaged."""
        try:
            data = zlib.decompress(self._path(digest).read_bytes())
        except OSError as error:
            raise NotFound(f"no artefact {digest}") from error
        except zlib.error as error:
            raise StoreError(f"artefact {digest} is damaged: {error}") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreError(f"artefact {digest} is damaged: its content has another digest")
        return data

    def _path(self, digest: str) -> Path:
        return self._directory / digest[:2] / digest
