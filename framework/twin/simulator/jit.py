"""How the simulator's functions are compiled: into one, which counts no references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from framework.numba_cache import numba

F = TypeVar("F", bound=Callable[..., Any])

# A run hands its arrays from function to function millions of times.  Left as they are, the compiled functions are
# called with a hundred words each and count the references to every array at every step, which took nine tenths of the
# time.  None of them keeps an array, so that none needs counting.  Nor does any divide by zero, which numba would look
# out for at every division: a twentieth of the time.
_PLAIN: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False, "error_model": "numpy"}


def compiled_whole(function: F) -> F:
    """A function of the simulator that Python calls, with all that are inlined into it.

    numba compiles it again when the file that it stands in has changed, not when one of the others has.
    """
    made: F = numba.njit(function, **_PLAIN)
    return made


def inlined(function: F) -> F:
    """A function of the simulator that becomes a part of those that call it."""
    made: F = numba.njit(function, forceinline=True, **_PLAIN)
    return made
