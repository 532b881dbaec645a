"""Another map of the unit cube to configurations, in which every point keeps the equations of the space.

By ``SearchSpace.from_unit`` each coordinate is that of one parameter, and a point that breaks an equation is moved to
one that keeps it: right for a step from a good configuration, but most draws of many parameters would end at a bound.
So draws of whole configurations, and libraries that know no equations, use this map (``Slice.spread``).  Without an
equation the two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.space.configuration import Configuration
from optimizer.space.search_space import SearchSpace

Array = NDArray[np.float64]


def spread(space: SearchSpace, cube: Array) -> Array:
    """Map uniform points (n, d) to coordinates (n, d) of points that are uniform among those of the equations."""
    result, places = cube.copy(), {name: j for j, name in enumerate(space.names)}
    for part in space.dependents.slices:
        columns = [places[name] for name in part.free]
        values = part.spread(cube[:, columns])
        for k, j in enumerate(columns):
            result[:, j] = space.parameters[j].coordinates(values[:, k])
    return result


def from_cube(space: SearchSpace, point: ArrayLike) -> Configuration:
    """Return the configuration of a point of the cube, shape (d,), by ``spread``.  Raises InvalidValue."""
    return space.from_unit(spread(space, np.asarray(point, dtype=float)[None, :])[0])


def to_cube(space: SearchSpace, configuration: Mapping[str, Any]) -> Array:
    """Return the point, shape (d,), that ``from_cube`` maps to a configuration.  Raises InvalidValue."""
    point, places = space.to_unit(configuration), {name: j for j, name in enumerate(space.names)}
    for part in space.dependents.slices:
        columns = [places[name] for name in part.free]
        values = np.array([[float(configuration[name]) for name in part.free]])
        point[columns] = part.gathered(values)[0]
    return point
