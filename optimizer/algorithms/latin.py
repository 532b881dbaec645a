"""Latin hypercube sampling: a design that covers every parameter's range evenly and learns nothing.

Source: McKay, Beckman & Conover, Technometrics 21(2) (1979).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from optimizer.base import Optimizer
from optimizer.errors import InvalidInput
from optimizer.sampling import strata, unseen
from optimizer.space import Configuration, SearchSpace
from optimizer.space.cube import from_cube

MOST_VALUES = 2_000_000  # of a design, which is drawn at once: some 50 MB


class LatinHypercube(Optimizer):
    """One design of as many points as the budget; uniform draws beyond it and for points that cannot be used."""

    name = "lhs"
    summary = "Latin hypercube sampling over the whole budget"
    source = "McKay, Beckman & Conover 1979 (Technometrics 21(2)); scipy's implementation"
    suits = "to cover a space evenly, for importance or for a model of your own"
    budgeting = "one design of its size, of at most 2,000,000 values"
    needs_budget = True
    learns = False

    def __init__(self, space: SearchSpace, *, seed: int, budget: int | None = None, **given: Any) -> None:
        super().__init__(space, seed=seed, budget=budget, **given)
        if len(space) * self._size > MOST_VALUES:
            said = f"{self._size} points of {len(space)} parameters; allowed: at most {MOST_VALUES:,} values"
            raise InvalidInput(f"lhs draws its whole design at once: {said}")

    @property
    def _size(self) -> int:
        return self.budget if self.budget is not None else 1  # the base class refuses None where needs_budget

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        size = self._size
        if index < size:
            point = from_cube(self.space, strata(len(self.space), size, self.stream(1))[index])
            if point not in self.seen and self.space.is_feasible(point):
                return point, f"Latin hypercube, {index + 1} of {size}"
        return unseen(self.space, rng, self.seen), "uniform, in place of a point of the Latin hypercube"
