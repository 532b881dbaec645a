"""Directories of attempts of jobs that are commands of this machine: what is kept about each.

It is there before the attempt's process, and its lock is the process's own as long as that lives, also while it only
begins.  So a guard that was killed at any moment leaves something that the next one can tell apart: an attempt that
never began, one that runs, one that has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.errors import KnobRefused
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.command_supervisor import ATTEMPT, LOCK, OLDER, OUTPUT, PROCESS, STATUS, write
from framework.testbeds.host.journal import boot_id

ENDED = frozenset("ZX")  # states of a process in proc(5): a zombie, dead


@dataclass(frozen=True, slots=True)
class Status:
    """How an attempt ended: its exit status, and a reason where that does not say it."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptDirectory:
    """The directory of one attempt.  Its methods raise OSError."""

    path: Path
    files: KernelFiles

    def make(self) -> None:
        """Make it, for root alone: the job writes its output through its supervisor."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> int | None:
        """Return a descriptor of the lock; None where a process of the attempt has it, or begins with it."""
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def begun(self) -> bool:
        """Return whether the attempt has ever had a process."""
        return (self.path / PROCESS).exists()

    def describe(self, description: Mapping[str, Any]) -> None:
        """Write what the supervisor is to do, and in which run of the kernel."""
        write(self.path / ATTEMPT, {**description, "boot": boot_id(self.files)})

    def of_another_boot(self) -> bool:
        """Return whether it is of another run of the kernel: all its processes have gone with that."""
        return _read(self.path / ATTEMPT).get("boot") not in (None, boot_id(self.files))

    def kind(self) -> str:
        return str(_read(self.path / ATTEMPT).get("kind", ""))

    def process(self) -> int:
        """Return the process of its supervisor; 0 where that has ended, or not begun."""
        process = _read(self.path / PROCESS)
        return process["pid"] if process and _lives(self.files, process["pid"], process["started"]) else 0

    def status(self) -> Status | None:
        """Return how it ended; None where nothing is written about it."""
        status = _read(self.path / STATUS)
        return Status(status["status"], status["reason"]) if status else None

    def output(self) -> str:
        """Return the output that was kept."""
        pieces = []
        for name in (OUTPUT + OLDER, OUTPUT):
            with suppress(FileNotFoundError):
                pieces.append((self.path / name).read_bytes())
        return b"".join(pieces).decode(errors="replace")

    def remove(self) -> None:
        """Remove it, with all in it."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)


def _lives(files: KernelFiles, pid: int, started: str) -> bool:
    """Return whether a process lives that began at ``started`` (proc(5), stat, fields 3 and 22).

    A later process of its number began at another time.
    """
    try:
        fields = files.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except KnobRefused:
        return False
    return len(fields) > 19 and fields[19] == started and fields[0] not in ENDED


def _read(path: Path) -> dict[str, Any]:
    """Return a file's content; empty where there is no whole one, such as after a power cut."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
