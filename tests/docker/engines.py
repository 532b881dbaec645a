"""The engine of this machine, ended hard and started again.  For machines of tests; needs root."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PID = Path("/var/run/docker.pid")


def end_engine() -> None:
    """SIGKILL for the engine; returns when it is gone."""
    number = int(PID.read_text())
    os.kill(number, signal.SIGKILL)
    while Path(f"/proc/{number}").exists():
        time.sleep(0.05)


def start_engine() -> None:
    """Start an engine that was ended hard, and wait until it answers."""
    # As an init system does: an engine takes the number in a stale file for its container daemon's.
    for stale in (PID, PID.with_suffix("") / "containerd" / "containerd.pid"):
        stale.unlink(missing_ok=True)
    subprocess.run([ROOT / "scripts" / "engine"], check=True, stdout=subprocess.DEVNULL)


def restart(away_s: float) -> None:
    """SIGKILL for the engine and, after a while, a new one."""
    end_engine()
    time.sleep(away_s)
    start_engine()
