"""Compilation of the simulator's functions: into a single one, without reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from framework.numba_cache import numba

F = TypeVar("F", bound=Callable[..., Any])

# A run passes its arrays from function to function millions of times.  By default a call passes a hundred words, and
# each function counts the references to every array, which took nine tenths of the time.  No function keeps an array,
# so that references need not be counted.  No function divides by zero, so that numba need not check each division (a
# twentieth of the time).
_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False, "error_model": "numpy"}


def compiled_whole(function: F) -> F:
    """Compile a function of the simulator that Python calls, with all functions that are inlined into it.

    numba compiles it again when its own file has changed, not when the file of an inlined function has.
    """
    compiled: F = numba.njit(function, **_PLAIN)
    return compiled


def inlined(function: F) -> F:
    """Compile a function of the simulator so that it is inlined into its callers."""
    compiled: F = numba.njit(function, forceinline=True, **_PLAIN)
    return compiled
