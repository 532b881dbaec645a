"""Journal of the knobs that a guard touches: the old value reaches the disk before the new one reaches the kernel.

So whatever ends a guard, SIGKILL and a power cut included, the next start knows what to give back.  Entries are undone
in reverse.  After a reboot the kernel has forgotten all settings of files, and only the journal is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.cgroups import may_be_group

BOOT_ID = "/proc/sys/kernel/random/boot_id"
GROUPS = ("group", "class")
"""Kinds of entries of groups that were made: of cgroups, and of resctrl."""

Undo = Callable[[Mapping[str, Any]], None]


class Journal:
    """Journal in one file, of JSON lines.  ``boot``: identity of this run of the kernel.

    ``undo``: kind of entry -> what gives back the old state; it must not fail where that is gone.
    Every method raises KnobRefused where the file cannot be read or written: a knob without an entry is not touched.
    """

    def __init__(self, path: Path, boot: str, undo: Mapping[str, Undo]) -> None:
        self._path, self._boot, self._undo = path, boot, dict(undo)
        self._known = _knobs(self.entries())

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of this run of the kernel, the oldest first.

        A line cut off by a crash does not count: its knob was not touched yet.
        """
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed(error) from error
        return [entry for line in lines if (entry := _entry(line)) is not None and entry["boot"] == self._boot]

    def knows(self, kind: str, knob: str) -> bool:
        """Return whether the first value of a knob is in the journal."""
        return (kind, knob) in self._known

    def record(self, kind: str, knob: str, **old: Any) -> None:
        """Write the value of a knob before its first change; before later changes nothing: the first value counts."""
        if self.knows(kind, knob):
            return
        line = json.dumps({"boot": self._boot, "kind": kind, "knob": knob, **old}).encode() + b"\n"
        try:
            self._append(line)
        except OSError as error:
            raise self._failed(error) from error
        self._known.add((kind, knob))

    def restore(self, but: Collection[str] = (), below: str = "") -> list[str]:
        """Undo entries in reverse, then forget them; returns what could not be undone, and why.

        An entry that could not be undone stays, so that a later start tries again; one of a kind of ``but`` stays too,
        and one whose knob's name does not begin with ``below``.
        """
        problems, left = list[str](), list[dict[str, Any]]()
        for entry in reversed(self.entries()):
            kind, knob = entry["kind"], entry["knob"]
            problem = ""
            if kind in but or not knob.startswith(below):
                left.insert(0, entry)
                continue
            try:
                if kind in self._undo:
                    self._undo[kind](entry)
                else:
                    problem = f"{knob}: nothing here knows how to undo {kind!r}"
            except KnobRefused as error:
                problem = str(error)
            if problem:
                problems.append(problem)
                left.insert(0, entry)
        try:
            self._replace(left)
        except OSError as error:
            raise self._failed(error) from error
        return problems

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = not self._path.exists()
        with self._path.open("a+b", buffering=0) as file:
            if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                line = b"\n" + line  # what a crash cut off must not swallow this entry
            if file.write(line) != len(line):
                raise OSError("only a part was written")
            os.fsync(file.fileno())
        if new:
            _sync_directory(self._path.parent)

    def _replace(self, entries: list[dict[str, Any]]) -> None:
        if entries:
            new = self._path.with_name(f"{self._path.name}.new")
            with new.open("wb") as file:
                file.writelines(json.dumps(entry).encode() + b"\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            _sync_directory(self._path.parent)
        else:
            self._path.unlink(missing_ok=True)
        self._known = _knobs(entries)

    def _failed(self, error: OSError) -> KnobRefused:
        return KnobRefused(f"journal {self._path.name}", error.strerror or str(error))


class JournalledFiles:
    """Kernel files each of whose changes is in the journal first; implements KernelFiles."""

    def __init__(self, files: KernelFiles, journal: Journal) -> None:
        self._files, self._journal = files, journal
        self.read, self.exists, self.entries = files.read, files.exists, files.entries

    def write(self, path: str, text: str) -> None:
        """Write; the old value of a file in a group that was made here need not come back: the group itself goes."""
        if not self.made(path.rpartition("/")[0]) and not self._journal.knows("file", path):
            self._journal.record("file", path, old=self._files.read(path))
        self._files.write(path, text)

    def add_controller(self, path: str, controller: str) -> None:
        """Let the groups below a group of cgroup v2 have a controller (cgroup.subtree_control)."""
        self._journal.record("controller", f"{path} {controller}", file=path, controller=controller)
        self._files.write(path, f"+{controller}")

    def move_task(self, group: str, task: int, home: str) -> None:
        """Move a task from its group of resctrl, ``home``, to another; one that has ended is none to move.

        Removing a group gives its tasks to the root: where that is their home, no entry is needed.
        """
        started = start_of(self._files, task)
        if started is None:
            return
        root = group.rpartition("/")[0]
        if home != root or not self.made(group):
            self._journal.record("member", f"{home}/tasks {task}", home=home, task=task, started=started)
        try:
            self._files.write(f"{group}/tasks", f"{task}\n")
        except KnobRefused:
            if start_of(self._files, task) == started:
                raise

    def make(self, path: str, kind: str = "group") -> None:
        if not self._files.exists(path):
            self._journal.record(kind, path)
            self._files.make(path)

    def own(self, path: str) -> None:
        """Make a group that is Tailor's by its name: one that exists was left by a guard, and goes at the end too."""
        self._journal.record("group", path)
        self._files.make(path)

    def made(self, path: str) -> bool:
        """Return whether a group was made here, and goes at the end."""
        return any(self._journal.knows(kind, path) for kind in GROUPS)

    def remove(self, path: str) -> None:
        self._files.remove(path)


def undo_of_files(files: KernelFiles) -> dict[str, Undo]:
    """Return how entries of kernel files, groups and tasks are undone."""

    def write_back(entry: Mapping[str, Any]) -> None:
        if files.exists(entry["knob"]):
            try:
                if files.read(entry["knob"]) != entry["old"]:
                    files.write(entry["knob"], entry["old"])
            except KnobRefused:
                if files.exists(entry["knob"]):  # else its container ended meanwhile
                    raise

    def remove(entry: Mapping[str, Any]) -> None:
        files.remove(entry["knob"])

    def remove_all(entry: Mapping[str, Any]) -> None:
        """Remove a group, and first the empty ones in it: an engine that was killed removes none of its containers'."""
        for name in files.entries(entry["knob"]):
            below = f"{entry['knob']}/{name}"
            if may_be_group(name) and files.exists(f"{below}/cgroup.procs"):
                with suppress(KnobRefused):  # it is not empty, and the group's own removal says so
                    files.remove(below)
        remove(entry)

    def disable(entry: Mapping[str, Any]) -> None:
        if files.exists(entry["file"]):
            files.write(entry["file"], f"-{entry['controller']}")

    def send_home(entry: Mapping[str, Any]) -> None:
        home, task = entry["home"], entry["task"]
        control, monitor, _ = home.rpartition("/mon_groups/")
        try:
            for group in (control, home) if monitor else (home,):  # a task of a MON group is its parent's first
                if files.exists(f"{group}/tasks") and start_of(files, task) == entry["started"]:
                    files.write(f"{group}/tasks", f"{task}\n")
        except KnobRefused:
            if files.exists(f"{home}/tasks") and start_of(files, task) == entry["started"]:
                raise

    return {"file": write_back, "group": remove_all, "class": remove, "controller": disable, "member": send_home}


def start_of(files: KernelFiles, task: int) -> str | None:
    """Return when a task started (proc(5), stat, field 22), which tells it from a later one of its number.

    None: it has ended.
    """
    try:
        fields = files.read(f"/proc/{task}/stat").rpartition(")")[2].split()
    except KnobRefused:
        return None
    return fields[19] if len(fields) > 19 else None


def boot_id(files: KernelFiles) -> str:
    """Return the identity of this run of the kernel."""
    return files.read(BOOT_ID).strip()


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line; None where it is not a whole one."""
    try:
        entry = json.loads(line)
        return entry if {"boot", "kind", "knob"} <= entry.keys() else None
    except (ValueError, AttributeError):
        return None


def _knobs(entries: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(entry["kind"], entry["knob"]) for entry in entries}


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
