"""When the engine of this machine was started, by which containers that outlived a restart of it are known."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

PID_FILE = Path("/run/docker.pid")
"""Which an engine writes as it starts, unless it was told another file."""


def engine_start_s(pid_file: Path = PID_FILE) -> float:
    """Return when the engine was started, in seconds since the Unix epoch; 0 where that is not known."""
    try:
        return pid_file.stat().st_mtime
    except OSError:
        return 0.0


def began_before(started_at: str, time_s: float) -> bool:
    """Return whether a container was started before a time, by the engine's text of it (RFC 3339)."""
    try:
        return 0 < datetime.fromisoformat(started_at).timestamp() < time_s  # one of the year 1 never was
    except ValueError:
        return False
