"""Changes of a configuration as a person counts them: tied parameters with one value are one change.

``gomaxprocs 4`` in twelve services is one line to read and one decision to take.  Values that differ a little, as a
search leaves them, are rounded to the middle one of them, so that one line describes all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import InvalidValue
from optimizer.models.surrogate import Encoder
from optimizer.models.tied_parameters import tied_parameters
from optimizer.space import Configuration, Parameter, SearchSpace, Value

CLOSE = 0.1  # of a parameter's range (in its scale): values that differ by no more are rounded to one


RISK = "risk"
"""Attribute of a parameter: what it can cost, an index of ``RISKS``."""
RISKS = ("none", "data", "memory")
FAR = 4.0  # times the default: more of a parameter with the risk "memory" is a risk


@dataclass(frozen=True)
class Change:
    """Parameters that get one value.  ``names``: the parameters, in the order of the space; ``value``: of each."""

    names: tuple[str, ...]
    value: Value

    @property
    def values(self) -> dict[str, Value]:
        """The values by parameter, as ``Configuration.replace`` takes them."""
        return dict.fromkeys(self.names, self.value)


def changes(space: SearchSpace, configuration: Mapping[str, Value], *, close: float = CLOSE) -> tuple[Change, ...]:
    """Return what ``configuration`` changes of the default, each parameter once, in the order of the space.

    Tied parameters are one change where they have one default, moved in one direction, and differ by at most ``close``
    of the range; the change has the middle one of their values.
    """
    default = space.default()
    place = {name: number for number, name in enumerate(space.names)}
    result = []
    for tied in tied_parameters(space, Encoder(space).columns):
        moved: dict[object, list[Parameter]] = {}
        for parameter in (space.parameters[number] for number in tied.members):
            name = parameter.name
            if configuration[name] != default[name]:
                moved.setdefault(_kind_of_move(parameter, configuration[name]), []).append(parameter)
        for members in moved.values():
            result += _of_one_value(members, configuration, close)
    return tuple(sorted(result, key=lambda change: place[change.names[0]]))


def applied(space: SearchSpace, chosen: Iterable[Change]) -> Configuration:
    """Return the default with the changes, in canonical form."""
    values = {name: value for change in chosen for name, value in change.values.items()}
    return space.canonical(space.default().replace(values))


def _kind_of_move(parameter: Parameter, value: Value) -> object:
    """Return the key of the moves that can be one change: the direction of an ordered parameter, else the value."""
    default = parameter.default
    if parameter.ordered and value not in parameter.special and not isinstance(value, str):
        return default, parameter.to_unit(value) > parameter.to_unit(default)
    return default, type(value), value


def _of_one_value(members: Sequence[Parameter], values: Mapping[str, Value], close: float) -> list[Change]:
    """Divide parameters into changes: from the lowest value on, each takes those that are close to its first."""
    left = sorted(members, key=lambda parameter: values[parameter.name]) if members[0].ordered else list(members)
    result = []
    while left:
        first = values[left[0].name]
        near = [p for p in left if _distance(p, first, values[p.name]) <= close]
        middle = values[near[len(near) // 2].name]
        taken = [p for p in near if _distance(p, middle, values[p.name]) <= close] or left[:1]
        value = middle if len(taken) > 1 else values[taken[0].name]
        names = {p.name for p in taken}
        result.append(Change(tuple(p.name for p in members if p.name in names), value))
        left = [p for p in left if p.name not in names]
    return result


def _distance(parameter: Parameter, other: Value, own: Value) -> float:
    """Return the distance of two values in ranges of the parameter; infinite where ``other`` is none of its values."""
    try:
        return abs(parameter.to_unit(parameter.validate(other)) - parameter.to_unit(own))
    except InvalidValue:
        return float("inf")


def risk(space: SearchSpace, change: Change) -> str:
    """Return the risk of a change, one of ``RISKS``: "memory" only where a value is far above its default."""
    for name in change.names:
        parameter = space[name]
        kind = RISKS[int(parameter.attributes.get(RISK, 0.0))]
        if kind == "data" or (kind == "memory" and _far_above(parameter, change.value)):
            return kind
    return "none"


def moderate(space: SearchSpace, change: Change) -> Change | None:
    """Return a change with the risk "memory" at a value that is not far above the default; None where there is none."""
    parameter = space[change.names[0]]
    default = parameter.default
    if risk(space, change) != "memory" or isinstance(default, str) or not parameter.ordered:
        return None
    try:
        value = parameter.from_unit(
            parameter.to_unit(int(FAR * default) if parameter.kind == "integer" else FAR * default)
        )
        less = Change(change.names, value)
        for name in change.names:
            space[name].validate(value)
    except InvalidValue:
        return None
    return less if value != default and risk(space, less) == "none" else None


def _far_above(parameter: Parameter, value: Value) -> bool:
    """Return whether a value is far above the default; one with a special meaning (0: no limit) may be."""
    default = parameter.default
    if not parameter.ordered or isinstance(value, str) or isinstance(default, str):
        return True
    return value in parameter.special or default in parameter.special or value > FAR * default
