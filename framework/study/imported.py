"""Descriptions of applications that came with imported studies, below TAILOR_HOME: for reports, never run.

Each lies in a directory that is named by its study and removed with it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from framework.errors import FieldName, InputError, StoreError
from framework.model import Study
from framework.model.identity import is_study_id

IMPORTED = "imported"  # below Tailor's home


def description(home: Path, study: str) -> Path:
    """Return the directory of a study's description.  Raises StoreError where ``study`` is no id of a study."""
    if not is_study_id(study):
        raise StoreError(f"{study!r} is no id of a study")
    return home / IMPORTED / study


def remove_description(home: Path, study: str) -> None:
    """Remove the description that came with a study, if there is one."""
    if is_study_id(study):
        shutil.rmtree(description(home, study), ignore_errors=True)


@contextmanager
def staged_description(
    home: Path, study: str, application: str, names: Sequence[str], read: Callable[[str], bytes]
) -> Iterator[Callable[[], None]]:
    """Write a description to a temporary directory; yield a function that moves it into place by one rename.

    Without a call of that function inside the block nothing of it stays.  ``names``: relative paths below the directory
    ``application``; ``read`` returns their content.  Raises StoreError where the description cannot be written.
    """
    target = description(home, study)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".arriving-", dir=target.parent))
    except OSError as error:
        raise StoreError(f"cannot write below {target.parent}: {error.strerror or error}") from error

    def publish() -> None:
        try:
            shutil.rmtree(target, ignore_errors=True)  # of a study that is not here any more
            staging.rename(target)
        except OSError as error:
            raise StoreError(f"cannot write {target}: {error.strerror or error}") from error

    try:
        for name in names:
            file = staging / application / name
            content = read(name)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            except OSError as error:
                raise StoreError(f"cannot write below {target.parent}: {error.strerror or error}") from error
        yield publish
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def needs_application(study: Study, home: Path) -> None:
    """Raise InputError where a study was imported without its application: a description cannot be deployed."""
    if study.directory.resolve().is_relative_to((home / IMPORTED).resolve()):
        raise InputError(
            f"study {study.id} came without its application, whose passwords and files are not here; "
            "allowed: a study that was imported with ", FieldName("application"), " DIR",
        )  # fmt: skip
