"""Draws of configurations: uniform, as a Latin hypercube, near another one; ``unseen`` never repeats one.

Sources: steps of reals: Tolson & Shoemaker, Water Resources Research 43 (2007) W01413 [TS07]; of integers and stepped
parameters: Tolson, Asadzadeh, Maier & Zecchin, Water Resources Research 45 (2009) W12416 [T09], the discrete DDS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import SearchExhausted
from optimizer.models.tied_parameters import TiedParameters
from optimizer.space import Configuration, Parameter, SearchSpace, Value
from optimizer.space.cube import from_cube

_DRAWS = 1000  # uniform draws after which a space counts as (almost) used up
FEW_PARAMETERS = 6
FEW_VALUES = 8  # in the geometric mean over the parameters
MANY_VALUES = 1024  # a parameter with more counts as one of these, a continuous one too
_COUNTABLE = 100_000  # spaces up to this size are then listed, so that every last configuration is found


def design_size(dimensions: int, budget: int | None) -> int:
    """Return the number of start-up points: one more than the dimensions, at least 5, at most a third of the budget.

    d + 1 points determine a linear trend; without a budget the number is at most 10, as in most libraries.
    """
    wanted = max(5, dimensions + 1)
    return max(1, min(wanted, 10 if budget is None else budget // 3))


def uniform(space: SearchSpace, rng: np.random.Generator) -> Configuration:
    """Return one configuration, uniform on the unit cube and on the equations; it may break other constraints."""
    return from_cube(space, rng.random(len(space)))


def unseen(space: SearchSpace, rng: np.random.Generator, seen: Collection[Configuration]) -> Configuration:
    """Return a feasible configuration that is not in ``seen``, uniform on these.

    Raises SearchExhausted if there is none, or if a space too large to list has none in 1000 draws.
    """
    for _ in range(_DRAWS):
        drawn = uniform(space, rng)
        if drawn not in seen and space.is_feasible(drawn):
            return drawn
    if space.cardinality > _COUNTABLE:
        raise SearchExhausted(f"no feasible configuration in {_DRAWS} draws: the constraints leave almost nothing")
    left = [
        configuration
        for configuration in every(space)
        if configuration not in seen and space.is_feasible(configuration)
    ]
    if not left:
        raise SearchExhausted("every configuration of the space has been suggested or told")
    return left[int(rng.integers(len(left)))]


def every(space: SearchSpace) -> list[Configuration]:
    """Return all configurations of a countable space, constraints aside; empty where a parameter is continuous."""
    columns = [parameter.values() for parameter in space.parameters]
    listed = [column for column in columns if column is not None]
    if len(listed) < len(columns):
        return []
    rows = (Configuration(zip(space.names, row, strict=True)) for row in itertools.product(*listed))
    return list(dict.fromkeys(space.canonical(row) for row in rows))


def values_are_few(space: SearchSpace) -> bool:
    """Return whether a few points fill the space: it has few parameters, or these have few values."""
    if len(space) <= FEW_PARAMETERS:
        return True
    logarithms = [math.log2(min(parameter.cardinality, MANY_VALUES)) for parameter in space.parameters]
    return math.fsum(logarithms) / len(logarithms) <= math.log2(FEW_VALUES)


def latin_hypercube(space: SearchSpace, count: int, rng: np.random.Generator) -> list[Configuration]:
    """Return ``count`` configurations, one in each stratum of every parameter (McKay, Beckman & Conover 1979).

    Strata of the parameters of an equation are those of ``space.cube.spread``.  Points that coincide on a coarse space
    or break a constraint are kept: the caller replaces those that it cannot use.
    """
    return [from_cube(space, point) for point in strata(len(space), count, rng)]


def grouped_design(
    space: SearchSpace, sets: Sequence[TiedParameters], count: int, rng: np.random.Generator
) -> list[Configuration]:
    """Return a Latin hypercube over sets of tied parameters; those of a set have one value, within their bounds."""
    points = np.empty((count, len(space)))
    for tied, at in zip(sets, strata(len(sets), count, rng).T, strict=True):
        points[:, tied.members] = tied.units(at)
    return [space.from_unit(point) for point in points]


def strata(dimensions: int, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a Latin hypercube, (count, dimensions)."""
    from scipy.stats import qmc  # imported here: it takes a second

    return np.asarray(qmc.LatinHypercube(d=dimensions, rng=rng).random(count))


def neighbour(parameter: Parameter, value: Value, step: float, rng: np.random.Generator) -> Value:
    """Return another value near ``value``; ``step`` in ranges of the parameter.

    Reals: [TS07] step 3, a normal step, reflected at the bounds.  Integers and steps: [T09], the same step between
    half a cell below the first and above the last value, rounded; if that gives the value again, a uniform draw of
    the others.  Choices and booleans: a uniform draw of the others (they have no order, so that a step means nothing;
    our extension).
    """
    if parameter.ordered:
        unit = parameter.to_unit(value) + step * float(rng.standard_normal())
        moved = parameter.from_unit(reflect(unit))
        if moved != value or parameter.cardinality == 1:
            return moved
    return another(parameter, value, rng)


def another(parameter: Parameter, value: Value, rng: np.random.Generator) -> Value:
    """Return a uniform draw of the parameter's other values."""
    values = parameter.values()
    if values is None:  # a real that was rounded to its old value: any draw will do
        return parameter.from_unit(float(rng.random()))
    others = [other for other in values if other != value]
    return others[int(rng.integers(len(others)))] if others else value


def reflect(unit: float) -> float:
    """Mirror a coordinate that left [0, 1]; if the image is outside too, take the bound ([TS07] step 3)."""
    if unit < 0.0:
        return 0.0 if -unit > 1.0 else -unit
    if unit > 1.0:
        return 1.0 if 2.0 - unit < 0.0 else 2.0 - unit
    return unit


def perturbed(
    space: SearchSpace, centre: Configuration, chosen: Iterable[int], step: float, rng: np.random.Generator
) -> Configuration:
    """Return ``centre`` with the parameters at the positions ``chosen`` moved to a neighbour."""
    moved = (space.parameters[j] for j in chosen)
    return space.canonical(
        centre.replace({parameter.name: neighbour(parameter, centre[parameter.name], step, rng) for parameter in moved})
    )


def mutated(
    space: SearchSpace, centre: Configuration, probability: float, step: float, rng: np.random.Generator
) -> Configuration:
    """Move each parameter to a neighbour with this probability, and one at random if none was chosen."""
    chosen = np.flatnonzero(rng.random(len(space)) < probability)
    if chosen.size == 0:
        chosen = rng.integers(len(space), size=1)
    return perturbed(space, centre, chosen.tolist(), step, rng)


def middle(space: SearchSpace) -> Configuration:
    """Return the middle of every range, where bounds suggest good values to be, and the default of every choice."""
    middles = {parameter.name: parameter.from_unit(0.5) for parameter in space.parameters if parameter.ordered}
    return space.canonical(space.default().replace(middles))
