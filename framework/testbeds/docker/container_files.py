"""Text files inside containers, read by the engine: no shell is needed, and the container need not run."""

from __future__ import annotations

import io
import posixpath
import tarfile

from framework.testbeds.docker.engine import Engine

LARGEST = 4 << 20  # bytes of a file
LINK = "\0"  # begins what stands for a symbolic link; no text file has it
MOST_LINKS = 8


def text_of(engine: Engine, container: str, path: str) -> str | None:
    """Return the text of a file, with links followed; None where there is no such text file of at most 4 MiB."""
    for _ in range(MOST_LINKS):
        data = engine.archive(container, path)
        text = _content(data) if data is not None else None
        if text is None or not text.startswith(LINK):
            return text
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), text.removeprefix(LINK)))
    return None


def _content(data: bytes) -> str | None:
    """Return the text of the only file of an archive, ``LINK`` and the target for a link; None for anything else."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        member = archive.next()
        if member is None:
            return None
        if member.issym():
            return f"{LINK}{member.linkname}"
        file = archive.extractfile(member) if member.isfile() and member.size <= LARGEST else None
        try:
            return file.read().decode() if file is not None else None
        except UnicodeDecodeError:
            return None


def names_in(engine: Engine, container: str, directory: str) -> tuple[str, ...]:
    """Return the names of the files and links in a directory; none where there is no directory."""
    data = engine.archive(container, directory)
    if data is None:
        return ()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [member for member in archive if member.isfile() or member.issym()]
    paths = [member.name.strip("/").split("/") for member in members]
    return tuple(sorted(parts[1] for parts in paths if len(parts) == 2))
