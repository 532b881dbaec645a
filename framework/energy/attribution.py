"""Division of a machine's energy among what used it: an idle part that nobody used, and shares of the active part.

As Kepler does it (Amaral et al., IEEE CLOUD 2023): the power that the machine takes when nothing runs stays apart, and
what it takes above that is divided by CPU time.  The shares add up to the active part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

OTHERS = "others"
"""Processes outside of the application, the kernel's own included."""


@dataclass(frozen=True, slots=True)
class Division:
    """Joules of a window: ``idle``, and the active part by its user; ``idle`` plus all ``active`` is the whole.

    In a single window, the active part can be below 0: idle power was measured at another moment.  It is not cut off at
    0, since the mean over windows would then be too large.
    """

    idle: float
    active: Mapping[str, float]


def divided(joules: float, seconds: float, idle_w: float, cpu_s: Mapping[str, float], busy_s: float) -> Division:
    """Divide a window's joules.

    ``idle_w``: power of the machine when nothing runs.  ``cpu_s``: name -> CPU seconds of services, load generator and
    Tailor.  ``busy_s``: of the whole machine; what exceeds all named is OTHERS'.
    """
    known_s = math.fsum(cpu_s.values())
    users = {**cpu_s, OTHERS: max(0.0, busy_s - known_s)}
    whole_s = math.fsum(users.values())
    if whole_s <= 0:
        return Division(joules, dict.fromkeys(users, 0.0))
    idle = idle_w * seconds
    return Division(idle, {name: (joules - idle) * used_s / whole_s for name, used_s in users.items()})
