"""Covariances of many points at once: squared distances as one product, the Matern function in place."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def products_of(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two matrices (m, k + 2), (k + 2, n) whose product is the squared distances of a (m, k) and b (n, k)."""
    left = np.column_stack([-2.0 * a, (a * a).sum(axis=1), np.ones(len(a))])
    return left, np.column_stack([b, np.ones(len(b)), (b * b).sum(axis=1)]).T


def matern(squared: Array, factor: float, variance: float) -> Array:
    """Return v m(r) in the array of the squared distances: allocating large arrays takes longer than filling them."""
    squared *= 5.0 * factor
    r = np.sqrt(squared)
    squared /= 3.0
    squared += r
    squared += 1.0
    np.subtract(math.log(variance), r, out=r)
    squared *= np.exp(r, out=r)
    return squared
