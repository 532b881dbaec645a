"""Reading of files that a user names: regular files only, of a bounded size.

A device has no end, a pipe waits for its writer, and a file may grow while it is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from framework.errors import FileError

MIB = 2**20
CONFIGURATION_BYTES = 16 * MIB  # YAML and JSON that people or their programs write
RECORD_BYTES = 512 * MIB  # profiles, evidence, recorded studies, runs of a race
TRACES_BYTES = 8 * 1024 * MIB  # a document of traces
STUDY_BYTES = 1024 * MIB  # an archive that `tailor export` writes
APPLICATION_BYTES = 16 * 1024 * MIB  # any file of an application's directory, which is hashed and not kept
CHUNK_BYTES = MIB

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: Path, most: int = CONFIGURATION_BYTES) -> BinaryIO:
    """Open a file; the caller closes it.  Raises FileError unless it is a regular file of at most ``most`` bytes."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise FileError(path, "", "no such file", "a file that exists") from None
    except (OSError, ValueError) as error:  # ValueError for a NUL in a name
        raise FileError(path, "", getattr(error, "strerror", None) or "unreadable", "a readable file") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
            raise FileError(path, "", f"{kind}, not a regular file", "a regular file")
        if status.st_size > most:
            raise _too_large(path, most)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, most: int = CONFIGURATION_BYTES) -> bytes:
    """Read the content of a file.  Raises FileError unless it is a regular file of at most ``most`` bytes."""
    with open_regular(path, most) as file:
        try:
            data = file.read(os.fstat(file.fileno()).st_size + 1)
            while part := file.read(CHUNK_BYTES):  # the file grows, or is of /proc, where sizes are 0
                data += part
                if len(data) > most:
                    break
        except OSError as error:
            raise FileError(path, "", error.strerror or "unreadable", "a readable file") from None
    if len(data) > most:
        raise _too_large(path, most)
    return data


def read_text(path: Path, most: int = CONFIGURATION_BYTES) -> str:
    """Read a UTF-8 file without its byte-order mark.  Raises FileError as ``read_bytes``, or where it is not UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(path, "", f"byte {error.start} is not UTF-8", "UTF-8 text") from None


def _too_large(path: Path, most: int) -> FileError:
    return FileError(path, "", "a larger file", f"at most {most // MIB} MiB")
