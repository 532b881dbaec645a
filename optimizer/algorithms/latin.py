"""Latin hypercube sampling: a design that covers every parameter's range evenly and learns nothing.

Source: McKay, Beckman & Conover, Technometrics 21(2) (1979).
"""

from __future__ import annotations

import numpy as np

from optimizer.base import Optimizer
from optimizer.sampling import latin_hypercube, unseen
from optimizer.space import Configuration


class LatinHypercube(Optimizer):
    """One design of as many points as the budget; beyond it, and where a point cannot be used, uniform draws."""

    name = "lhs"
    summary = "Latin hypercube sampling over the whole budget"
    source = "McKay, Beckman & Conover 1979 (Technometrics 21(2)); scipy's implementation"
    suits = "to cover a space evenly, for importance or for a model of your own"
    budgeting = "one design of its size"
    needs_budget = True
    learns = False

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        size = self.budget if self.budget is not None else 1  # the base class refuses None where needs_budget
        if index < size:
            point = latin_hypercube(self.space, size, self.stream(1))[index]
            if point not in self.seen and self.space.is_feasible(point):
                return point, f"Latin hypercube, {index + 1} of {size}"
        return unseen(self.space, rng, self.seen), "uniform, in place of a point of the Latin hypercube"
