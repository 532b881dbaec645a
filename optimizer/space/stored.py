"""Parameters and constraints from the plain JSON data that their ``to_dict`` wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optimizer.errors import InvalidSpace
from optimizer.space.capacity import Capacity
from optimizer.space.condition import Condition
from optimizer.space.constraint import Constraint, LinearConstraint
from optimizer.space.derived import Derived
from optimizer.space.equality import LinearEquality
from optimizer.space.parameter import Parameter
from optimizer.space.predicate import Predicate

_PARAMETER_KEYS = frozenset(
    {
        "name", "kind", "default", "low", "high", "step", "choices", "scale", "group", "attributes", "special",
        "condition",
    }
)  # fmt: skip


def parameter_of(item: Mapping[str, Any]) -> Parameter:
    """Return the parameter that ``Parameter.to_dict`` wrote.  Raises InvalidSpace on other keys than it writes."""
    only(item, _PARAMETER_KEYS, "a parameter")
    lists = {key: tuple(item.get(key, ())) for key in ("choices", "special")}
    condition = Condition.from_dict(item["condition"]) if "condition" in item else None
    return Parameter(**{**item, **lists, "condition": condition})


def derived_of(item: Mapping[str, Any]) -> Derived:
    """Return the derived parameter that ``Derived.to_dict`` wrote.  Raises InvalidSpace on other keys."""
    only(item, {"parameter", "text", "fixed"}, "a derived parameter")
    return Derived(parameter_of(item["parameter"]), item["text"], item.get("fixed", {}))


def constraint_of(item: Mapping[str, Any]) -> Constraint:
    """Return the constraint that its ``to_dict`` wrote.  Raises InvalidSpace on other keys than that writes."""
    if "text" in item:
        only(item, {"name", "text", "fixed"}, "a constraint")
        return Predicate(**item)
    if "place" in item:
        only(item, {"name", "weights", "place", "bound"}, "a constraint")
        return Capacity(**item)
    if "total" in item:
        only(item, {"name", "coefficients", "total"}, "an equation")
        return LinearEquality(**item)
    only(item, {"name", "coefficients", "bound"}, "a constraint")
    return LinearConstraint(**item)


def only(content: Mapping[str, Any], allowed: Iterable[str], what: str) -> None:
    """Raise InvalidSpace where ``content`` has a key that is not ``allowed``; ``what`` it is, for the message."""
    unknown = sorted(set(content) - set(allowed))
    if unknown:
        raise InvalidSpace(f"{what} has no {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
