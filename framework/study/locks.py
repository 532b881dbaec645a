"""Locks on compose projects that belong to no study, such as profiles, and on files of sweeps.

The kernel drops them when the process ends.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framework.errors import InputError

DIRECTORY, FILES = "running", "measuring"  # the names of the first are projects


@contextmanager
def process_lock(home: Path, project: str) -> Iterator[None]:
    """Keep other processes of this TAILOR_HOME from running ``project``.  Raises InputError where one runs it.

    The file stays: if it were removed, two processes could lock two files of one name.
    """
    with _locked(home / DIRECTORY / f"{project}.lock", f"{project} is being run"):
        yield


@contextmanager
def file_lock(home: Path, file: Path) -> Iterator[None]:
    """Keep other processes of this TAILOR_HOME from measuring into ``file``.  Raises InputError where one does."""
    place = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]
    with _locked(home / FILES / f"{place}.lock", f"{file}: it is being measured into"):
        yield


@contextmanager
def _locked(path: Path, doing: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{doing} by another process; wait for it, or stop it") from None
        yield


def known_projects(home: Path) -> list[str]:
    """Return the projects that were ever locked, running or not."""
    return sorted(path.stem for path in (home / DIRECTORY).glob("*.lock"))
