"""Base class for adapters of other libraries' optimizers.

Such an optimizer keeps a state.  The adapter builds it from its asks and tells in a fixed order (asks as they come,
the observations between two asks sorted), so that a replay restores it and the order of tells does not matter.
"""

from __future__ import annotations

import importlib
import math
import random
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from optimizer.base import Optimizer
from optimizer.errors import LibraryMissing
from optimizer.models.surrogate import one_thread, worst_for_failed
from optimizer.sampling import unseen
from optimizer.space import Configuration, Parameter, Value
from optimizer.space.cube import from_cube, to_cube
from optimizer.trial import Observation, ObservationState

_DRAWS = 50  # repeated or infeasible candidates after which a uniform draw is suggested


def library(name: str, package: str = "") -> ModuleType:
    """Import the module ``name``.  ``package``: its package, if the name differs.  Raises LibraryMissing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = package or name.partition(".")[0]
        raise LibraryMissing(f"{package} is not installed ({error}); pip install {package}") from error


class LibraryOptimizer(Optimizer):
    """An adapter implements three methods; this class filters repeated and infeasible candidates of the library."""

    uses_failures = True
    widest_grid: ClassVar[float] = math.inf  # an integer with more values than this is a real number to the library

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._told: list[Observation] = []  # since the last ask
        self._tokens: dict[int, Any] = {}  # ask -> the library's handle of its candidate
        seed = int(self.stream(1).integers(2**31))
        with _isolated(seed):
            self._open(seed)

    @abstractmethod
    def _open(self, seed: int) -> None:
        """Create the library's optimizer.  Raises LibraryMissing."""

    @abstractmethod
    def _candidate(self) -> tuple[Any, Configuration] | None:
        """Return the library's next candidate: its handle and its configuration; None where it has none."""

    @abstractmethod
    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        """Tell the library a result of its candidate ``token``; None: of a configuration that it did not suggest.

        ``value``: that of the observation, or the worst one told where it has none.
        """

    def in_cells(self, parameter: Parameter) -> bool:
        """Return whether the library sees the parameter as the unit interval, divided into cells.

        Libraries have no equations, uneven steps, special values or constants, and may be slow with integers of many
        values.
        """
        if parameter.name in self.space.dependents.in_equations:
            return True
        if not parameter.ordered:
            return False
        known = parameter.step is None and not parameter.special and parameter.cardinality != 1
        return not known or (parameter.kind == "integer" and parameter.cardinality > self.widest_grid)

    def configuration_of(self, drawn: Mapping[str, Any]) -> Configuration:
        """Return the configuration for the library's values of all parameters that are searched."""
        values = {name: self.to_value(parameter, drawn[name]) for name, parameter in self.space.items()}
        equations = self.space.dependents.in_equations
        if not equations:
            return self.space.canonical(Configuration(values))
        cube = [float(drawn[name]) if name in equations else 0.5 for name in self.space.names]
        kept = from_cube(self.space, cube)
        return self.space.canonical({**values, **{name: kept[name] for name in self.space.names if name in equations}})

    def drawn_of(self, configuration: Configuration) -> dict[str, Any]:
        """Return the values of all parameters that are searched in the library's terms."""
        drawn = {name: self.to_drawn(parameter, configuration[name]) for name, parameter in self.space.items()}
        equations = self.space.dependents.in_equations
        if equations:
            cube = zip(self.space.names, to_cube(self.space, configuration).tolist(), strict=True)
            drawn |= {name: number for name, number in cube if name in equations}
        return drawn

    def to_value(self, parameter: Parameter, drawn: Any) -> Value:
        """Return the parameter's value for a value in the library's terms."""
        if self.in_cells(parameter):
            return parameter.from_unit(float(drawn))
        return parameter.validate(bool(drawn) if parameter.kind == "boolean" else drawn)

    def to_drawn(self, parameter: Parameter, value: Value) -> Any:
        """Return the value in the library's terms for a parameter's value."""
        return parameter.to_unit(value) if self.in_cells(parameter) else value

    def _observed(self, observation: Observation) -> None:
        self._told.append(observation)

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        with _isolated(int(rng.integers(2**31))):
            self._catch_up()
            known = {
                observation.configuration: (observation, value)
                for observation, value in worst_for_failed(self.observations)
            }
            for _ in range(_DRAWS):
                candidate = self._candidate()
                if candidate is None:
                    break
                token, configuration = candidate
                if configuration not in seen and self.space.is_feasible(configuration):
                    self._tokens[index] = token
                    return configuration, self.summary
                if known:  # a repetition gets its known value, an infeasible candidate the worst one
                    worst = max(value for _, value in known.values())
                    failed = Observation(configuration, ObservationState.FAILED, reason="breaks a constraint")
                    self._inform(token, *known.get(configuration, (failed, worst)))
        return unseen(self.space, rng, seen), f"uniform: {self.name} suggests nothing new"

    def _catch_up(self) -> None:
        """Tell the library the observations since the last ask."""
        values = {id(observation): value for observation, value in worst_for_failed(self.observations)}
        if not values:  # a failed trial waits until there is a worst value for it
            return
        new = {id(observation) for observation in self._told}
        self._told = []
        for observation in self.observations:
            value = values.get(id(observation))
            if id(observation) not in new or value is None:  # None: aborted
                continue
            token = self._tokens.pop(observation.ask, None) if observation.ask is not None else None
            self._inform(token, observation, value)


@contextmanager
def _isolated(seed: int) -> Iterator[None]:
    """Run a library on one thread, without its warnings about budgets and settings, which are intended here.

    The global random generators are seeded for it, and restored afterwards.
    """
    kept = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
