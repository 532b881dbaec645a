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
