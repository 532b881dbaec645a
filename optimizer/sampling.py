"""Drawing configurations: uniformly, as a Latin hypercube, and never one that was seen before."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import numpy as np

from optimizer.errors import SearchExhausted
from optimizer.space import Configuration, SearchSpace

_DRAWS = 1000  # uniform draws before a space is taken to be (almost) used up
_COUNTABLE = 100_000  # spaces up to this size are then listed, so that every last configuration is found


def design_size(dimensions: int, budget: int | None) -> int:
    """Number of points to begin with: one more than the dimensions, at least 5, never above a third of the budget.

    d + 1 points determine a linear trend; without a budget the number is at most 10, what libraries commonly take.
    """
    wanted = max(5, dimensions + 1)
    return max(1, min(wanted, 10 if budget is None else budget // 3))


def uniform(space: SearchSpace, rng: np.random.Generator) -> Configuration:
    """One configuration, uniform on the unit cube; it may break constraints."""
    return space.from_unit(rng.random(len(space)))


def unseen(space: SearchSpace, rng: np.random.Generator, seen: Collection[Configuration]) -> Configuration:
    """A feasible configuration that is not in ``seen``, uniform on these.

    Raises SearchExhausted if there is none, or if a space too large to list has none in 1000 draws.
    """
    for _ in range(_DRAWS):
        drawn = uniform(space, rng)
        if drawn not in seen and space.is_feasible(drawn):
            return drawn
    if space.cardinality > _COUNTABLE:
        raise SearchExhausted(f"no feasible configuration in {_DRAWS} draws: the constraints leave almost nothing")
    left = [one for one in every(space) if one not in seen and space.is_feasible(one)]
    if not left:
        raise SearchExhausted("every configuration of the space has been suggested or told")
    return left[int(rng.integers(len(left)))]


def every(space: SearchSpace) -> list[Configuration]:
    """All configurations of a countable space, constraints aside; empty where a parameter is continuous."""
    columns = [parameter.values() for parameter in space.parameters]
    listed = [column for column in columns if column is not None]
    if len(listed) < len(columns):
        return []
    return [Configuration(zip(space.names, row, strict=True)) for row in itertools.product(*listed)]


def latin_hypercube(space: SearchSpace, count: int, rng: np.random.Generator) -> list[Configuration]:
    """``count`` configurations, one in each of ``count`` strata of every parameter (McKay, Beckman & Conover 1979).

    Points that coincide on a coarse space or break a constraint are kept: the caller replaces what it cannot use.
    """
    from scipy.stats import qmc  # here, because it costs a second that only those who use it should pay

    points = qmc.LatinHypercube(d=len(space), rng=rng).random(count)
    return [space.from_unit(point) for point in points]
