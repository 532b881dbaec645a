"""The capacity of one place: a constraint on assignments, such as services to CPU sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value


@dataclass(frozen=True)
class Capacity:
    """The weights of the parameters that stand at ``place`` add up to at most ``bound``.

    ``weights``: at least 0, of categorical parameters that all have the choice ``place``.  Raises InvalidSpace.
    """

    weights: Mapping[str, float] = field(hash=False)
    place: Value
    bound: float
    name: str = ""

    def __post_init__(self) -> None:
        weights = {name: float(number) for name, number in self.weights.items()}
        if not weights:
            raise InvalidSpace(f"capacity {self.name!r} names no parameter")
        if not all(0 <= number < math.inf for number in weights.values()) or not math.isfinite(self.bound):
            raise InvalidSpace(f"capacity {self.name!r}: weights from 0 and a finite bound are needed")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "bound", float(self.bound))

    @property
    def names(self) -> frozenset[str]:
        """The parameters in the constraint."""
        return frozenset(self.weights)

    def without(self, fixed: Mapping[str, Value]) -> Capacity:
        """Return the constraint on the other parameters, with the values of ``fixed`` put in."""
        kept = {name: number for name, number in self.weights.items() if name not in fixed}
        spent = math.fsum(number for name, number in self.weights.items() if fixed.get(name) == self.place)
        return Capacity(kept, self.place, self.bound - spent, self.name)

    def used(self, configuration: Mapping[str, Value]) -> float:
        """Return the sum of the weights at ``place``."""
        return math.fsum(number for name, number in self.weights.items() if configuration[name] == self.place)

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        # Relative tolerance: a sum of decimals such as 0.1 + 0.2 <= 0.3 is meant to hold.
        return self.used(configuration) <= self.bound + 1e-9 * max(1.0, abs(self.bound))

    def __str__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}at most {self.bound:g} at {self.place!r}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "weights": dict(self.weights), "place": self.place, "bound": self.bound}
