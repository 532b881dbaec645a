"""scikit-optimize's own optimizer as its users run it: a Gaussian process and a hedge of three acquisition functions.

``bo-gp`` has the same model in a loop of Tailor's; this one is for comparison.

Source: Head et al., scikit-optimize; the hedge: Hoffman, Brochu & de Freitas, UAI 2011.
"""

from __future__ import annotations

from typing import Any

from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.sampling import design_size
from optimizer.space import Configuration, Parameter
from optimizer.trial import Observation


class SkoptGP(LibraryOptimizer):
    """Adapter: a parameter with a step, or of one value, is the unit interval divided into cells."""

    name = "skopt-gp"
    summary = "scikit-optimize's Optimizer with its Gaussian process, unchanged"
    source = "scikit-optimize's Optimizer (gp_hedge: Hoffman, Brochu & de Freitas 2011, UAI)"
    suits = "to compare with what scikit-optimize users run; bo-gp otherwise"
    budgeting = "10 random start-up points, at most a third of the budget"

    def _open(self, seed: int) -> None:
        skopt = library("skopt", "scikit-optimize")
        design = 10 if self.budget is None else min(10, design_size(len(self.space), self.budget))
        dimensions = [
            _dimension(library("skopt.space"), parameter, self.in_cells(parameter))
            for parameter in self.space.parameters
        ]
        self._library: Any = skopt.Optimizer(dimensions, "GP", n_initial_points=design, random_state=seed)

    def _candidate(self) -> tuple[Any, Configuration]:
        waiting = len(self.pending)  # it repeats itself until it is told, unless it is asked for several
        point = self._library.ask() if not waiting else self._library.ask(n_points=waiting + 1)[-1]
        return point, self.configuration_of(dict(zip(self.space.names, point, strict=True)))

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if token is None:
            token = list(self.drawn_of(observation.configuration).values())
        self._library.tell(token, value)


def _dimension(space: Any, parameter: Parameter, cells: bool) -> Any:
    if not parameter.ordered:
        return space.Categorical(list(parameter.choices))
    if cells:
        return space.Real(0.0, 1.0)
    prior = "log-uniform" if parameter.scale == "log" else "uniform"
    kind = space.Integer if parameter.kind == "integer" else space.Real
    return kind(parameter.low, parameter.high, prior=prior)
