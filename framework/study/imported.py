"""Descriptions of applications that came with studies from elsewhere, below TAILOR_HOME: looked at, never run.

Each lies in a directory of its own, named by its study, and leaves with it.
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
    """The directory of a study's description.  Raises StoreError for what is no id of a study."""
    if not is_study_id(study):
        raise StoreError(f"{study!r} is no id of a study")
    return home / IMPORTED / study


def remove_description(home: Path, study: str) -> None:
    """Remove what came with a study, where something did."""
    if is_study_id(study):
        shutil.rmtree(description(home, study), ignore_errors=True)


@contextmanager
def arriving(
    home: Path, study: str, application: str, names: Sequence[str], read: Callable[[str], bytes]
) -> Iterator[Callable[[], None]]:
    """Write a description aside; inside the block what is yielded puts it in its place, by one rename.

    Whatever else happens, nothing of it stays.  ``names``: relative paths below the directory ``application``; ``read``
    gives their content.  Raises StoreError where it cannot be written.
    """
    target = description(home, study)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".arriving-", dir=target.parent))
    except OSError as error:
        raise StoreError(f"cannot write below {target.parent}: {error.strerror or error}") from error

    def arrive() -> None:
        try:
            shutil.rmtree(target, ignore_errors=True)  # of a study that is not here any more
            aside.rename(target)
        except OSError as error:
            raise StoreError(f"cannot write {target}: {error.strerror or error}") from error

    try:
        for name in names:
            file = aside / application / name
            content = read(name)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            except OSError as error:
                raise StoreError(f"cannot write below {target.parent}: {error.strerror or error}") from error
        yield arrive
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def needs_application(study: Study, home: Path) -> None:
    """Raises InputError where a study came without its application: a description has no secrets and no mounts."""
    if study.directory.resolve().is_relative_to((home / IMPORTED).resolve()):
        raise InputError(
            f"study {study.id} came without its application, whose passwords and files are not here; "
            "allowed: a study that was imported with ", FieldName("application"), " DIR",
        )  # fmt: skip
