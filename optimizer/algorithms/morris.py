"""Screening by experiment: the Morris method moves one group of parameters at a time along random trajectories.

With r trajectories over G groups it takes r (G + 1) trials; a smaller budget screens as many groups as it allows, in
random order.  It does not search; ``optimizer.analysis.importance.effects`` computes the result.

Sources: Morris, Technometrics 33(2) (1991) [M91]; groups: Campolongo, Cariboni & Saltelli, Environmental Modelling &
Software 22 (2007) [C07].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optimizer.base import Optimizer
from optimizer.errors import SearchExhausted
from optimizer.space import Configuration

LEVELS = 4  # [M91] section 3: an even number of levels p ...
STEP = LEVELS / (2 * (LEVELS - 1))  # ... and a step of p / (2 (p - 1)), so that all levels are equally likely


class Morris(Optimizer):
    """Trajectories on a grid of four levels; each step moves all parameters of one group (a service).

    The first trajectory begins at ``start`` where there is one, the others at random points of the grid.  Steps that
    break a constraint or repeat a configuration are left out.
    """

    name = "morris"
    summary = "screening, no search: the Morris method with one group of parameters (a service) at a time"
    source = "Morris 1991 (Technometrics 33(2)); groups: Campolongo, Cariboni & Saltelli 2007 (EMS 22)"
    suits = "to learn which services matter before a study (`--reduce screening:STUDY`)"
    budgeting = "as many trajectories as it holds; below one, as many services as it holds"
    needs_budget = True
    learns = False
    one_shot: ClassVar[bool] = True

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        for configuration, note in self._design():
            if configuration not in seen and self.space.is_feasible(configuration):
                return configuration, note
        raise SearchExhausted("every step of the trajectories has been suggested")

    def _design(self) -> Iterator[tuple[Configuration, str]]:
        """Yield all points in order, the same ones at every ask."""
        groups = list(self.space.groups.values())
        place = {name: j for j, name in enumerate(self.space.names)}
        budget = self.budget if self.budget is not None else 0  # the base class refuses None where needs_budget
        for trajectory in range(max(1, -(-budget // (len(groups) + 1)))):
            rng = self.stream(1, trajectory)
            from_start = trajectory == 0 and self.start is not None
            point = self._begin(rng, from_start)
            yield self.space.from_unit(point), f"trajectory {trajectory + 1}: its beginning"
            for group in rng.permutation(len(groups)):
                members = [place[name] for name in groups[group]]
                point = point.copy()
                point[members] = _moved(point[members], rng)
                label = self.space.parameters[members[0]].group or ", ".join(groups[group])
                yield self.space.from_unit(point), f"trajectory {trajectory + 1}: moves {label}"

    def _begin(self, rng: np.random.Generator, from_start: bool) -> NDArray[np.float64]:
        drawn = rng.integers(LEVELS, size=len(self.space)) / (LEVELS - 1)
        if from_start and self.start is not None:
            return np.asarray(self.space.to_unit(self.start), dtype=np.float64)
        return drawn


def _moved(units: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Move each coordinate (k,) a step up, or down where up would leave [0, 1]."""
    up = np.where(units + STEP > 1.0, False, np.where(units - STEP < 0.0, True, rng.random(len(units)) < 0.5))
    return np.clip(np.where(up, units + STEP, units - STEP), 0.0, 1.0)
