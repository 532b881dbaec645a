"""What a process of this TAILOR_HOME runs without a study: a lock that ends with the process, however that ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framework.errors import InputError

DIRECTORY = "running"


@contextmanager
def process_lock(home: Path, project: str) -> Iterator[None]:
    """Nobody else runs ``project`` meanwhile.  Raises InputError where somebody does.

    The file stays: were it removed, one process could hold a file that another has replaced.
    """
    path = home / DIRECTORY / f"{project}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{project} is being run by another process; wait for it, or stop it") from None
        yield


def known(home: Path) -> list[str]:
    """The projects that were ever held, whether they are or not."""
    return sorted(path.stem for path in (home / DIRECTORY).glob("*.lock"))
