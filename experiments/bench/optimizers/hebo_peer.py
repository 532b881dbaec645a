"""HEBO: a Gaussian process of transformed values, and three acquisition functions at once.

Source: Cowen-Rivers et al., HEBO: pushing the limits of sample-efficient hyperparameter optimisation, JAIR 74 (2022);
the library HEBO, version 0.3.6, whose requirements exclude numpy from 1.25 on: README.md says how it was installed.
This module has another name than the library, which the runner, whose folder comes first, would not find otherwise.
"""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any, ClassVar

import numpy as np

from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.space import Configuration, Parameter, Value
from optimizer.trial import Observation


class HEBO(LibraryOptimizer):
    """Adapter: numbers and their scales as they are, choices by position, constants left out.

    HEBO knows neither failures nor standard errors: a failed trial has the worst value told.  Its start-up design may
    be half of the budget, more than the other peers': on five points most of its models are lost (README.md).
    """

    name = "hebo"
    summary = "HEBO: power transforms, a Gaussian process, the Pareto set of three acquisition functions"
    source = "Cowen-Rivers et al. 2022 (JAIR 74); the library HEBO"
    suits = "to compare with what HEBO's users run"
    budgeting = "one start-up point more than there are parameters, at most half of the budget"
    draws: ClassVar[int] = 10

    def _open(self, seed: int) -> None:
        optimizers = library("hebo.optimizers.hebo", "HEBO")
        spaces = library("hebo.design_space.design_space", "HEBO")
        self._frame: Any = library("pandas").DataFrame
        self._searched = [parameter for parameter in self.space.parameters if parameter.cardinality > 1]
        described = [_described(parameter, self.in_cells(parameter)) for parameter in self._searched]
        usual = 1 + len(self._searched)
        design = usual if self.budget is None else max(2, min(usual, self.budget // 2))
        self._library: Any = optimizers.HEBO(
            spaces.DesignSpace().parse(described), rand_sample=design, scramble_seed=seed
        )

        self._evolution: Any = library("hebo.acq_optimizers.evolution_optimizer", "HEBO")
        self._minimize: Any = library("pymoo.optimize").minimize

    def _candidate(self) -> tuple[Any, Configuration] | None:
        if not self._searched:
            return None
        # pymoo would draw its seed from the operating system.
        self._evolution.minimize = partial(self._minimize, seed=int(np.random.randint(2**31)))
        with contextlib.redirect_stdout(io.StringIO()):  # it prints its jitter
            row = self._library.suggest()
        values = dict(self.space.default())
        for parameter in self._searched:
            values[parameter.name] = self._value(parameter, row[parameter.name].iloc[0])
        return row, self.space.validate(values)

    def _value(self, parameter: Parameter, drawn: Any) -> Value:
        if parameter.kind == "categorical":
            return parameter.choices[int(drawn)]
        if parameter.kind == "boolean":
            return bool(drawn)
        cells = self.in_cells(parameter)
        low, high = (0.0, 1.0) if cells else (parameter.low, parameter.high)
        inside = float(min(high, max(low, drawn)))  # the last digit of a logarithm
        return self.to_value(parameter, round(inside) if parameter.kind == "integer" and not cells else inside)

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if not self._searched:
            return
        row = token if token is not None else self._row(observation.configuration)
        self._library.observe(row, np.array([[value]]))

    def _row(self, configuration: Configuration) -> Any:
        drawn: dict[str, list[Any]] = {}
        for parameter in self._searched:
            value = configuration[parameter.name]
            if parameter.kind == "categorical":
                value = str(_position(parameter, value))
            drawn[parameter.name] = [self.to_drawn(parameter, value) if parameter.ordered else value]
        return self._frame(drawn)


def _position(parameter: Parameter, value: Value) -> int:
    return next(i for i, choice in enumerate(parameter.choices) if type(choice) is type(value) and choice == value)


def _described(parameter: Parameter, cells: bool) -> dict[str, Any]:
    """Return the parameter in HEBO's terms."""
    if parameter.kind == "boolean":
        return {"name": parameter.name, "type": "bool"}
    if parameter.kind == "categorical":
        return {
            "name": parameter.name,
            "type": "cat",
            "categories": [str(index) for index in range(len(parameter.choices))],
        }
    if cells:
        return {"name": parameter.name, "type": "num", "lb": 0.0, "ub": 1.0}
    kind = {("real", "linear"): "num", ("real", "log"): "pow", ("integer", "linear"): "int"}.get(
        (parameter.kind, parameter.scale), "pow_int"
    )
    return {"name": parameter.name, "type": kind, "lb": parameter.low, "ub": parameter.high, "base": 10}
