"""Writes a deployment's document and the files it mounts where compose and a curious person find them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from framework.config.writing import to_yaml
from framework.errors import DeploymentFailed, StoreError

DOCUMENT = "compose.yaml"


def compose_file(directory: Path) -> Path:
    return directory / DOCUMENT


def write(directory: Path, document: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Make ``directory`` hold exactly these files; unchanged ones are not touched, since a container may mount them.

    Raises StoreError when the directory cannot be written (read-only, full, not ours): no configuration is at fault.
    """
    texts = {DOCUMENT: to_yaml(document)}
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) == DOCUMENT:
            raise DeploymentFailed(f"a mounted file must lie below the deployment's directory, not at {name}")
        texts[str(path)] = text
    try:
        _remove_others(directory, texts)
        for name, text in texts.items():
            _put(directory / name, text)
    except OSError as error:
        place = error.filename or directory
        raise StoreError(
            f"cannot write {place}: {error.strerror or error}; free or unlock it, or set TAILOR_HOME"
        ) from error


def _put(path: Path, text: str) -> None:
    """Write all or nothing: a reader never sees half of a file."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return
    if path.is_dir():  # the engine makes a directory where a mounted file is missing
        path.rmdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.chmod(0o755 if text.startswith("#!") else 0o644)  # read by the users that servers run as
    os.replace(temporary, path)  # noqa: PTH105 - the same call on a Path object says "replace" as if it were text


def _remove_others(directory: Path, wanted: Mapping[str, str]) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name not in wanted:
            path.unlink()
        elif path.is_dir() and not any(kept.startswith(f"{name}/") for kept in wanted) and not any(path.iterdir()):
            path.rmdir()
