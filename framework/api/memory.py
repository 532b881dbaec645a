"""Memory that a long-lived process gives back.

glibc gives threads arenas of their own, up to eight for each core, and memory that is freed in one is not used by the
threads of the others: a service with many threads has several times what it needs at once.
"""

from __future__ import annotations

import ctypes

ARENAS = 2
ENVIRONMENT = {"MALLOC_ARENA_MAX": str(ARENAS)}  # the same for a process that begins (mallopt(3))
M_ARENA_MAX = -8


def few_arenas() -> None:
    """Let the threads of this process share few arenas.  Does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)
