"""Audit logs of guards: a directory below TAILOR_HOME for each guard, an entry a line, written at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from framework.errors import NotFound
from framework.model.guard_record import EndedAt, Entry, entry_document, entry_of

AUDIT, REPORT, OUTPUT = "audit.jsonl", "report.html", "output"
QUIET_S = 30.0  # a guard that has written nothing for so long has ended without saying so


class Audits:
    """The guards of a TAILOR_HOME; an id is the time at which one began."""

    def __init__(self, home: Path) -> None:
        self._root = home / "guard"

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
        """Return the guards, the newest first."""
        return sorted((path.parent.name for path in self._root.glob(f"*/{AUDIT}")), reverse=True)

    def entries(self, guard: str) -> Sequence[Entry]:
        """Return what a guard wrote.  Raises NotFound."""
        if guard not in self.ids():
            raise NotFound(f"no guard {guard!r}")
        return read_audit(self._root / guard / AUDIT)

    def running(self, guard: str) -> bool:
        """Return whether a guard goes on: it wrote something a moment ago, and no end."""
        path = self._root / guard / AUDIT
        if time.time() - path.stat().st_mtime > QUIET_S:
            return False
        return not any(isinstance(entry, EndedAt) for entry in read_audit(path)[-1:])


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
    entries = []
    for line in path.read_text().splitlines():
        try:
            entries.append(entry_of(json.loads(line)))
        except ValueError:
            continue
    return entries
