"""The peak memory of a program is its own, whatever started it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
CHILD = "from experiments.peak_memory import peak_bytes; block = b'x' * (50 * 2**20); print(peak_bytes())"


def test_what_started_it_does_not_count() -> None:
    large = b"x" * (300 * MIB)
    done = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 50 * MIB < int(done.stdout) < len(large)
