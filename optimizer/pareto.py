"""The Pareto set of several points, all objectives minimised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def undominated(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points (n, k) are in the Pareto set, (n,).

    A point is out if another one is at least as low in every objective and lower in one.
    """
    no_worse = (points[:, None, :] <= points[None, :, :]).all(axis=2)  # row against column
    lower = (points[:, None, :] < points[None, :, :]).any(axis=2)
    return np.asarray(~(no_worse & lower).any(axis=0))
