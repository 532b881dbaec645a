"""Functions of COCO with noise: bbob (continuous) and bbob-mixint (mixed integer), from the library coco-experiment.

Source: Hansen, Auger, Ros, Mersmann, Tusar & Brockhoff, Optimization Methods and Software 36(1) (2021); mixed integer:
Tusar, Brockhoff & Hansen, GECCO 2019.
"""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.library_optimizer import library
from optimizer.space import Configuration, Parameter, SearchSpace

FLOOR = 1e-2
"""Added to the distance from the optimum, so that values, and the noise on them, stay above 0."""


class Coco:
    """One function of a suite ("bbob" or "bbob-mixint"): its distance from the optimum, with log-normal noise.

    The default is a random point, the same for every optimizer.  Raises LibraryMissing.
    """

    def __init__(self, suite: str, function: int, dimensions: int, instance: int, noise: float = 0.1) -> None:
        self.name = f"{suite}-f{function:03d}-d{dimensions}-i{instance}-noise{noise:g}"
        self.family = suite
        self._noise = noise
        cocoex: Any = library("cocoex", "coco-experiment")
        chosen = f"dimensions:{dimensions} function_indices:{function} instance_indices:{instance}"
        self._suite = cocoex.Suite(suite, "", chosen)  # kept: the problem belongs to it
        self._problem = self._suite[0]
        self._whole = int(self._problem.number_of_integer_variables)
        low, high = np.asarray(self._problem.lower_bounds), np.asarray(self._problem.upper_bounds)
        self._optimum = float(self._problem(_best(self._problem)))
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        parameters = []
        for j in range(dimensions):
            name, bounds = f"x{j}", (float(low[j]), float(high[j]))
            if j < self._whole:
                first, last = int(bounds[0]), int(bounds[1])
                default = int(rng.integers(first, last + 1))
                parameters.append(Parameter(name, "integer", default, low=first, high=last))
            else:
                default_x = float(rng.uniform(*bounds))
                parameters.append(Parameter(name, "real", default_x, low=bounds[0], high=bounds[1]))
        self.space = SearchSpace(parameters)

    def truth(self, configuration: Configuration) -> float | None:
        point = np.array([float(configuration[name]) for name in self.space.names])
        return max(0.0, float(self._problem(point)) - self._optimum) + FLOOR

    def noise(self, configuration: Configuration) -> float:
        return self._noise

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        return {}


def _best(problem: Any) -> NDArray[np.float64]:
    """Return the optimum, (d,); coco-experiment gives it only as a file in the working directory."""
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        problem._best_parameter("print")
        [path] = Path(directory).iterdir()
        return np.loadtxt(path)
