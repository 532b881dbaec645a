"""A full disk, told by what a trial failed with: engines and programs say it in the kernel's words."""

from __future__ import annotations

import os
from collections.abc import Callable

from framework.errors import TestbedUnavailable

FULL = "no space left on device"  # ENOSPC, as every libc says it
ENGINE = "the engine could not"  # a message of the engine, not of a program in a container
LEAST_BYTES = 64 << 20  # a disk with less is full: programs ask for more than one byte


def check_disk(failure: str, room: Callable[[], bool]) -> None:
    """Raise TestbedUnavailable, with the line that says so, where a trial failed for want of space on the disk.

    A program in a container may have filled something smaller, such as its /dev/shm, which is the configuration's
    fault: its words count only where there is no ``room`` on the disk now.
    """
    for line in failure.splitlines():
        if FULL in line.lower() and (ENGINE in line or not room()):
            raise TestbedUnavailable(f"a disk of the testbed is full: {line.strip()}")


def has_room(directory: str) -> bool:
    """Return whether a directory's disk has room; True where the directory is not on this machine."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize >= LEAST_BYTES
