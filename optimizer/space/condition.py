"""Conditions: when a parameter has an effect at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value, plain


@dataclass(frozen=True)
class Condition:
    """A parameter is active where the parameter ``on`` has one of ``values``, or lies from ``low`` to ``high``.

    Where ``on`` is inactive, so are the parameters that depend on it.  Raises InvalidSpace.
    """

    on: str
    values: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(plain(self.on, value) for value in self.values))
        if not self.values and self.low is None and self.high is None:
            raise InvalidSpace(f"a condition on {self.on!r} needs values, low or high")

    def holds(self, value: Value) -> bool:
        """Return whether a value of ``on`` makes the parameter active."""
        if any(type(allowed) is type(value) and allowed == value for allowed in self.values):
            return True
        if (self.low is None and self.high is None) or isinstance(value, str):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        parts = [f"is {value!r}" for value in self.values]
        if self.low is not None or self.high is not None:
            parts.append(" and ".join(
                text for text, bound in ((f"at least {self.low}", self.low), (f"at most {self.high}", self.high))
                if bound is not None
            ))  # fmt: skip
        return f"where {self.on} " + " or ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the condition as plain JSON data, without the fields that are not set."""
        content: dict[str, Any] = {"on": self.on}
        if self.values:
            content["values"] = list(self.values)
        for key, bound in (("low", self.low), ("high", self.high)):
            if bound is not None:
                content[key] = bound
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Condition:
        """Return the condition that ``to_dict`` wrote."""
        return cls(**{**content, "values": tuple(content.get("values", ()))})
