"""Candidates near good configurations: a few parameters are moved, the relevant ones more often.

Source: Regis & Shoemaker, Engineering Optimization 45 (2013) [RS13].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.models.surrogate import Encoder

Array = NDArray[np.float64]

CHANGED = (1, 2, 3, 5, 8, 13, 20)  # mean numbers of parameters that a candidate changes
TIED_SHARE = 0.3  # share of the candidates in which tied parameters move as one
REDRAWN = 0.1  # probability that a moved parameter is drawn from its whole range


class Neighbourhood:
    """Draws candidates around given points.

    ``unordered``: whether a parameter's values have no order, (d,); ``likely``: how often each is moved, compared with
    the others, (d,), above 0; ``tied``: the positions of each set of tied parameters.
    """

    def __init__(
        self, encoder: Encoder, unordered: NDArray[np.bool_], likely: Array, tied: Sequence[NDArray[np.int64]]
    ) -> None:
        self._encoder, self._unordered, self._likely = encoder, unordered, likely
        first = np.arange(len(likely))  # the first member of each parameter's tied set
        for members in tied:
            first[members] = members[0]
        _, self._set = np.unique(first, return_inverse=True)

    def near(self, centres: list[Array], size: float, count: int, rng: np.random.Generator) -> Array:
        """Return ``count`` points around the centres, (count, d), snapped; ``size``: of a step, in ranges.

        In a share of the points tied parameters move as one.
        """
        tied = round(TIED_SHARE * count)
        middle = np.stack([centres[i] for i in rng.integers(len(centres), size=count)])
        alone = self._moved(middle[tied:], size, np.arange(len(self._likely)), rng)
        return self._encoder.snap(np.concatenate([alone, self._moved(middle[:tied], size, self._set, rng)]))

    def _moved(self, middle: Array, size: float, part: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Move some parts of each row.  ``part``: the part of each parameter; a part moves by one amount."""
        count, parts = len(middle), int(part.max()) + 1
        likely = np.bincount(part, self._likely)
        likely = 0.5 * likely / likely.sum() + 0.5 / parts
        wanted = np.minimum(np.array(CHANGED)[rng.integers(len(CHANGED), size=count)], parts)
        chosen = rng.random((count, parts)) < np.minimum(1.0, wanted[:, None] * likely[None, :])
        empty = np.flatnonzero(~chosen.any(axis=1))
        chosen[empty, rng.choice(parts, size=len(empty), p=likely)] = True
        moved = middle + size * rng.standard_normal((count, parts))[:, part]
        moved = np.where(
            moved < 0.0, np.minimum(-moved, 1.0), np.where(moved > 1.0, np.maximum(2.0 - moved, 0.0), moved)
        )
        fresh = rng.random((count, parts))[:, part]
        redrawn = self._unordered[None, :] | (rng.random((count, parts)) < REDRAWN)[:, part]
        return np.where(chosen[:, part], np.where(redrawn, fresh, moved), middle)
