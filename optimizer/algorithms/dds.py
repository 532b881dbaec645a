"""Dynamically dimensioned search (DDS), and its inverse, which grows instead of shrinking.

DDS perturbs the best configuration so far in a random subset of its parameters: all of them at first, one at the end.
``dds-grow`` begins with one and ends with all, as in the published code of the paper that Tailor follows (it selects a
parameter where u > P instead of u < P).

Sources: Tolson & Shoemaker, Water Resources Research 43 (2007) W01413 [TS07], figure 1; for integers and stepped
parameters Tolson, Asadzadeh, Maier & Zecchin, Water Resources Research 45 (2009) W12416 [T09], the discrete DDS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from optimizer.base import Optimizer, Option
from optimizer.sampling import perturbed, unseen
from optimizer.space import Configuration

_REDRAWS = 100  # repeated or infeasible perturbations after which a uniform draw is suggested


class DDS(Optimizer):
    """Greedy search around the best configuration told, perturbing fewer parameters as the budget runs out.

    Values are compared as told (a configuration told twice by its mean); several asks before a tell all perturb the
    same incumbent.  Perturbations happen on the unit cube, hence on the logarithm where the scale is logarithmic.
    """

    name = "dds"
    summary = "dynamically dimensioned search: from all parameters down to one around the best so far"
    source = "Tolson & Shoemaker 2007 (WRR 43, W01413); discrete parameters: Tolson et al. 2009 (WRR 45, W12416)"
    suits = "many parameters and few trials; the best of the paper that Tailor follows"
    budgeting = "from all parameters at the first suggestion to one at the last"
    needs_budget = True
    uses_priors = True
    options_known: ClassVar[Mapping[str, Option]] = {
        "r": Option(0.2, "standard deviation of a perturbation, in ranges of the parameter", low=0.001, high=1.0),
    }

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        design = 0 if self.start is not None else self._design_size()
        incumbent = self.best()
        centre = self.start if incumbent is None else incumbent.configuration
        if index < design or centre is None:
            return unseen(self.space, rng, seen), "start design"
        first = design + self.start_asks  # asks that were spent before the search began
        probability = self.selection_probability(index - first + 1, self._budget() - first)
        for _ in range(_REDRAWS):
            chosen = self._choose(probability, rng)
            candidate = perturbed(self.space, centre, chosen, float(self.options["r"]), rng)
            if candidate not in seen and self.space.is_feasible(candidate):
                return candidate, f"perturbs {len(chosen)} of {len(self.space)} parameters"
        return unseen(self.space, rng, seen), "uniform: the neighbourhood is used up"

    def _budget(self) -> int:
        return self.budget if self.budget is not None else 1  # the base class refuses None where needs_budget

    def _design_size(self) -> int:
        """Return the size of the design: 0.5 % of the budget, at least 5 ([TS07] step 1), at most a third of it."""
        return max(1, min(max(5, round(0.005 * self._budget())), self._budget() // 3))

    def selection_probability(self, i: int, n: int) -> float:
        """Return P(i) = 1 - ln(i) / ln(N) for i = 1 ... N ([TS07] step 2); 0 beyond the budget."""
        if i <= 1:
            return 1.0
        return max(0.0, 1.0 - math.log(i) / math.log(n)) if n > 1 else 0.0

    def _choose(self, probability: float, rng: np.random.Generator) -> list[int]:
        """Choose each parameter with probability P, and one at random if none was chosen ([TS07] step 2).

        With priors, P is multiplied by a parameter's weight, whose mean is one (our extension).
        """
        dimensions, weights = len(self.space), self.priors()
        chosen = np.flatnonzero(rng.random(dimensions) < (probability if weights is None else probability * weights))
        if chosen.size == 0:
            chosen = rng.choice(dimensions, size=1, p=None if weights is None else weights / weights.sum())
        return [int(j) for j in chosen]


class DDSGrow(DDS):
    """The inverse of DDS: from one parameter up to all around the best so far."""

    name = "dds-grow"
    summary = "inverse DDS: from one parameter up to all around the best so far"
    source = "DDS (Tolson & Shoemaker 2007) with the inverse selection (u > P) of the paper's published code"
    suits = "a default that is already good, so that few changes at once are better"
    budgeting = "from one parameter at the first suggestion to all at the last"

    def selection_probability(self, i: int, n: int) -> float:
        """Return 1 - P(i) = ln(i) / ln(N): 0 at first (so that step 2 chooses one at random), 1 at the end."""
        return 1.0 - super().selection_probability(i, n)
