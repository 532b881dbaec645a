"""Audit logs of guards: a directory below TAILOR_HOME for each guard, an entry a line, written at once."""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from framework.errors import NotFound
from framework.model.guard_record import Began, Decided, EndedAt, Entry, Summary, entry_document, entry_of

AUDIT, REPORT, OUTPUT = "audit.jsonl", "report.html", "output"
MARK_EVERY = 1000  # lines
QUIET_S = 30.0  # a guard that has written nothing for so long has ended without saying so


class FollowedAudit:
    """An audit log of which only what is new is read: its sums, and where in the file each time lies.

    ``ended``: None while the guard goes on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ended: EndedAt | None = None
        self._sums: tuple[Began, Summary] | None = None
        self._read_to = self._lines = 0
        self._marks: list[tuple[float, int]] = []  # time of an entry, where its line begins
        self._lock = threading.Lock()

    def follow(self) -> None:
        """Read what was written since the last time."""
        with self._lock, self._path.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                entry = _entry(line)
                if entry is not None:
                    self._take(entry)
                self._read_to += len(line)
                self._lines += 1

    def _take(self, entry: Entry) -> None:
        if self._lines % MARK_EVERY == 0:
            self._marks.append((entry.time_s, self._read_to))
        if isinstance(entry, Began):
            self._sums = entry, Summary(entry.host, entry.power)
        elif isinstance(entry, Decided):
            self.summary.take(entry)
        elif isinstance(entry, EndedAt):
            self.ended = entry

    @property
    def began(self) -> Began:
        """The first entry.  Raises NotFound until it is written."""
        return self._known()[0]

    @property
    def summary(self) -> Summary:
        """Sums of what was read.  Raises NotFound until the first entry is written."""
        return self._known()[1]

    def _known(self) -> tuple[Began, Summary]:
        if self._sums is None:
            raise NotFound(f"the guard {self._path.parent.name} has written nothing yet")
        return self._sums

    def after(self, time_s: float) -> list[Entry]:
        """Return the entries after a time, of what was read."""
        with self._lock:
            at = bisect_left(self._marks, (time_s, -1)) - 1
            begin, end = (self._marks[at][1] if at >= 0 else 0), self._read_to
        with self._path.open("rb") as file:
            file.seek(begin)
            lines = file.read(end - begin).splitlines()
        return [entry for line in lines if (entry := _entry(line)) is not None and entry.time_s > time_s]


class Audits:
    """The guards of a TAILOR_HOME; an id is the time at which one began."""

    def __init__(self, home: Path) -> None:
        self._root = home / "guard"
        self._followed: dict[str, FollowedAudit] = {}

    def new(self) -> Path:
        """Make and return the directory of a guard that begins now."""
        name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        directory, number = self._root / name, 1
        while True:
            try:
                directory.mkdir(parents=True)
                return directory
            except FileExistsError:
                number += 1
                directory = self._root / f"{name}-{number}"

    def ids(self) -> Sequence[str]:
        """Return the guards that have written something, the newest first."""
        logs = self._root.glob(f"*/{AUDIT}")
        return sorted((path.parent.name for path in logs if path.stat().st_size), reverse=True)

    def followed(self, guard: str) -> FollowedAudit:
        """Return a guard's log, read to its end.  Raises NotFound."""
        if guard not in self.ids():
            raise NotFound(f"no guard {guard!r}")
        log = self._followed.setdefault(guard, FollowedAudit(self._root / guard / AUDIT))
        log.follow()
        return log

    def running(self, guard: str) -> bool:
        """Return whether a guard goes on: it wrote something a moment ago, and no end.  Raises NotFound."""
        quiet_s = time.time() - (self._root / guard / AUDIT).stat().st_mtime
        return quiet_s <= QUIET_S and self.followed(guard).ended is None


class AuditWriter:
    """The audit log of a guard that runs; ``watch`` gets each entry too."""

    def __init__(self, directory: Path, watch: Callable[[Entry], None]) -> None:
        self._file: TextIO = (directory / AUDIT).open("a")
        self._watch = watch

    def add(self, entry: Entry) -> None:
        self._file.write(json.dumps(entry_document(entry)) + "\n")
        self._file.flush()
        self._watch(entry)

    def close(self) -> None:
        self._file.close()


def read_audit(path: Path) -> list[Entry]:
    """Read an audit log; a last line that a crash cut off is left out."""
    return [entry for line in path.read_bytes().splitlines() if (entry := _entry(line)) is not None]


def _entry(line: bytes) -> Entry | None:
    try:
        return entry_of(json.loads(line))
    except ValueError:
        return None
