"""CMA-ES with margin, by the library cmaes: a normal distribution whose covariance adapts in each generation.

Sources: Hansen, arXiv:1604.00772 (tutorial); the margin, which keeps integers and choices from freezing: Hamano, Saito,
Nomura & Shirakawa, GECCO 2022.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from optimizer.base import Option
from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.space import Configuration, Parameter
from optimizer.space.cube import from_cube, to_cube
from optimizer.trial import Observation

_COARSE = 32  # a parameter with at most so many values is discrete for the margin


class CMAES(LibraryOptimizer):
    """CMA-ES on the unit cube, from ``start`` or the middle; imported observations are members of a generation too.

    A generation is at most a third of the budget (cmaes would take 4 + 3 ln d).
    """

    name = "cma-es"
    summary = "CMA-ES with margin for integers and choices"
    source = "Hamano et al. 2022 (GECCO); Hansen 2016 (arXiv:1604.00772); the library cmaes"
    suits = "long studies of numbers that depend on each other"
    budgeting = "generations of 4 + 3 ln(parameters), at most a third of the budget, at least 3"
    options_known: ClassVar[Mapping[str, Option]] = {
        "sigma": Option(0.25, "first standard deviation, in ranges of the parameters", low=0.001, high=1),
    }

    def _open(self, seed: int) -> None:
        cmaes = library("cmaes")
        parameters = self.space.parameters
        equations = self.space.dependents.in_equations
        steps = np.array([0.0 if parameter.name in equations else _step(parameter) for parameter in parameters])
        half = steps / 2  # the middles of the first and the last cell
        start = to_cube(self.space, self.start) if self.start is not None else np.full(len(parameters), 0.5)
        usual = 4 + int(3 * np.log(max(1, len(parameters))))
        self._size = max(3, usual if self.budget is None else min(usual, self.budget // 3))
        self._generation: list[tuple[np.ndarray[Any, Any], float]] = []
        self._cma = cmaes.CMAwM(
            mean=np.clip(start, half, 1 - half),
            sigma=float(self.options["sigma"]),
            bounds=np.stack([half, 1 - half], axis=1),
            steps=steps,
            seed=seed,
            population_size=self._size,
        )

    def _candidate(self) -> tuple[Any, Configuration]:
        evaluated, told = self._cma.ask()
        return told, from_cube(self.space, np.clip(evaluated, 0.0, 1.0))

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        point = to_cube(self.space, observation.configuration) if token is None else token
        self._generation.append((point, value))
        if len(self._generation) == self._size:
            self._cma.tell(self._generation)
            self._generation = []


def _step(parameter: Parameter) -> float:
    """Return the width of a cell; 0 where widths differ or where the parameter has more than 32 values."""
    even = not parameter.ordered or (parameter.scale == "linear" and parameter.step is None and not parameter.special)
    return 1.0 / parameter.cardinality if even and 1 < parameter.cardinality <= _COARSE else 0.0
