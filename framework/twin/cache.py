"""The hit ratio of a cache as a function of its size.

Che's approximation for least recently used eviction: an item is in the cache if it was asked for within a time T, and T
is such that the expected number of cached items equals the number that fit (Che, Tung & Wang, IEEE JSAC 20(7)
(2002); why it is so accurate: Fricker, Robert & Roberts, ITC 24 (2012)).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from framework.model.twin import TwinCache

USABLE = 0.9  # fraction of a cache's memory that holds items


def hit_ratio(cache: TwinCache, memory_mib: float) -> float:
    """Return the fraction of requests that find their item in ``memory_mib`` of cache."""
    fitting = memory_mib * 1024 * USABLE / cache.item_kib
    if fitting >= cache.items:
        return 1.0
    popularity = _zipf(cache.items, round(cache.exponent, 6))
    low, high = 0.0, float(cache.items) / float(popularity[-1])
    for _ in range(60):  # bisection: the expected number of items rises with T
        middle = 0.5 * (low + high)
        inside = -np.expm1(-popularity * middle)
        low, high = (middle, high) if float(inside.sum()) < fitting else (low, middle)
    return float((popularity * -np.expm1(-popularity * high)).sum())


@lru_cache(maxsize=32)
def _zipf(items: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, items + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def fitted(memory_mib: float, ratio: float, items: int, item_kib: float) -> TwinCache:
    """Fit the Zipf exponent, between 0 and 2.5, with which a cache of ``memory_mib`` has this hit ratio."""
    low, high = 0.0, 2.5
    for _ in range(40):
        middle = 0.5 * (low + high)
        if hit_ratio(TwinCache(items, item_kib, middle), memory_mib) < ratio:
            low = middle
        else:
            high = middle
    return TwinCache(items, item_kib, round(0.5 * (low + high), 4))
