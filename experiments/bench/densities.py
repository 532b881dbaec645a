"""Parzen densities of good and of other configurations, as a model to compare with.

Source: Bergstra, Bardenet, Bengio & Kegl, NIPS 2011 (TPE), with one bandwidth by column.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def parzen(points: Array, x: Array, y: Array) -> Array:
    """Return log(g/l) at points (m, k), (m,): low where good values are.

    l and g: densities of the lowest quarter of the values y (n,) at x (n, k), and of the others, independent by column.
    """
    good = y <= np.quantile(y, 0.25)
    total = np.zeros(len(points))
    for column in range(x.shape[1]):
        densities = []
        for chosen in (x[good, column], x[~good, column]):
            width = max(0.1, 1.06 * float(np.std(x[:, column])) * max(1, len(chosen)) ** -0.2)
            distance = (points[:, column, None] - chosen[None, :]) / width
            densities.append((np.exp(-0.5 * distance**2).sum(axis=1) / width + 1.0) / (len(chosen) + 1.0))
        total -= np.log(densities[0] / densities[1])
    return total
