"""``workload.yaml`` and the files that it names -> what the load generator reads."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Any

from framework.config.checked import check
from framework.config.document import Document, KeyPath, read_document
from framework.config.reading import MIB, read_bytes
from framework.config.workload_file import WorkloadFile, check_references
from framework.errors import FileError

FILE_BYTES = 4 * MIB  # of one body or set of descriptors
FILES_BYTES = 16 * MIB  # of all of them: they travel in the plan of every run


def read_workload(path: Path) -> tuple[Document, WorkloadFile]:
    """Read and check the request mix; the document's data stay as the load generator reads them.  Raises FileError."""
    document = read_document(path)
    workload = check(document, WorkloadFile)
    check_references(document, workload)
    return document, workload


def load_workload_document(path: Path) -> dict[str, Any]:
    """Read and check the request mix.  Raises FileError."""
    data: dict[str, Any] = read_workload(path)[0].data
    return data


def workload_files(
    document: Document, workload: WorkloadFile, root: Path, data: Collection[Path] = ()
) -> dict[str, bytes]:
    """Read the files that a workload names, below the application's directory ``root``; name -> content.

    Hidden files and those in the directories of ``data``, which services write, are refused: the application's
    content hash leaves them out.  Raises FileError.
    """
    files: dict[str, bytes] = {}
    for key, name in workload.files:
        if name not in files:
            files[name] = _content(document, key, name, root)
            if any(Path(os.path.normpath(root / name)).is_relative_to(directory) for directory in data):
                raise document.error(key, name, "a file outside of the directories that services write")
        if sum(map(len, files.values())) > FILES_BYTES:
            raise document.error(key, name, f"files of together at most {FILES_BYTES // MIB} MiB")
    return files


def _content(document: Document, key: KeyPath, name: str, root: Path) -> bytes:
    path, inside = (root / name).resolve(), root.resolve()
    names = [*PurePosixPath(name).parts, *(path.relative_to(inside).parts if path.is_relative_to(inside) else [".."])]
    if PurePosixPath(name).is_absolute() or any(part.startswith(".") for part in names):
        raise document.error(key, name, "a file in the application's directory that is not hidden")
    try:
        return read_bytes(path, FILE_BYTES)
    except FileError as error:
        raise document.error(key, f"{name} ({error.found})", f"{error.allowed} at {path}") from None
