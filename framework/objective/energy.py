"""The quantity "energy": joules per good reply for the CPU time that an application's services use.

The machine's power follows its utilisation (a power curve: estimated, not metered).  What it takes above its idle power
is divided by CPU time among all that ran, and the services' part counts (Kepler's attribution; facts: energy.md).  So
idle power, which no configuration of a fixed machine changes at a given rate, is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.errors import InputError
from framework.model.energy import PowerCurve

APPLICATION = "application"


def joules_per_request(
    curve: PowerCurve | None, shares: Mapping[str, float], replies: int, seconds: float
) -> float | None:
    """Return the active joules of the services per good reply; None where nothing was answered, or nothing was busy.

    ``shares``: of the machine's CPUs that the application and others used in the window.  Raises InputError without a
    curve or without shares.
    """
    if curve is None:
        raise InputError("energy needs the power of the machine, and the study has none")
    if APPLICATION not in shares:
        raise InputError("the objective names energy, and the testbed does not tell what the services used")
    busy = sum(shares.values())
    if replies <= 0 or busy <= 0:  # replies without any CPU time were not counted
        return None
    active_w = curve.watts(busy) - curve.watts(0.0)
    return active_w * shares[APPLICATION] / busy * seconds / replies
