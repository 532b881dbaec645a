"""Derived parameters: values that follow from those of other parameters, so that no optimizer searches them."""

from __future__ import annotations

import graphlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.configuration import Value
from optimizer.space.equality import tidy
from optimizer.space.expression import ARITHMETIC, Expression, floor
from optimizer.space.parameter import Parameter


@dataclass(frozen=True)
class Derived:
    """A parameter whose value is that of ``text``, such as ``0.75 * {db.memory_mib}``.

    An integer is rounded down (``ceil()`` in the text rounds up), a real to 12 significant digits.  A value outside the
    parameter's range is not moved into it: such a configuration is infeasible.  Steps do not apply.  ``fixed``: values
    of parameters left out of the space.  Raises InvalidSpace.
    """

    parameter: Parameter
    text: str
    fixed: Mapping[str, Value] = field(default_factory=dict, hash=False)
    _parsed: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parameter.ordered:
            raise InvalidSpace(
                f"{self.name}: a {self.parameter.kind} parameter cannot be derived; an integer or a real can"
            )
        if self.parameter.condition is not None:
            raise InvalidSpace(f"{self.name}: a derived parameter has no condition; it always has its value")
        try:
            parsed = Expression.parse(self.text, arithmetic=True)
        except ValueError:
            raise InvalidSpace(f"{self.name}: derived from {self.text!r}; allowed: {ARITHMETIC}") from None
        if not parsed.names:
            raise InvalidSpace(f"{self.name}: derived from {self.text!r}, which names no parameter; fix it instead")
        object.__setattr__(self, "fixed", {key: self.fixed[key] for key in parsed.names if key in self.fixed})
        object.__setattr__(self, "_parsed", parsed)

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def names(self) -> frozenset[str]:
        """The parameters in the text, without the fixed ones."""
        return frozenset(self._parsed.names) - self.fixed.keys()

    def value(self, configuration: Mapping[str, Value]) -> Value | None:
        """Return the value where the others have these values; None where there is none (a division by zero)."""
        try:
            number = float(self._parsed.value(configuration, self.fixed))
            if not math.isfinite(number):
                return None
            return floor(number) if self.parameter.kind == "integer" else tidy(number)
        except (ArithmeticError, TypeError):
            return None

    def allows(self, value: Value | None) -> bool:
        """Return whether a computed value lies in the parameter's range, or is one of its special values."""
        if value is None:
            return False
        try:
            self.parameter.validate(value)
        except InvalidValue:
            return False
        return True

    def without(self, fixed: Mapping[str, Value]) -> Derived:
        """Return the derived parameter with the values of ``fixed`` put into its text."""
        return Derived(self.parameter, self.text, {**self.fixed, **fixed})

    def __str__(self) -> str:
        return f"{self.name} = {self.text}"

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"parameter": self.parameter.to_dict(), "text": self.text}
        if self.fixed:
            content["fixed"] = dict(self.fixed)
        return content


def circle_of(sources: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names that follow from each other in a circle, the first one again at the end; empty where none do.

    ``sources``: derived parameter -> what it is derived from.
    """
    try:
        graphlib.TopologicalSorter(sources).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]][::-1]
    return []
