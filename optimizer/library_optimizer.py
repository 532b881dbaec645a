"""Other people's optimizers behind this library's door: what their adapters share.

Such an optimizer keeps a state.  Here it is built by what the instance was asked and told, in an order of its own (asks
as they come, the observations between two asks sorted), so that a replay brings it back and the order of telling does
not matter.
"""

from __future__ import annotations

import importlib
import math
import random
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from optimizer.base import Optimizer
from optimizer.errors import LibraryMissing
from optimizer.models.surrogate import one_thread, worst_for_failed
from optimizer.sampling import unseen
from optimizer.space import Configuration, Parameter, Value
from optimizer.trial import Observation, ObservationState

_DRAWS = 50  # candidates that were seen before or break a constraint, until a uniform draw replaces them


def library(name: str, package: str = "") -> ModuleType:
    """The module ``name``, imported now.  ``package``: what brings it, if called otherwise.  Raises LibraryMissing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = package or name.partition(".")[0]
        raise LibraryMissing(f"{package} is not installed ({error}); pip install {package}") from error


class LibraryOptimizer(Optimizer):
    """An adapter fills in three methods; this class keeps the library from repeating itself and from being confused."""

    uses_failures = True
    widest_grid: ClassVar[float] = math.inf  # values of an integer that the library sees as an integer

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._told: list[Observation] = []  # since the last ask
        self._tokens: dict[int, Any] = {}  # ask -> what the library calls its candidate
        seed = int(self.stream(1).integers(2**31))
        with _alone(seed):
            self._open(seed)

    @abstractmethod
    def _open(self, seed: int) -> None:
        """Make the library's optimizer.  Raises LibraryMissing."""

    @abstractmethod
    def _candidate(self) -> tuple[Any, Configuration] | None:
        """The library's next candidate: what it calls it, and the configuration it stands for; None: it has none."""

    @abstractmethod
    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        """Tell the library of a candidate, or where ``token`` is None of a configuration that it did not suggest.

        ``value``: the observation's, or the worst one told where it has none.
        """

    def in_cells(self, parameter: Parameter) -> bool:
        """Return whether the library sees the unit interval, in cells.

        It knows no uneven steps, special values or constants, and may be slow with integers of many values.
        """
        if not parameter.ordered:
            return False
        known = parameter.step is None and not parameter.special and parameter.cardinality != 1
        return not known or (parameter.kind == "integer" and parameter.cardinality > self.widest_grid)

    def to_value(self, parameter: Parameter, drawn: Any) -> Value:
        """Return the parameter's value of what the library drew."""
        if self.in_cells(parameter):
            return parameter.from_unit(float(drawn))
        return parameter.validate(bool(drawn) if parameter.kind == "boolean" else drawn)

    def to_drawn(self, parameter: Parameter, value: Value) -> Any:
        """What the library would have drawn for a value."""
        return parameter.to_unit(value) if self.in_cells(parameter) else value

    def _observed(self, observation: Observation) -> None:
        self._told.append(observation)

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        with _alone(int(rng.integers(2**31))):
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
                if known:  # what was measured is not measured again, and what cannot run is as bad as the worst
                    worst = max(value for _, value in known.values())
                    failed = Observation(configuration, ObservationState.FAILED, reason="breaks a constraint")
                    self._inform(token, *known.get(configuration, (failed, worst)))
        return unseen(self.space, rng, seen), f"uniform: {self.name} suggests nothing new"

    def _catch_up(self) -> None:
        """Tell the library what was told since the last ask."""
        values = {id(observation): value for observation, value in worst_for_failed(self.observations)}
        if not values:  # a failed trial waits until there is a worst value to take
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
def _alone(seed: int) -> Iterator[None]:
    """Without a library's advice about budgets and settings (what is run here is run on purpose), on one thread.

    A library that draws from the global generators finds them seeded, and they are as before afterwards.
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
