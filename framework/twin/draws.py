"""Random numbers that belong to what they are for: request, call and instruction, never to the order of events.

So two configurations see the same demands of the same requests (common random numbers), and small differences show.
A number is a hash of its key (SplitMix64: Steele, Lea & Flood, OOPSLA 2014), turned into the wanted distribution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from framework.twin.compiling import inlined

CONSTANT, EXPONENTIAL, LOGNORMAL = 0, 1, 2
KINDS = {"constant": CONSTANT, "exponential": EXPONENTIAL, "lognormal": LOGNORMAL}

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53


@inlined
def mixed(key: np.uint64, number: np.uint64) -> np.uint64:
    """A key for the ``number``-th thing below ``key``."""
    z = key + _GOLDEN * (number + np.uint64(1))
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@inlined
def uniform(key: np.uint64, number: np.uint64) -> float:
    """In (0, 1)."""
    return (float(mixed(key, number) >> _11) + 0.5) * _UNIT


@inlined
def normal(u: float) -> float:
    """The standard normal quantile of u in (0, 1), to 1e-9 (Acklam's rational approximation, one step of Halley's)."""
    low = 0.02425
    if u < low:
        q = math.sqrt(-2.0 * math.log(u))
        x = _tail(q)
    elif u <= 1.0 - low:
        q = u - 0.5
        r = q * q
        top = ((((-3.969683028665376e1 * r + 2.209460984245205e2) * r - 2.759285104469687e2) * r
                + 1.383577518672690e2) * r - 3.066479806614716e1) * r + 2.506628277459239  # fmt: skip
        bottom = ((((-5.447609879822406e1 * r + 1.615858368580409e2) * r - 1.556989798598866e2) * r
                   + 6.680131188771972e1) * r - 1.328068155288572e1) * r + 1.0  # fmt: skip
        x = top * q / bottom
    else:
        q = math.sqrt(-2.0 * math.log(1.0 - u))
        x = -_tail(q)
    error = 0.5 * math.erfc(-x / math.sqrt(2.0)) - u
    step = error * math.sqrt(2.0 * math.pi) * math.exp(0.5 * x * x)
    return x - step / (1.0 + 0.5 * x * step)


@inlined
def _tail(q: float) -> float:
    top = ((((-7.784894002430293e-3 * q - 3.223964580411365e-1) * q - 2.400758277161838) * q
            - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783  # fmt: skip
    bottom = (((7.784695709041462e-3 * q + 3.224671290700398e-1) * q + 2.445134137142996) * q
              + 3.754408661907416) * q + 1.0  # fmt: skip
    return top / bottom


@inlined
def draw(kind: int, mean: float, spread: float, u: float) -> float:
    """A sample of the distribution with this mean; ``spread``: a log-normal's standard deviation of the logarithm."""
    if kind == EXPONENTIAL:
        return -mean * math.log(u)
    if kind == LOGNORMAL:
        return mean * math.exp(spread * normal(u) - 0.5 * spread * spread)
    return mean


def arrivals(rate_rps: float, seconds: float, poisson: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    """When requests are due, in seconds, ascending; shape (n,)."""
    if not poisson:
        return np.arange(int(rate_rps * seconds)) / rate_rps
    count = rng.poisson(rate_rps * seconds)
    return np.sort(rng.random(count) * seconds)
