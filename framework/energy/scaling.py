"""Cycles per I/O operation on rising numbers of cores, projected to many more by two laws.

Akram et al. (2012) measure system cycles per I/O at 1, 4, 8 and 16 cores and draw a straight line to 1,024.  Beside it
stands what the Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapter 4) says of them: with a
throughput of X(n) = g n / (1 + a (n - 1) + b n (n - 1)) on n busy cores, the cycles of an operation are n / X(n) times
a constant, a polynomial of n.  Both are linear in what is fitted, so that the interval of a prediction is Student's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError

FEWEST = 4  # numbers of cores: below it, any line would do
CONFIDENCE = 0.95
FARTHEST = 1024

LawName = Literal["linear", "USL"]


@dataclass(frozen=True, slots=True)
class Projection:
    """Cycles per I/O on ``cores``, with the 95 % interval of a prediction, never below 0.

    ``times``: ratio to what the law says of one core.  ``beyond``: how many times the most cores that were measured.
    """

    law: LawName
    cores: int
    cycles: float
    low: float
    high: float
    times: float
    beyond: float


def projections(points: Sequence[tuple[float, float]], cores: int = FARTHEST) -> tuple[Projection, ...]:
    """Project (cores, cycles per I/O) by both laws.  Raises InputError for fewer than four numbers of cores.

    A law that leaves no degree of freedom is left out.
    """
    n = np.array([point[0] for point in points], float)
    cycles = np.array([point[1] for point in points], float)
    distinct = sorted(set(n.tolist()))
    if len(distinct) < FEWEST:
        measured = ", ".join(f"{number:g}" for number in distinct) or "none"
        raise InputError(
            f"cycles per I/O on {measured} cores say nothing of {cores:,}; allowed: at least {FEWEST} numbers of cores"
        )
    if not (np.isfinite(cycles).all() and (cycles > 0).all() and (n >= 1).all()):
        raise InputError("cycles per I/O: allowed: numbers above 0, on 1 core or more")
    fitted = (_projection(law, n, cycles, cores) for law in ("linear", "USL"))
    return tuple(projection for projection in fitted if projection is not None)


def _columns(law: LawName, n: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = [np.ones_like(n), n - 1]
    return np.stack(linear if law == "linear" else [*linear, n * (n - 1)], axis=1)


def _projection(law: LawName, n: NDArray[np.float64], cycles: NDArray[np.float64], cores: int) -> Projection | None:
    from scipy import stats  # here: it takes half a second, and most commands need no scipy

    design = _columns(law, n)
    degrees = len(n) - design.shape[1]
    if degrees < 1:
        return None
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ design.T @ cycles
    spread = float(np.sqrt(((cycles - design @ fitted) ** 2).sum() / degrees))
    at = _columns(law, np.array([float(cores)]))[0]
    value = float(at @ fitted)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees)) * spread * math.sqrt(1.0 + float(at @ inverse @ at))
    on_one_core = float(_columns(law, np.array([1.0]))[0] @ fitted)
    return Projection(
        law, cores, max(0.0, value), max(0.0, value - half), value + half,
        max(0.0, value) / on_one_core if on_one_core > 0 else math.inf, cores / float(n.max()),
    )  # fmt: skip
