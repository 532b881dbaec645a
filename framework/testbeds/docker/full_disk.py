"""A full disk, told by what a trial failed with: engines and programs say it in the kernel's words."""

from __future__ import annotations

from framework.errors import TestbedUnavailable

FULL = "no space left on device"  # ENOSPC, as every libc says it


def check_disk(failure: str) -> None:
    """Raise TestbedUnavailable where a trial failed for want of space, with the line that says so."""
    for line in failure.splitlines():
        if FULL in line.lower():
            raise TestbedUnavailable(f"a disk of the testbed is full: {line.strip()}")
