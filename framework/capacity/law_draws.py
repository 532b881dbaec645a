"""Scaling laws that fit the points of a node about as well as the best one: draws of their parameters.

See ``framework.capacity.laws``.  Beforehand, contention a is evenly distributed in its logarithm; of coherence b the
number of cores is, beyond which throughput falls without contention, 1 / sqrt(b), up to 100: less coherence is Amdahl's
law at the sizes that are planned with.  The law with coherence is as probable as the two others together, since points
of few cores hide it, and a plan that overlooks it has too few machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LAWS = ("linear", "amdahl", "usl")
"""From the simplest, with one to three parameters."""
BEFOREHAND = (0.25, 0.25, 0.5)
"""Probability of each law before the points are seen."""
PRIOR_POINTS = 3.0
"""Points that the stated spreads are worth beside the residuals, when the size of the noise is judged."""
DRAWS = 4_000

Array = NDArray[np.float64]

_STREAM = 3  # of the seed
_CONTENTION = (1e-4, 1.0)  # thought possible before anything is measured
_COHERENCE = (1e-4, 1e-1)
_CELLS = 60  # of each on a grid
_REFINED = 3  # grids, each where the one before found weight: points with little noise leave a small part of a cell
_NEGLIGIBLE = 1e-5  # weight of the cells of a law that a finer grid leaves out


def throughput(cores: ArrayLike, g: ArrayLike, a: ArrayLike, b: ArrayLike, ceiling: ArrayLike = np.inf) -> Array:
    """Return X(N) of the Universal Scalability Law, at most ``ceiling``; the arguments' shapes broadcast."""
    n, g, a, b = (np.asarray(value, np.float64) for value in (cores, g, a, b))
    result: Array = np.minimum(g * n / (1 + a * (n - 1) + b * n * (n - 1)), ceiling)
    return result


def law_draws(cores: Array, rps: Array, spread: Array, seed: int) -> Array:
    """Return shape (3, DRAWS): g, a and b from their distribution given the points; arguments of shape (points,).

    log X = log g - log(1 + a (N - 1) + b N (N - 1)) + log N + noise, normal, whose size follows from spreads and
    residuals (a conjugate inverse gamma, so that log g has Student's t; A. Gelman et al., Bayesian Data Analysis,
    3rd ed., ch. 14).  a and b are on a grid.
    """
    random = np.random.default_rng([seed, _STREAM])
    precision = 1 / spread**2
    freedom = PRIOR_POINTS + len(cores) - 1
    boxes = [_Box(count) for count in range(1, len(LAWS) + 1)]
    for _ in range(_REFINED):
        cells = _Cells.of(boxes)
        centre, misfit = _fit_of(cells.a, cells.b, cores, rps, precision)
        logs = cells.log_prior - 0.5 * freedom * np.log(PRIOR_POINTS + misfit)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        boxes = [box.around(cells, weights) for box in boxes]
    chosen = random.choice(len(weights), size=DRAWS, p=weights)
    # Within its cell of the grid, a parameter may have any value; log g follows, so that the curve passes the points.
    a = np.minimum(1.0, cells.a[chosen] * np.exp(cells.half_a[chosen] * random.uniform(-1, 1, DRAWS)))
    b = cells.b[chosen] * np.exp(cells.half_b[chosen] * random.uniform(-1, 1, DRAWS))
    centre, _ = _fit_of(a, b, cores, rps, precision)
    scale = np.sqrt((PRIOR_POINTS + misfit[chosen]) / freedom / precision.sum())
    g = np.exp(centre + scale * random.standard_t(freedom, DRAWS))
    return np.stack([g, a, b])


def _fit_of(a: Array, b: Array, cores: Array, rps: Array, precision: Array) -> tuple[Array, Array]:
    """Return log g that fits the points best with each a and b, and the weighted squares that are left.

    ``a``, ``b`` and results: shape (cells,); the others: shape (points,).
    """
    levels = np.log(rps) - np.log(throughput(cores, 1.0, a[:, None], b[:, None]))
    centre: Array = levels @ precision / precision.sum()  # levels: log g by each point alone
    misfit: Array = np.square(levels - centre[:, None]) @ precision
    return centre, misfit


@dataclass(frozen=True)
class _Box:
    """Ranges of a law's contention and coherence.  ``count``: its parameters; those that it lacks are 0."""

    count: int
    contention: tuple[float, float] = _CONTENTION
    coherence: tuple[float, float] = _COHERENCE

    def cells(self) -> tuple[Array, ...]:
        """Return the columns of ``_Cells``, with probabilities in place of their logarithms."""
        nothing, whole = np.zeros(1), np.ones(1)
        a, half_a, share_a = _middles(self.contention, _CONTENTION) if self.count > 1 else (nothing, nothing, whole)
        b, half_b, share_b = _middles(self.coherence, _COHERENCE) if self.count > 2 else (nothing, nothing, whole)
        if self.count > 2:
            low, high = (_peak(b * np.exp(sign * half_b)) for sign in (1, -1))
            share_b = (high - low) / (_peak(_COHERENCE[0]) - _peak(_COHERENCE[1]))
        first = [np.repeat(column, len(b)) for column in (a, half_a, share_a)]
        second = [np.tile(column, len(a)) for column in (b, half_b, share_b)]
        probability = first[2] * second[2] * BEFOREHAND[self.count - 1]
        return first[0], second[0], first[1], second[1], probability, np.full(len(probability), float(self.count))

    def around(self, cells: _Cells, weights: Array) -> _Box:
        """Return the ranges of the cells that have nearly all of this law's weight; these where it has none."""
        own = np.flatnonzero(cells.count == self.count)
        order = own[np.argsort(-weights[own])]
        cumulated = np.cumsum(weights[order])
        if cumulated[-1] < _NEGLIGIBLE:
            return self
        kept = order[: 1 + np.searchsorted(cumulated, cumulated[-1] * (1 - _NEGLIGIBLE))]
        contention, coherence = (
            (float((middles * np.exp(-half)).min()), float((middles * np.exp(half)).max()))
            for middles, half in ((cells.a[kept], cells.half_a[kept]), (cells.b[kept], cells.half_b[kept]))
        )
        return _Box(self.count, contention, coherence)


@dataclass(frozen=True)
class _Cells:
    """Cells of all laws; arrays of shape (cells,).  ``half_a``, ``half_b``: half of a cell's width in the logarithm.
    ``log_prior``: of its probability beforehand.  ``count``: parameters of its law.
    """

    a: Array
    b: Array
    half_a: Array
    half_b: Array
    log_prior: Array
    count: Array

    @staticmethod
    def of(boxes: Sequence[_Box]) -> _Cells:
        columns = [np.concatenate(part) for part in zip(*map(_Box.cells, boxes), strict=True)]
        a, b, half_a, half_b, prior, count = columns
        return _Cells(a, b, half_a, half_b, np.log(prior), count)


def _peak(coherence: ArrayLike) -> Array:
    """Return the cores with the most throughput where there is no contention to speak of."""
    result: Array = 1 / np.sqrt(np.asarray(coherence, np.float64))
    return result


def _middles(ends: tuple[float, float], whole: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Return middles of cells between two ends, half their widths, their share of the whole range; by logarithms."""
    edges = np.linspace(np.log(ends[0]), np.log(ends[1]), _CELLS + 1)
    half = np.diff(edges) / 2
    middles: Array = np.exp(edges[:-1] + half)
    return middles, half, 2 * half / np.log(whole[1] / whole[0])
