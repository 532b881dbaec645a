"""Agreement of a value that was read back with the one that was set."""

from __future__ import annotations

import math

from optimizer.space import Value

TOLERANCE = 1e-3  # relative, for real values: programs print a few digits
INTEGER_TOLERANCE = 1e-6  # relative: a conversion of units may round


def agrees(wanted: Value, value: Value) -> bool:
    """Return whether a value read back is the one that was set."""
    if isinstance(wanted, bool):
        return value is wanted or (not isinstance(value, (bool, str)) and value == int(wanted))
    if isinstance(wanted, str):
        return str(value) == wanted
    if isinstance(value, (bool, str)):
        return False
    tolerance = INTEGER_TOLERANCE if isinstance(wanted, int) else TOLERANCE
    return math.isclose(value, wanted, rel_tol=tolerance, abs_tol=1e-9)
