"""Linear equations between parameters: a sum that every configuration keeps, such as a number of cores to divide.

A draw from the unit cube would never meet one.  So one parameter of the equation is not searched: it takes up what the
others leave (``Slice`` in ``optimizer.space.slice``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value
from optimizer.space.expression import linear

_ALMOST = 1e-9  # relative: 0.1 + 0.2 = 0.3 is meant to hold


@dataclass(frozen=True)
class LinearEquality:
    """sum(coefficient * value) = total, over integer and real parameters.  Raises InvalidSpace."""

    coefficients: Mapping[str, float] = field(hash=False)
    total: float
    name: str = ""

    def __post_init__(self) -> None:
        coefficients = {name: float(number) for name, number in self.coefficients.items()}
        if not coefficients:
            raise InvalidSpace(f"equation {self.name!r} names no parameter")
        if not all(math.isfinite(number) for number in (*coefficients.values(), self.total)):
            raise InvalidSpace(f"equation {self.name!r}: coefficients and total must be finite")
        if not all(coefficients.values()):
            raise InvalidSpace(f"equation {self.name!r}: a coefficient is 0; leave the parameter out")
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "total", float(self.total))

    @classmethod
    def parse(cls, text: str, name: str = "") -> LinearEquality | None:
        """Return text such as ``{a.cpus} + 2 * {b.cpus} == 4`` as an equation; None where it is none."""
        terms = linear(text)
        return None if terms is None else cls(*terms, name)

    @property
    def names(self) -> frozenset[str]:
        """The parameters that it is about."""
        return frozenset(self.coefficients)

    def without(self, fixed: Mapping[str, Value]) -> LinearEquality:
        """Return the equation of the other parameters where these have such values.  Raises InvalidSpace."""
        kept = {name: number for name, number in self.coefficients.items() if name not in fixed}
        spent = math.fsum(number * float(fixed[name]) for name, number in self.coefficients.items() if name in fixed)
        return LinearEquality(kept, tidy(self.total - spent), self.name)

    def sum(self, configuration: Mapping[str, Value]) -> float:
        """Return the sum that is to be equal to ``total``."""
        return math.fsum(number * float(configuration[name]) for name, number in self.coefficients.items())

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        sizes = [abs(number * float(configuration[name])) for name, number in self.coefficients.items()]
        return abs(self.sum(configuration) - self.total) <= _ALMOST * max(1.0, *sizes)

    def __str__(self) -> str:
        terms = [_term(number, name) for name, number in self.coefficients.items()]
        text = " ".join(terms).removeprefix("+ ")
        return f"{self.name + ': ' if self.name else ''}{text} = {self.total:g}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "coefficients": dict(self.coefficients), "total": self.total}


def tidy(number: float) -> float:
    """Return the number with 12 significant digits: 4 - 1.1 - 1.3 is 1.6, not 1.5999999999999996."""
    return float(f"{number:.12g}") + 0.0


def _term(coefficient: float, name: str) -> str:
    """Return a coefficient and its parameter as a term of a sum, with its sign: ``+ a``, ``- 2 * b``."""
    size = "" if abs(coefficient) == 1 else f"{abs(coefficient):g} * "
    return f"{'-' if coefficient < 0 else '+'} {size}{name}"
