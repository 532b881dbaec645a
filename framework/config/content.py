"""The content hash of an application: of every file that its deployment is made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.config.reading import APPLICATION_BYTES, CHUNK_BYTES, open_regular
from framework.config.twin_file import twin_path
from framework.errors import FileError


def written_directories(services: Mapping[str, Any], root: Path) -> frozenset[Path]:
    """Return the directories below ``root`` that a service mounts and may write: data, which change as it runs."""
    directories = set()
    for source, read_only in _mounts(services):
        path = Path(os.path.normpath(root / source))
        if source and "/" in source and not read_only and path != root and path.is_relative_to(root) and path.is_dir():
            directories.add(path)
    return frozenset(directories)


def _mounts(services: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield source and whether it is read-only of every mount."""
    for mount in (mount for service in services.values() for mount in service.get("volumes") or []):
        if isinstance(mount, Mapping):
            yield str(mount.get("source", "")), mount.get("read_only") in (True, "true")
        else:
            source, _, rest = str(mount).partition(":")
            yield source, "ro" in rest.partition(":")[2].split(",")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Inputs of a deployment outside of the application's directory: the compose document, and files that it names."""

    document: Mapping[str, Any]
    files: tuple[Path, ...]


def mounted_files(document: Mapping[str, Any], base: Path) -> tuple[Path, ...]:
    """Return the files that a document mounts, those below its read-only mounts, and those that it reads otherwise."""
    mounts = [(source, read_only) for source, read_only in _mounts(document["services"]) if "/" in source]
    named = [source for source, _ in mounts]
    for section in ("configs", "secrets"):
        entries = (document.get(section) or {}).values()
        named += [str(entry["file"]) for entry in entries if isinstance(entry, Mapping) and entry.get("file")]
    for service in document["services"].values():
        files = service.get("env_file") or []
        for entry in files if isinstance(files, list) else [files]:
            named.append(str(entry.get("path", "")) if isinstance(entry, Mapping) else str(entry))
    only_read = {os.path.normpath(base / source) for source, read_only in mounts if read_only}
    only_read -= {os.path.normpath(base / source) for source, read_only in mounts if not read_only}
    paths: set[Path] = set()
    for name in named:
        path = Path(os.path.normpath(base / name))
        if path.is_file():
            paths.add(path)
        elif path.is_dir() and str(path) in only_read:
            paths |= set(_files(path, ()))
    return tuple(sorted(paths))


def content_hash(directory: Path, data: Collection[Path] = (), elsewhere: Elsewhere | None = None) -> str:
    """Hash path, length and content of every file below ``directory``, in the order of paths, to 16 hex digits.

    ``elsewhere``: further inputs.

    Hidden files, caches of interpreters, the application's twin and the directories of ``data`` are left out: they
    change while the application stays as it is.
    """
    digest = hashlib.sha256()
    for path in _files(directory, data):
        name = path.relative_to(directory).as_posix().encode()
        if path.is_symlink():
            target = os.fsencode(path.readlink())
            digest.update(b"%d %b %d " % (len(name), name, len(target)) + target)
        else:
            _add_content(digest, path, name)
    if elsewhere is not None:
        digest.update(json.dumps(elsewhere.document, sort_keys=True, default=str).encode())
        for path in elsewhere.files:
            _add_content(digest, path, os.fsencode(path))
    return digest.hexdigest()[:16]


def files_digest(paths: Iterable[Path]) -> str:
    """Hash path, length and content of files, in the given order, to 16 hex digits.  Raises FileError."""
    digest = hashlib.sha256()
    for path in paths:
        _add_content(digest, path, os.fsencode(path))
    return digest.hexdigest()[:16]


def _add_content(digest: hashlib._Hash, path: Path, name: bytes) -> None:
    """Hash a file's name, length and content, in pieces: it may be larger than memory.  Raises FileError."""
    with open_regular(path, APPLICATION_BYTES) as file:
        left = os.fstat(file.fileno()).st_size
        digest.update(b"%d %b %d " % (len(name), name, left))
        try:
            while part := file.read(min(left, CHUNK_BYTES)):
                digest.update(part)
                left -= len(part)
            left -= len(file.read(1))
        except OSError as error:
            raise FileError(path, "", error.strerror or "unreadable", "a readable file") from None
    if left:
        raise FileError(path, "", "a file that changed while it was read", "files that stay as they are")


def _files(directory: Path, data: Collection[Path]) -> list[Path]:
    paths: list[Path] = []
    for folder, folders, names in os.walk(directory):
        left_out = {path.name for path in data if path.parent == Path(folder)} | {"__pycache__"}
        folders[:] = [name for name in folders if not name.startswith(".") and name not in left_out]
        paths += [Path(folder, name) for name in names if not name.startswith(".")]
        paths += [Path(folder, name) for name in folders if Path(folder, name).is_symlink()]
    kept = (path for path in paths if path != twin_path(directory))
    return sorted(kept, key=lambda path: path.relative_to(directory).as_posix())
