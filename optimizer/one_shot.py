"""Base class of placement solvers: state the problem, solve it once, suggest the solution, stop."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optimizer.base import Optimizer
from optimizer.errors import SearchExhausted
from optimizer.placement.assignment import Assignment, assignment_of
from optimizer.space import Configuration


class PlacementSolver(Optimizer):
    """An algorithm implements ``_solve``; this class suggests its placement once, and only if it fits."""

    budgeting = "one suggestion"
    one_shot: ClassVar[bool] = True
    learns: ClassVar[bool] = False
    places: ClassVar[bool] = True

    @abstractmethod
    def _solve(self, problem: Assignment) -> tuple[NDArray[np.int64], str] | None:
        """Return the domain of each service, (n,), and why, in a phrase; None where it has no placement."""

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        problem = assignment_of(self.space)
        solved = self._solve(problem)
        if solved is None or (solved[0] < 0).any() or not problem.fits(solved[0]):
            raise SearchExhausted(f"{self.name} has no placement that fits the capacities")
        configuration = problem.configuration(solved[0])
        if configuration in self.seen:
            raise SearchExhausted(f"{self.name} has one placement")
        return configuration, solved[1]

    def recommend(self) -> Configuration | None:
        """Return the solver's placement once it was measured, even if the start measured better.

        One trial of each decides nothing; the verdict compares the recommendation with the start.
        """
        start = self.space.default()
        return next(
            (score.configuration for score in self.scores() if score.configuration != start), super().recommend()
        )
