"""Lines that are appended to a log file, followed from its end through rotations and truncations.

Rotated by renaming, the old file is followed for a while beside the new one: its writer goes on with it until it is
told.  A line counts when its end has been written; a part of a line that never gets its end is none.  Lost is only
content that was never there to be read: cut off (``copytruncate``), or renamed twice, between two looks.  A
file that was cut off and has grown past its former length in that time cannot be told from one that only grew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OLD_S = 60.0  # a renamed file is followed until nothing was written to it for so long
CHUNK = 2**20  # bytes
LONGEST = 2**16  # bytes of a line; a longer one is passed over


@dataclass(slots=True)
class _File:
    """An open file, and the part of a line at its end."""

    descriptor: int
    at: int
    part: bytes = b""
    passing: bool = False
    """Within a line that is too long."""
    grown_s: float = 0.0

    @property
    def identity(self) -> tuple[int, int]:
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino

    def lines(self, now_s: float) -> Iterator[bytes]:
        if os.fstat(self.descriptor).st_size < self.at:  # cut off: it begins anew
            self.at, self.part, self.passing = 0, b"", False
        while chunk := os.pread(self.descriptor, CHUNK, self.at):
            self.at += len(chunk)
            self.grown_s = now_s
            *whole, part = (self.part + chunk).split(b"\n")
            for line in whole:
                if not self.passing and len(line) <= LONGEST:
                    yield line
                self.passing = False
            self.passing = self.passing or len(part) > LONGEST
            self.part = b"" if self.passing else part

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(slots=True)
class LogFollower:
    """Follows the file at ``path``.  Every method raises OSError where a file cannot be read."""

    path: Path
    _now: _File | None = field(default=None, init=False)
    _old: list[_File] = field(default_factory=list, init=False)

    def begin(self) -> list[bytes]:
        """Go to the end of the file; returns the whole lines of its last 64 KiB.  What comes is read by ``lines``."""
        file = _opened(self.path)
        size = os.fstat(file.descriptor).st_size
        start = max(0, size - LONGEST)
        tail = os.pread(file.descriptor, size - start, start)
        *whole, file.part = tail.split(b"\n")
        file.at = start + len(tail)
        self._now = file
        return whole[1:] if start else whole

    def lines(self, now_s: float) -> list[bytes]:
        """Return the lines that were ended since the last call, without their ends.

        Raises FileNotFoundError where the file is away and nothing was read: between two steps of a rotation, or
        because the log has ended.
        """
        lines: list[bytes] = []
        missing: OSError | None = None
        try:
            self._turn(now_s)
        except OSError as error:
            missing = error
        for file in (*self._old, *([self._now] if self._now is not None else [])):
            lines.extend(file.lines(now_s))
        for file in [file for file in self._old if now_s - file.grown_s > OLD_S]:
            self._old.remove(file)
            file.close()
        if missing is not None and not lines:
            raise missing
        return lines

    def close(self) -> None:
        """Close all files."""
        for file in (*self._old, *([self._now] if self._now is not None else [])):
            file.close()
        self._old, self._now = [], None

    def _turn(self, now_s: float) -> None:
        """Open the file that is now at the path, where it is another one."""
        status = self.path.stat()
        if self._now is not None and self._now.identity == (status.st_dev, status.st_ino):
            return
        known = [old for old in self._old if old.identity == (status.st_dev, status.st_ino)]
        file = known[0] if known else _opened(self.path)  # it may have been renamed back
        self._old = [old for old in self._old if old is not file]
        if self._now is not None:
            self._now.grown_s = now_s
            self._old.append(self._now)
        self._now = file


def _opened(path: Path) -> _File:
    """Open a file at its beginning.  Raises OSError, also where it is a pipe or a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return _File(descriptor, 0)
