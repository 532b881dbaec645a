"""The most memory that this program has had.

``resource.getrusage`` is not used: its ``ru_maxrss`` outlives exec, so it also counts what the starting process had.
"""

from __future__ import annotations

from pathlib import Path


def peak_bytes() -> int:
    """Largest resident size since this program began (VmHWM of proc(5)) [bytes]."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
