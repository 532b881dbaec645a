"""Directory of a deployment: its compose document and the files that it mounts, for compose and for people to read."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from framework.config.writing import to_yaml
from framework.errors import DeploymentFailed, StoreError

DOCUMENT = "compose.yaml"
MAX_COPIED = 64 * 2**20  # bytes of a mounted file; data are in directories and volumes


def compose_file(directory: Path) -> Path:
    return directory / DOCUMENT


def write(
    directory: Path,
    document: Mapping[str, Any],
    files: Mapping[str, str],
    copies: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Make ``directory`` hold exactly these files; unchanged ones are not touched, since a container may mount them.

    ``files``: name -> text.  ``copies``: name -> file of the user's, copied because a service may write to it.
    Raises StoreError when the directory cannot be written (read-only, full, not ours): no configuration is at fault;
    DeploymentFailed where a file cannot be copied.
    """
    texts = {DOCUMENT: to_yaml(document)}
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) == DOCUMENT:
            raise DeploymentFailed(f"a mounted file must lie below the deployment's directory, not at {name}")
        texts[str(path)] = text
    try:
        _remove_others(directory, texts.keys() | copies.keys())
        for name, text in texts.items():
            _put(directory / name, text.encode(), 0o755 if text.startswith("#!") else 0o644)
        for name, source in copies.items():
            _put(directory / name, *_read(source))
    except OSError as error:
        place = error.filename or directory
        raise StoreError(
            f"cannot write {place}: {error.strerror or error}; free or unlock it, or set TAILOR_HOME"
        ) from error


def _read(source: Path) -> tuple[bytes, int]:
    """Return (content, mode) of a file of the user's.  Raises DeploymentFailed."""
    try:
        mode = source.stat().st_mode
        if not stat.S_ISREG(mode) or source.stat().st_size > MAX_COPIED:
            raise DeploymentFailed(f"{source} cannot be copied; allowed: a file of at most {MAX_COPIED >> 20} MiB")
        return source.read_bytes(), stat.S_IMODE(mode)
    except OSError as error:
        raise DeploymentFailed(f"{source} cannot be copied: {error.strerror or error}") from error


def _put(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically: a reader never sees half of it."""
    if path.is_file() and path.read_bytes() == data:
        return
    if path.is_dir():  # the engine makes a directory where a mounted file is missing
        path.rmdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.chmod(mode)  # read by the users that servers run as
    os.replace(temporary, path)  # noqa: PTH105 - the same call on a Path object says "replace" as if it were text


def _remove_others(directory: Path, wanted: Collection[str]) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name not in wanted:
            path.unlink()
        elif path.is_dir() and not any(kept.startswith(f"{name}/") for kept in wanted) and not any(path.iterdir()):
            path.rmdir()
