"""Peers that are raced and not shipped: they cannot keep every promise of the interface."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from optimizer.algorithms.nevergrad import Nevergrad
from optimizer.space import Configuration
from optimizer.trial import Observation


class NGOpt(Nevergrad):
    """The algorithm that nevergrad itself chooses for the space and the budget.

    That may be an algorithm which takes one suggestion after the other; asked for more, it has none of its own.
    """

    name = "ngopt"
    bounded = True
    summary = "nevergrad's automatic choice of an algorithm (NGOpt)"
    source = "Meunier et al. 2022 (IEEE Trans. Evolutionary Computation 26(3)); nevergrad's implementation"
    suits = "to compare with what nevergrad recommends"
    budgeting = "nevergrad chooses the algorithm by it"
    needs_budget = True

    def _made(self, nevergrad: ModuleType) -> Any:
        self._waiting = 0  # candidates that nothing has been told about
        return nevergrad.optimizers.NGOpt(self._cube, budget=self.budget, num_workers=1)

    def _candidate(self) -> tuple[Any, Configuration] | None:
        if self._waiting and self._library.optim.no_parallelization:
            return None  # it would wait for an answer, for ever
        self._waiting += 1
        return super()._candidate()

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        self._waiting -= token is not None
        super()._inform(token, observation, value)
