"""Random numbers keyed by request, call and instruction, independent of the order of events.

Two configurations thus see equal demands for equal requests (common random numbers), so that small differences show.
A number is a hash of its key (SplitMix64: Steele, Lea & Flood, OOPSLA 2014), turned into the wanted distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from framework.twin.simulator.jit import inlined

CONSTANT, EXPONENTIAL, LOGNORMAL = 0, 1, 2
KINDS = {"constant": CONSTANT, "exponential": EXPONENTIAL, "lognormal": LOGNORMAL}

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53


@inlined
def mixed(key: np.uint64, number: np.uint64) -> np.uint64:
    """Return the ``number``-th subkey of ``key``."""
    z = key + _GOLDEN * (number + np.uint64(1))
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@inlined
def uniform(key: np.uint64, number: np.uint64) -> float:
    """Return the ``number``-th uniform number of ``key``, in (0, 1)."""
    return (float(mixed(key, number) >> _11) + 0.5) * _UNIT


@inlined
def normal(u: float) -> float:
    """Return the normal quantile of u in (0, 1), to 1e-15 (Wichura, AS 241, Applied Statistics 37(3) (1988))."""
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
                   + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
                + 133.14166789178437745) * r + 3.3871328727963666080)  # fmt: skip
        bottom = (((((((5226.495278852854561 * r + 28729.085735721942674) * r + 39307.89580009271061) * r
                      + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.1870074920579083) * r
                   + 42.313330701600911252) * r + 1.0)  # fmt: skip
        return q * top / bottom
    r = math.sqrt(-math.log(u if q < 0.0 else 1.0 - u))
    if r <= 5.0:
        r -= 1.6
        top = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
                   + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.76949722146069140550) * r
                + 4.63033784615654529590) * r + 1.42343711074968357734)  # fmt: skip
        bottom = (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 1.51986665636164571966e-2) * r
                      + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940) * r
                   + 2.05319162663775882187) * r + 1.0)  # fmt: skip
    else:
        r -= 5.0
        top = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r
                   + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580) * r
                + 5.46378491116411436990) * r + 6.65790464350110377720)  # fmt: skip
        bottom = (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r
                      + 7.868691311456132591e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
                   + 5.99832206555887937690e-1) * r + 1.0)  # fmt: skip
    return -top / bottom if q < 0.0 else top / bottom


@inlined
def draw(kind: int, mean: float, spread: float, u: float) -> float:
    """Return the draw of a distribution at ``u`` in (0, 1).  ``spread``: a log-normal's deviation of the logarithm."""
    if kind == EXPONENTIAL:
        return -mean * math.log(u)
    if kind == LOGNORMAL:
        return mean * math.exp(spread * normal(u) - 0.5 * spread * spread)
    return mean


def arrivals(rate_rps: float, seconds: float, poisson: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the times when requests are due, in seconds, ascending; shape (n,)."""
    if not poisson:
        return np.arange(int(rate_rps * seconds)) / rate_rps
    count = rng.poisson(rate_rps * seconds)
    return np.sort(rng.random(count) * seconds)
