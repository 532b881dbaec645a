"""Journal of the knobs that a guard touches: the old value reaches the disk before the new one reaches the kernel.

So whatever ends a guard, SIGKILL and a power cut included, the next start knows what to give back.  Entries are undone
in reverse.  After a reboot the kernel has forgotten all settings of files, and only the journal is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles

BOOT_ID = "/proc/sys/kernel/random/boot_id"

Undo = Callable[[Mapping[str, Any]], None]


class Journal:
    """Journal in one file, of JSON lines.  ``boot``: identity of this run of the kernel.

    ``undo``: kind of entry -> what gives back the old state; it must not fail where that is gone.
    """

    def __init__(self, path: Path, boot: str, undo: Mapping[str, Undo]) -> None:
        self._path, self._boot, self._undo = path, boot, dict(undo)
        self._known: set[tuple[str, str]] = set()
        for entry in self.entries():
            self._known.add((entry["kind"], entry["knob"]))

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of this run of the kernel, the oldest first.  A last line cut off by a crash counts not:

        its knob was not touched yet.
        """
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if entry["boot"] == self._boot:
                    entries.append(entry)
        return entries

    def record(self, kind: str, knob: str, **old: Any) -> None:
        """Write the value of a knob before its first change; before later changes nothing: the first value counts."""
        if (kind, knob) in self._known:
            return
        line = json.dumps({"boot": self._boot, "kind": kind, "knob": knob, **old}) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = not self._path.exists()
        with self._path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if new:
            _sync_directory(self._path.parent)
        self._known.add((kind, knob))

    def restore(self, but: Collection[str] = ()) -> list[str]:
        """Undo all entries in reverse, then forget them; returns what could not be undone, and why.

        An entry that could not be undone stays, so that a later start tries again; one of a kind of ``but`` stays too.
        """
        problems, left = list[str](), list[dict[str, Any]]()
        for entry in reversed(self.entries()):
            if entry["kind"] in but:
                left.insert(0, entry)
                continue
            try:
                self._undo[entry["kind"]](entry)
            except KnobRefused as error:
                problems.append(str(error))
                left.insert(0, entry)
        self._replace(left)
        return problems

    def _replace(self, entries: list[dict[str, Any]]) -> None:
        self._known = {(entry["kind"], entry["knob"]) for entry in entries}
        if not entries:
            self._path.unlink(missing_ok=True)
            return
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        _sync_directory(self._path.parent)


class JournalledFiles:
    """Kernel files each of whose changes is in the journal first; implements KernelFiles."""

    def __init__(self, files: KernelFiles, journal: Journal) -> None:
        self._files, self._journal = files, journal
        self.read, self.exists, self.entries = files.read, files.exists, files.entries

    def write(self, path: str, text: str) -> None:
        self._journal.record("file", path, old=self._files.read(path))
        self._files.write(path, text)

    def add_controller(self, path: str, controller: str) -> None:
        """Let the groups below a group of cgroup v2 have a controller (cgroup.subtree_control)."""
        self._journal.record("controller", f"{path} {controller}", file=path, controller=controller)
        self._files.write(path, f"+{controller}")

    def make(self, path: str) -> None:
        if not self._files.exists(path):
            self._journal.record("group", path)
            self._files.make(path)

    def remove(self, path: str) -> None:
        self._files.remove(path)


def undo_of_files(files: KernelFiles) -> dict[str, Undo]:
    """Return how entries of kernel files and groups are undone."""

    def write_back(entry: Mapping[str, Any]) -> None:
        if files.exists(entry["knob"]) and files.read(entry["knob"]) != entry["old"]:
            try:
                files.write(entry["knob"], entry["old"])
            except KnobRefused:
                if files.exists(entry["knob"]):  # else its container ended meanwhile
                    raise

    def remove(entry: Mapping[str, Any]) -> None:
        files.remove(entry["knob"])

    def disable(entry: Mapping[str, Any]) -> None:
        if files.exists(entry["file"]):
            files.write(entry["file"], f"-{entry['controller']}")

    return {"file": write_back, "group": remove, "controller": disable}


def boot_id(files: KernelFiles) -> str:
    """Return the identity of this run of the kernel."""
    return files.read(BOOT_ID).strip()


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
