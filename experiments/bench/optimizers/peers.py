"""Peers that are raced and not shipped: they cannot keep every promise of the interface."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from optimizer.algorithms.nevergrad import Nevergrad
from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.space import Configuration, Parameter
from optimizer.trial import Observation


class NGOpt(LibraryOptimizer):
    """The algorithm that nevergrad itself chooses for the space and the budget.

    It is told the space in nevergrad's terms, with the start as the initial value: numbers with their bounds and
    scales, integers by casting, choices without an order.  Its choice may be an algorithm which takes one suggestion
    after the other; asked for more, it has none of its own.
    """

    name = "ngopt"
    summary = "nevergrad's automatic choice of an algorithm (NGOpt)"
    source = "Meunier et al. 2022 (IEEE Trans. Evolutionary Computation 26(3)); nevergrad's implementation"
    suits = "to compare with what nevergrad recommends"
    budgeting = "nevergrad chooses the algorithm by it"
    needs_budget = True
    uses_failures = False  # the worst value told, which an algorithm that keeps only improvements does not look at

    def _open(self, seed: int) -> None:
        nevergrad = library("nevergrad")
        start = self.space.default() if self.start is None else self.start
        described = {
            parameter.name: nevergrad.p.Scalar(init=parameter.to_unit(start[parameter.name]), lower=0.0, upper=1.0)
            if self.in_cells(parameter)
            else _described(nevergrad.p, parameter, start[parameter.name])
            for parameter in self.space.parameters
        }
        self._described: Any = nevergrad.p.Dict(**described)
        for parameter in self.space.parameters:
            if not parameter.ordered:
                self._described[parameter.name].value = start[parameter.name]
        # Otherwise it would draw its seed from the global generator.
        self._described.random_state = np.random.RandomState(seed)
        self._library: Any = nevergrad.optimizers.NGOpt(self._described, budget=self.budget, num_workers=1)
        self._waiting = 0  # candidates that nothing has been told about

    def _candidate(self) -> tuple[Any, Configuration] | None:
        if self._waiting and self._library.optim.no_parallelization:
            return None  # it would wait for an answer, for ever
        self._waiting += 1
        candidate = self._library.ask()
        values = {
            parameter.name: self.to_value(parameter, candidate.value[parameter.name])
            for parameter in self.space.parameters
        }
        return candidate, self.space.validate(values)

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        self._waiting -= token is not None
        if token is None:
            drawn = {
                parameter.name: self.to_drawn(parameter, observation.configuration[parameter.name])
                for parameter in self.space.parameters
            }
            token = self._described.spawn_child(new_value=drawn)
        self._library.tell(token, value)


class NGOptCube(Nevergrad):
    """NGOpt over a cube with one number per parameter, for which it chooses COBYLA whatever the parameters' kinds."""

    name = "ngopt-cube"
    bounded = True
    summary = "nevergrad's automatic choice of an algorithm (NGOpt), parameters relaxed to numbers"
    source = NGOpt.source
    suits = NGOpt.suits
    budgeting = NGOpt.budgeting
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


def _described(kinds: Any, parameter: Parameter, value: Any) -> Any:
    """Return the parameter in nevergrad's terms."""
    if not parameter.ordered:
        return kinds.Choice(list(parameter.choices))
    bounds = {"init": float(value), "lower": parameter.low, "upper": parameter.high}
    described = kinds.Log(**bounds) if parameter.scale == "log" else kinds.Scalar(**bounds)
    return described.set_integer_casting() if parameter.kind == "integer" else described
