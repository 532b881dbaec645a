"""Identity of the engine's process on this machine, by which a restart of the engine is noticed."""

from __future__ import annotations

from pathlib import Path

PID_FILE = Path("/run/docker.pid")
"""Where an engine writes its number, unless it was told another file."""


def engine_process(pid_file: Path = PID_FILE) -> str:
    """Return a text that is another one for each start of the engine; empty where that is not known."""
    try:
        number, written = pid_file.read_text().strip(), pid_file.stat()
    except OSError:
        return ""
    return f"{number} {written.st_ino} {written.st_mtime_ns}"
