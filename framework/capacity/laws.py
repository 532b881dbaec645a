"""Scaling laws: throughput of one node against its cores, fitted to measurements, with what other sizes would give.

Universal Scalability Law (N. J. Gunther, Guerrilla Capacity Planning, 2007, eq. 4.31), of which the others are cases:

    X(N) = g N / (1 + a (N - 1) + b N (N - 1))        Amdahl: b = 0        linear: a = b = 0

The law is chosen by leaving out one point after the other.  What a size would give is an interval over all three laws,
because the points seldom exclude one, and what they say about larger sizes differs most there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from framework.errors import FieldError
from framework.model.capacity import Interval, ScalingPoint

LAWS = ("linear", "amdahl", "usl")
"""From the simplest: the first so many columns of ``_columns`` each, from one to three."""
MOST_TIMES = 4.0
"""Times the largest measured number of cores, up to which a law is asked without being told to."""
USUAL_SPREAD = 0.02
"""Standard error of a throughput, as a share of it, where none is stated."""
PRIOR_POINTS = 3.0
"""Points that the stated spreads are worth beside the residuals, when the size of the noise is judged."""
SIMPLER = 0.9
"""A law with one parameter more is chosen where it misses the points left out by less than this share."""
EXACT = 1e-9  # an error that is one of the arithmetic, as of points without noise
DRAWS = 4_000
_STREAM = 3  # of the seed
LOW, HIGH = 0.025, 0.975  # quantiles of the prediction interval

Array = NDArray[np.float64]

# Contention and coherence that are thought possible before anything is measured, evenly in their logarithms.
_CONTENTION = (1e-4, 1.0)
_COHERENCE = (1e-7, 1e-1)
_CELLS = 60  # of each on a grid
_REFINED = 3  # grids, each where the one before found weight: points with little noise leave a small part of a cell
_NEGLIGIBLE = 1e-5  # weight of the cells of a law that a finer grid leaves out


@dataclass(frozen=True, slots=True)
class Prediction:
    """Throughput of a node in requests/s; ``extrapolated``: beyond what the points may be asked about."""

    cores: float
    rps: Interval
    extrapolated: bool


@dataclass(frozen=True)
class ScalingLaw:
    """A law fitted to points.

    ``name``: the law chosen.  ``g``, ``a``, ``b``: its parameters.  ``missed``: law -> root mean square of the relative
    error at points left out, None where there are too few points.  ``draws``: shape (3, DRAWS), g, a and b that fit the
    points about as well, of all laws, in proportion to how well.
    """

    points: tuple[ScalingPoint, ...]
    name: str
    g: float
    a: float
    b: float
    missed: dict[str, float | None]
    draws: Array

    @cached_property
    def measured_cores(self) -> float:
        return max(point.cores for point in self.points)

    def rps(self, cores: ArrayLike) -> Array:
        """Return the throughput that the chosen law gives, requests/s; ``cores``: any shape."""
        return throughput(np.asarray(cores, np.float64), self.g, self.a, self.b)

    def rps_of_draws(self, cores: float) -> Array:
        """Return the throughput by each draw, requests/s; shape (DRAWS,)."""
        return throughput(np.float64(cores), *self.draws)

    def extrapolates(self, cores: float, most_times: float = MOST_TIMES) -> bool:
        return cores > most_times * self.measured_cores

    def predict(self, cores: float, *, most_times: float = MOST_TIMES, extrapolate: bool = False) -> Prediction:
        """Return the throughput on so many cores with its 95 % interval.

        Raises FieldError beyond ``most_times`` the largest measured number of cores, unless ``extrapolate``.
        """
        beyond = self.extrapolates(cores, most_times)
        if not cores >= 1 or (beyond and not extrapolate):
            most = most_times * self.measured_cores
            raise FieldError(
                "cores", cores, f"1 to {most:g}, {most_times:g} times the {self.measured_cores:g} measured"
            )
        likely = float(self.rps(cores))
        low, high = np.quantile(self.rps_of_draws(cores), [LOW, HIGH])
        return Prediction(cores, Interval(min(float(low), likely), likely, max(float(high), likely)), beyond)


def throughput(cores: ArrayLike, g: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """Return X(N) of the Universal Scalability Law; the arguments' shapes broadcast."""
    n, g, a, b = (np.asarray(value, np.float64) for value in (cores, g, a, b))
    result: Array = g * n / (1 + a * (n - 1) + b * n * (n - 1))
    return result


def fit(points: Sequence[ScalingPoint], seed: int = 0) -> ScalingLaw:
    """Choose and fit a law.  With one or two sizes the linear one is assumed; the interval says how little is known.

    Raises FieldError where there is no point, or one without cores or throughput above 0.
    """
    if not points:
        raise FieldError("points", "nothing", "at least one number of cores with its throughput")
    for point in points:
        if not (point.cores >= 1 and 0 < point.throughput_rps < np.inf and 0 <= point.spread < np.inf):
            raise FieldError("points", point, "at least 1 core, a throughput above 0, a spread of 0 or more")
    cores = np.array([point.cores for point in points], np.float64)
    rps = np.array([point.throughput_rps for point in points], np.float64)
    spread = np.array([point.spread or USUAL_SPREAD * point.throughput_rps for point in points]) / rps
    missed = {name: _missed(cores, rps, spread, count) for count, name in enumerate(LAWS, 1)}
    chosen = 1
    for count, name in enumerate(LAWS, 1):
        error, simpler = missed[name], missed[LAWS[chosen - 1]]
        if error is not None and simpler is not None and simpler > EXACT and error < SIMPLER * simpler:
            chosen = count
    g, a, b = _fitted(cores, rps, spread, chosen)
    return ScalingLaw(tuple(points), LAWS[chosen - 1], g, a, b, missed, _draws(cores, rps, spread, seed))


def _columns(cores: Array) -> Array:
    return np.stack([np.ones_like(cores), cores, cores * (cores - 1)], axis=1)


def _fitted(cores: Array, rps: Array, spread: Array, count: int) -> tuple[float, float, float]:
    """Return g, a and b of the law with ``count`` parameters, by least squares of relative errors.

    N / X = d + c N + e N (N - 1) is linear in d, c and e, and with none of them negative, 0 <= a <= 1 and b >= 0:
    g = 1 / (d + c), a = c g, b = e g.
    """
    weights = rps / cores / spread
    columns = _columns(cores)[:, :count]
    parts, _ = nnls(columns * weights[:, None], weights * cores / rps)
    d, c, e = [*parts, 0.0, 0.0][:3]
    if d + c <= 0:  # everything is coherence: no law of a node that starts at one core
        return _fitted(cores, rps, spread, count - 1)
    return 1 / (d + c), c / (d + c), e / (d + c)


def _missed(cores: Array, rps: Array, spread: Array, count: int) -> float | None:
    """Return the root mean square relative error at points that were left out of the fit; None for too few sizes."""
    sizes = np.unique(cores)
    if len(sizes) < max(3, count + 1):
        return None
    errors = []
    for size in sizes:
        kept = cores != size
        g, a, b = _fitted(cores[kept], rps[kept], spread[kept], count)
        errors += list(np.log(throughput(size, g, a, b) / rps[~kept]))
    return float(np.sqrt(np.mean(np.square(errors))))


def _draws(cores: Array, rps: Array, spread: Array, seed: int) -> Array:
    """Return shape (3, DRAWS): g, a and b from their distribution given the points.

    log X = log g - log(1 + a (N - 1) + b N (N - 1)) + noise, normal, whose size follows from spreads and residuals (a
    conjugate inverse gamma, so that log g has Student's t; A. Gelman et al., Bayesian Data Analysis, 3rd ed., ch. 14).
    a and b are on a grid; each law is as probable as the others before the points are seen.
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
        boxes = [box.around(cells, weights / weights.sum()) for box in boxes]
    chosen = random.choice(len(weights), size=DRAWS, p=weights / weights.sum())
    # Within its cell of the grid, a parameter may have any value; log g follows, so that the curve passes the points.
    a = np.minimum(1.0, cells.a[chosen] * np.exp(cells.half_a[chosen] * random.uniform(-1, 1, DRAWS)))
    b = cells.b[chosen] * np.exp(cells.half_b[chosen] * random.uniform(-1, 1, DRAWS))
    centre, _ = _fit_of(a, b, cores, rps, precision)
    scale = np.sqrt((PRIOR_POINTS + misfit[chosen]) / freedom / precision.sum())
    g = np.exp(centre + scale * random.standard_t(freedom, DRAWS))
    return np.stack([g, a, b])


def _fit_of(a: Array, b: Array, cores: Array, rps: Array, precision: Array) -> tuple[Array, Array]:
    """Return log g that fits the points best with each a and b, and the weighted squares that are left; their shape."""
    slowed = 1 + a[:, None] * (cores - 1) + b[:, None] * cores * (cores - 1)
    levels = np.log(rps / cores) + np.log(slowed)  # (cells, points): log g by each point alone
    centre: Array = levels @ precision / precision.sum()
    misfit: Array = np.square(levels - centre[:, None]) @ precision
    return centre, misfit


@dataclass(frozen=True)
class _Box:
    """Ranges of a law's contention and coherence.  ``count``: its parameters; those that it lacks are 0."""

    count: int
    contention: tuple[float, float] = _CONTENTION
    coherence: tuple[float, float] = _COHERENCE

    def cells(self) -> tuple[Array, ...]:
        """Return a, b, half the widths of both in their logarithms, and the probability of every cell beforehand."""
        nothing, whole = np.zeros(1), np.ones(1)
        a, half_a, share_a = _middles(self.contention, _CONTENTION) if self.count > 1 else (nothing, nothing, whole)
        b, half_b, share_b = _middles(self.coherence, _COHERENCE) if self.count > 2 else (nothing, nothing, whole)
        first = [np.repeat(column, len(b)) for column in (a, half_a, share_a)]
        second = [np.tile(column, len(a)) for column in (b, half_b, share_b)]
        probability = first[2] * second[2] / len(LAWS)
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
    """Cells of all laws; arrays of shape (cells,).  ``count``: parameters of a cell's law."""

    a: Array
    b: Array
    half_a: Array
    half_b: Array
    log_prior: Array
    count: Array

    @staticmethod
    def of(boxes: Sequence[_Box]) -> _Cells:
        a, b, half_a, half_b, prior, count = (
            np.concatenate(part) for part in zip(*map(_Box.cells, boxes), strict=True)
        )
        return _Cells(a, b, half_a, half_b, np.log(prior), count)


def _middles(ends: tuple[float, float], whole: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Return middles of cells between two ends, half their widths, their share of the whole range; by logarithms."""
    edges = np.linspace(np.log(ends[0]), np.log(ends[1]), _CELLS + 1)
    half = np.diff(edges) / 2
    middles: Array = np.exp(edges[:-1] + half)
    return middles, half, 2 * half / np.log(whole[1] / whole[0])
