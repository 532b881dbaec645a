"""A fixed piece of work, whose CPU time tells how fast the machine is at the moment."""

from __future__ import annotations

import hashlib
import time

BLOCK = bytes(range(256)) * 4096  # 1 MiB
PASSES = 128


def control_s() -> float:
    """Hash the same 128 MiB, and return the CPU seconds of this thread that it took.

    Other processes do not lengthen CPU time; a lower clock, a busy sibling thread and a host that takes time away do.
    """
    began = time.thread_time()
    digest = hashlib.sha256()
    for _ in range(PASSES):
        digest.update(BLOCK)
    digest.digest()
    return time.thread_time() - began
