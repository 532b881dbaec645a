"""Scaling laws: throughput of one node against its cores, fitted to measurements, with what other sizes would give.

Universal Scalability Law (N. J. Gunther, Guerrilla Capacity Planning, 2007, eq. 4.31), of which the others are cases:

    X(N) = g N / (1 + a (N - 1) + b N (N - 1))        Amdahl: b = 0        linear: a = b = 0

The law is chosen by leaving out one point after the other.  What a size would give is an interval over all three laws,
because the points seldom exclude one, and what they say about larger sizes differs most there.  It also has what no law
has: systems follow none exactly, and less so the further a size is from those measured.

No law sees a limit that no size has reached.  A service that can use only so many cores is one: it is known from the
CPU time of its requests, X(N) <= m / D (P. J. Denning, J. P. Buzen, Computing Surveys 10(3), 1978, utilization law).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from framework.capacity.law_draws import DRAWS, LAWS, Array, law_draws, throughput
from framework.errors import FieldError
from framework.model.capacity import Interval, ScalingPoint

MOST_TIMES = 4.0
"""Times the largest measured number of cores, up to which a law is asked without being told to."""
LEAST_RPS, MOST_RPS = 1e-6, 1e12
LEAST_SPREAD = 1e-6
"""Of a rate, as a share of it: none is known better, and squares of smaller ones are lost in the rounding of others."""
USUAL_SPREAD = 0.02
"""Standard error of a throughput, as a share of it, where none is stated."""
SIMPLER = 0.9
"""A law with one parameter more is chosen where it misses the points left out by less than this share."""
AT_CEILING = 0.9  # of the ceiling: a point above it may have been held back by it
CEILING_SPREAD = 0.05  # of a ceiling: CPU time per request is not quite the same on another number of cores
EXACT = 1e-9  # an error that is one of the arithmetic, as of points without noise
BEYOND_LAWS = 0.014
"""Standard deviation of what no law has, of the logarithm: at the sizes measured, and as much more for each doubling
beyond the largest and each halving below the smallest.

Chosen so that nine in ten sizes of the twins of two applications are covered; on other systems it was not checked.
"""
MISFIT = 0.2  # of a throughput that was measured: a law that is further away from it is told
Z95 = 1.96  # standard errors: 95 % of a normal distribution
_STREAM = 5  # of the seed
LOW, HIGH = 0.025, 0.975  # quantiles of the prediction interval


@dataclass(frozen=True, slots=True)
class Prediction:
    """Throughput of a node in requests/s; ``extrapolated``: beyond what the points may be asked about."""

    cores: float
    rps: Interval
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class NarrowService:
    """A service that can use only some cores, however many there are.  ``cpu_s``: CPU seconds of it per request."""

    name: str
    cores: float
    cpu_s: float

    @property
    def ceiling(self) -> float:
        """Most requests/s of a node on any number of cores."""
        return self.cores / self.cpu_s


@dataclass(frozen=True)
class ScalingLaw:
    """A law fitted to points.

    ``name``: the law chosen.  ``g``, ``a``, ``b``: its parameters.  ``missed``: law -> root mean square of the relative
    error at points left out, None where there are too few points.  ``draws``: shape (5, DRAWS), g, a and b that fit the
    points about as well, of all laws, in proportion to how well; the ceiling as a share of the likely one; and a
    standard normal number for what no law has.  ``narrow``: services, of which the first sets the ceiling.
    """

    points: tuple[ScalingPoint, ...]
    name: str
    g: float
    a: float
    b: float
    missed: dict[str, float | None]
    draws: Array
    narrow: tuple[NarrowService, ...] = ()

    @property
    def ceiling(self) -> float:
        """Most requests/s on any number of cores, infinite where no service is narrow."""
        return self.narrow[0].ceiling if self.narrow else np.inf

    @cached_property
    def measured_cores(self) -> float:
        return max(point.cores for point in self.points)

    @cached_property
    def least_cores(self) -> float:
        """Fewest cores that were measured."""
        return min(point.cores for point in self.points)

    def rps(self, cores: ArrayLike, *, limited: bool = True) -> Array:
        """Return the throughput that the chosen law gives, requests/s; ``cores``: any shape.

        ``limited``: by the ceiling; without, N / X is the CPU time of a request, which a ceiling does not change.
        """
        ceiling = self.ceiling if limited else np.inf
        return throughput(np.asarray(cores, np.float64), self.g, self.a, self.b, ceiling)

    def rps_of_draws(self, cores: ArrayLike, count: int = DRAWS, *, limited: bool = True) -> Array:
        """Return the throughput by each of ``count`` draws, requests/s; ``cores``: of shape () or (sizes, 1).

        The shape is (count,) or (sizes, count).  ``limited``: as of ``rps``.
        """
        g, a, b, share, beyond = self.draws[:, np.arange(count) % DRAWS]
        cores = np.asarray(cores, np.float64)
        times = np.maximum(1.0, np.maximum(cores / self.measured_cores, self.least_cores / cores))
        ceiling = self.ceiling * share if limited else np.inf
        result: Array = throughput(cores, g, a, b, ceiling) * np.exp(BEYOND_LAWS * (1 + np.log2(times)) * beyond)
        return result

    def narrow_s(self, cases: int) -> dict[str, Array]:
        """Return service -> CPU seconds per request of shape (cases,): the likely ones first, then by the draws."""
        share = np.concatenate([[1.0], self.draws[3, np.arange(cases - 1) % DRAWS]])
        return {service.name: service.cpu_s / share for service in self.narrow}

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
                "cores", cores, f"1 to {most:.3g}, {most_times:g} times the {self.measured_cores:.3g} measured"
            )
        likely = float(self.rps(cores))
        low, high = np.quantile(self.rps_of_draws(cores), [LOW, HIGH])
        return Prediction(cores, Interval(min(float(low), likely), likely, max(float(high), likely)), beyond)


def fit(points: Sequence[ScalingPoint], seed: int = 0, narrow: Sequence[NarrowService] = ()) -> ScalingLaw:
    """Choose and fit a law.  With one or two sizes the linear one is assumed; the interval says how little is known.

    ``narrow``: services that can use only some cores; points at their ceiling do not tell of the law below it.
    Raises FieldError where there is no point, or one without cores or throughput above 0.
    """
    if not points:
        raise FieldError("points", "nothing", "at least one number of cores with its throughput")
    for point in points:
        if not (
            1 <= point.cores < np.inf
            and LEAST_RPS <= point.throughput_rps <= MOST_RPS
            and 0 <= point.spread < point.throughput_rps
        ):
            stated = f"{point.throughput_rps:g} requests/s on {point.cores:g} cores, standard error {point.spread:g}"
            allowed = f"at least 1 core, a rate of {LEAST_RPS:g} to {MOST_RPS:g}, a standard error below the rate"
            raise FieldError("points", stated, allowed)
    narrow = tuple(sorted(narrow, key=lambda service: service.ceiling))
    ceiling = narrow[0].ceiling if narrow else np.inf
    below = [point for point in points if point.throughput_rps < AT_CEILING * ceiling]
    measured, points = tuple(points), below or points
    cores = np.array([point.cores for point in points], np.float64)
    rps = np.array([point.throughput_rps for point in points], np.float64)
    spread = np.array([point.spread / point.throughput_rps or USUAL_SPREAD for point in points])
    spread = np.maximum(spread, LEAST_SPREAD)
    missed = {name: _missed(cores, rps, spread, count) for count, name in enumerate(LAWS, 1)}
    chosen = 1
    for count, name in enumerate(LAWS, 1):
        if _is_better(missed[name], missed[LAWS[chosen - 1]]):
            chosen = count
    g, a, b = _fitted(cores, rps, spread, chosen)
    limits, beyond = np.random.default_rng([seed, _STREAM]).standard_normal((2, 1, DRAWS))
    draws = np.concatenate([law_draws(cores, rps, spread, seed), np.exp(CEILING_SPREAD * limits), beyond])
    return ScalingLaw(measured, LAWS[chosen - 1], g, a, b, missed, draws, narrow)


def misfits(law: ScalingLaw, kind: str) -> list[str]:
    """Return a sentence for each size at which a law is far from what was measured; ``kind``: of the requests."""
    said = []
    for point in law.points:
        rps = float(law.rps(point.cores))
        far = max(MISFIT * point.throughput_rps, Z95 * point.spread)
        if abs(rps - point.throughput_rps) > far:
            said.append(
                f"the law of {kind} misses what was measured: on {point.cores:g} cores it gives {rps:,.0f}/s, and "
                f"{point.throughput_rps:,.0f}/s were measured; are the points of one configuration?"
            )
    return said


def _is_better(error: float | None, than: float | None) -> bool:
    return error is not None and than is not None and than > EXACT and error < SIMPLER * than


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
