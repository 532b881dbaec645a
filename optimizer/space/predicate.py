"""Constraints as text: comparisons of parameters with arithmetic and logic.

``{web.workers} * 2 <= {db.connections}``, ``{cache.policy} != 'lru' or {cache.memory_mib} >= 128``.  Text is data: it
is stored with the space and read back, and only the grammar of ``optimizer.space.expression`` is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value
from optimizer.space.expression import GRAMMAR, Expression


@dataclass(frozen=True)
class Predicate:
    """The constraint that ``text`` is true.  ``fixed``: values of parameters left out.  Raises InvalidSpace."""

    text: str
    name: str = ""
    fixed: Mapping[str, Value] = field(default_factory=dict, hash=False)
    _parsed: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            parsed = Expression.parse(self.text)
        except ValueError:
            raise InvalidSpace(f"constraint {self.text!r}; allowed: {GRAMMAR}") from None
        if not parsed.names:
            raise InvalidSpace(f"constraint {self.text!r} names no parameter; allowed: names in braces")
        object.__setattr__(self, "fixed", {key: self.fixed[key] for key in parsed.names if key in self.fixed})
        object.__setattr__(self, "_parsed", parsed)

    @property
    def names(self) -> frozenset[str]:
        """The parameters in the text, without the fixed ones."""
        return frozenset(self._parsed.names) - self.fixed.keys()

    def holds(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether the text is true; False where it has no value (division by zero, text against a number)."""
        try:
            return bool(self._parsed.value(configuration, self.fixed))
        except (ArithmeticError, TypeError):
            return False

    def without(self, fixed: Mapping[str, Value]) -> Predicate:
        """Return the constraint on the other parameters, with the values of ``fixed`` put in."""
        return Predicate(self.text, self.name, {**self.fixed, **fixed})

    def __str__(self) -> str:
        return f"{self.name + ': ' if self.name else ''}{self.text}"

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"name": self.name, "text": self.text}
        if self.fixed:
            content["fixed"] = dict(self.fixed)
        return content
