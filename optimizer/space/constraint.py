"""Constraints between parameters, known before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value


class Constraint(Protocol):
    """The interface of constraints; ``LinearConstraint``, ``Predicate`` (text) and ``Capacity`` implement it."""

    @property
    def name(self) -> str:
        """A name for messages; may be empty."""

    @property
    def names(self) -> frozenset[str]:
        """The parameters that it is about."""

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether a configuration may be run."""

    def without(self, fixed: Mapping[str, Value]) -> Constraint:
        """Return the constraint on the other parameters where these have such values."""

    def to_dict(self) -> dict[str, Any]:
        """Return the constraint as plain JSON data."""


@dataclass(frozen=True)
class LinearConstraint:
    """sum(coefficient * value) <= bound, over integer, real and boolean (0 or 1) parameters.  Raises InvalidSpace."""

    coefficients: Mapping[str, float] = field(hash=False)
    bound: float
    name: str = ""

    def __post_init__(self) -> None:
        coefficients = {name: float(number) for name, number in self.coefficients.items()}
        if not coefficients:
            raise InvalidSpace(f"constraint {self.name!r} names no parameter")
        if not all(math.isfinite(number) for number in (*coefficients.values(), self.bound)):
            raise InvalidSpace(f"constraint {self.name!r}: coefficients and bound must be finite")
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "bound", float(self.bound))

    @property
    def names(self) -> frozenset[str]:
        """The parameters that it is about."""
        return frozenset(self.coefficients)

    def without(self, fixed: Mapping[str, Value]) -> LinearConstraint:
        """Return the constraint on the other parameters where these have such values."""
        kept = {name: number for name, number in self.coefficients.items() if name not in fixed}
        spent = math.fsum(number * float(fixed[name]) for name, number in self.coefficients.items() if name in fixed)
        return LinearConstraint(kept, self.bound - spent, self.name)

    def excess(self, configuration: Mapping[str, Value]) -> float:
        """Return the sum minus the bound; at most 0 where the constraint holds."""
        total = math.fsum(number * float(configuration[name]) for name, number in self.coefficients.items())
        return total - self.bound

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        # Relative tolerance: a sum of decimals such as 0.1 + 0.2 <= 0.3 is meant to hold.
        return self.excess(configuration) <= 1e-9 * max(1.0, abs(self.bound))

    def __str__(self) -> str:
        total = " + ".join(f"{number:g} * {name}" for name, number in self.coefficients.items())
        return f"{self.name + ': ' if self.name else ''}{total} <= {self.bound:g}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "coefficients": dict(self.coefficients), "bound": self.bound}
