"""Random search: the baseline for every other algorithm."""

from __future__ import annotations

import numpy as np

from optimizer.base import Optimizer
from optimizer.sampling import unseen
from optimizer.space import Configuration


class Random(Optimizer):
    """Uniform draws from the space, in each parameter's scale, without repetition."""

    name = "random"
    summary = "uniform random search, without repetition"
    source = "Bergstra & Bengio, Random search for hyper-parameter optimization, JMLR 13 (2012)"
    suits = "as the yardstick that every other algorithm has to beat"
    budgeting = "none"
    learns = False

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        return unseen(self.space, rng, self.seen), "uniform"
