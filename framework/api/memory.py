"""Limit of malloc arenas, so that a long-lived process returns memory.

glibc gives threads arenas of their own, up to eight for each core.  Memory that is freed in one arena is not used by
threads of others, so that a service with many threads holds several times the memory that it needs.
"""

from __future__ import annotations

import ctypes

ARENAS = 2
ENVIRONMENT = {"MALLOC_ARENA_MAX": str(ARENAS)}  # for a new process, see mallopt(3)
M_ARENA_MAX = -8


def few_arenas() -> None:
    """Let the threads of this process share two arenas.  Do nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)
