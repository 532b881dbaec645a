"""Search spaces: the parameters tuned together, with the constraints between them and the conditions on them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.capacity import Capacity
from optimizer.space.condition import Condition
from optimizer.space.configuration import Configuration, Value, digest_of
from optimizer.space.constraint import Constraint, LinearConstraint
from optimizer.space.parameter import Parameter
from optimizer.space.predicate import Predicate

_PARAMETER_KEYS = frozenset(
    {
        "name", "kind", "default", "low", "high", "step", "choices", "scale", "group", "attributes", "special",
        "condition",
    }
)  # fmt: skip
_NEAR = 1e-9  # two coordinates this close belong to one value: no cell is as narrow


class SearchSpace(Mapping[str, Parameter]):
    """An ordered, immutable set of parameters (a mapping from their names) with constraints.

    Coordinates of the unit cube are in the order of ``names``.  A configuration has a value for every parameter.  A
    parameter that is inactive by its condition is at its default, so that configurations of equal effect are equal.
    Raises InvalidSpace on a name given twice, on a constraint or a condition over unknown parameters or ones of the
    wrong kind, on conditions in a circle, and where the default breaks a constraint.
    """

    def __init__(self, parameters: Iterable[Parameter], constraints: Iterable[Constraint] = ()) -> None:
        self._parameters: dict[str, Parameter] = {}
        for parameter in parameters:
            if parameter.name in self._parameters:
                raise InvalidSpace(f"parameter {parameter.name!r} is defined twice")
            self._parameters[parameter.name] = parameter
        if not self._parameters:
            raise InvalidSpace("a search space needs at least one parameter")
        self._in_order = tuple(self._parameters.values())
        self._constraints = tuple(constraints)
        self._default = Configuration({name: parameter.default for name, parameter in self._parameters.items()})
        for constraint in self._constraints:
            self._check(constraint)
        self._conditional = self._in_order_of_conditions()
        self._hash = digest_of(json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")))

    def _check(self, constraint: Constraint) -> None:
        for name in sorted(constraint.names):
            if name not in self._parameters:
                raise InvalidSpace(f"constraint {constraint}: there is no parameter {name!r}")
            if isinstance(constraint, LinearConstraint) and self._parameters[name].kind == "categorical":
                raise InvalidSpace(f"constraint {constraint}: {name!r} is categorical")
            if isinstance(constraint, Capacity) and constraint.place not in self._parameters[name].choices:
                raise InvalidSpace(f"capacity {constraint}: {name!r} cannot be there")
        if not constraint.holds(self._default):
            raise InvalidSpace(f"the default configuration breaks the constraint {constraint}")

    def _in_order_of_conditions(self) -> tuple[tuple[Parameter, Condition], ...]:
        """Return the parameters that have conditions, each after the parameter that its condition is on."""
        waiting = {
            parameter.name: parameter.condition for parameter in self._in_order if parameter.condition is not None
        }
        for name, condition in waiting.items():
            on = self._parameters.get(condition.on)
            if on is None:
                raise InvalidSpace(f"{name}: its condition is on {condition.on!r}, which is no parameter")
            if not on.ordered and (condition.low is not None or condition.high is not None):
                raise InvalidSpace(f"{name}: its condition has low or high, but {on.name} is {on.kind}")
            for value in condition.values:
                try:
                    on.validate(value)
                except InvalidValue as error:
                    raise InvalidSpace(f"{name}: its condition can never hold: {error}") from error
        ordered: list[tuple[Parameter, Condition]] = []
        while waiting:
            ready = [name for name, condition in waiting.items() if condition.on not in waiting]
            if not ready:
                raise InvalidSpace(f"conditions in a circle: {', '.join(waiting)}")
            ordered += [(self._parameters[name], waiting.pop(name)) for name in ready]
        return tuple(ordered)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __eq__(self, other: object) -> bool:
        return self._hash == other._hash if isinstance(other, SearchSpace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hash)

    def __repr__(self) -> str:
        return f"SearchSpace({len(self)} parameters, {len(self._constraints)} constraints, {self._hash})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parameters)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._in_order

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return self._constraints

    def inactive(self, configuration: Mapping[str, Value]) -> frozenset[str]:
        """Return the names of the parameters without effect in a configuration, by their conditions."""
        off: set[str] = set()
        for parameter, condition in self._conditional:
            if condition.on in off or not condition.holds(configuration[condition.on]):
                off.add(parameter.name)
        return frozenset(off)

    def canonical(self, configuration: Configuration) -> Configuration:
        """Return the configuration with its inactive parameters at their defaults."""
        if not self._conditional:
            return configuration
        off = self.inactive(configuration)
        return configuration.replace({name: self._parameters[name].default for name in off}) if off else configuration

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Mapping of groups to the names of their parameters, both in the order of definition."""
        groups: dict[str, tuple[str, ...]] = {}
        for parameter in self.parameters:
            groups[parameter.group] = (*groups.get(parameter.group, ()), parameter.name)
        return groups

    @property
    def content_hash(self) -> str:
        """Digest of 16 hexadecimal digits; equal spaces have equal digests in any process."""
        return self._hash

    @property
    def cardinality(self) -> float:
        """Number of configurations, constraints aside; infinite with a continuous parameter."""
        return math.prod(parameter.cardinality for parameter in self.parameters)

    def default(self) -> Configuration:
        return self._default

    def validate(self, configuration: Mapping[str, Any]) -> Configuration:
        """Return the configuration in canonical form: values in their parameters' kinds, in the order of ``names``.

        Constraints are left to ``is_feasible``: a known result that breaks one is still a result.  Raises
        InvalidValue on a value that is not allowed, a missing parameter and an unknown one.
        """
        for name in configuration:
            if name not in self._parameters:
                raise InvalidValue(name, configuration[name], f"no such parameter; known: {', '.join(self.names)}")
        checked: dict[str, Value] = {}
        for name, parameter in self._parameters.items():
            if name not in configuration:
                raise InvalidValue(name, None, parameter.allowed)
            checked[name] = parameter.validate(configuration[name])
        return self.canonical(Configuration(checked))

    def is_feasible(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether every constraint holds."""
        return all(constraint.holds(configuration) for constraint in self._constraints)

    def to_unit(self, configuration: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the coordinates in the unit cube, shape (d,).  Raises InvalidValue."""
        checked = self.validate(configuration)
        return np.array([parameter.to_unit(checked[name]) for name, parameter in self._parameters.items()])

    def from_unit(self, unit: ArrayLike) -> Configuration:
        """Return the configuration whose cell holds the point ``unit``, shape (d,).  Raises InvalidValue."""
        point = np.asarray(unit, dtype=float)
        if point.shape != (len(self),):
            raise InvalidValue("unit", point.shape, f"an array of shape ({len(self)},)")
        pairs = zip(self._parameters.items(), point.tolist(), strict=True)
        return self.canonical(Configuration({name: parameter.from_unit(number) for (name, parameter), number in pairs}))

    def snap(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move coordinates (n, d) to those of the configurations whose cells hold them, (n, d)."""
        snapped = np.stack([parameter.snap(units[:, j]) for j, parameter in enumerate(self._in_order)], axis=1)
        if not self._conditional:
            return snapped
        place = {name: j for j, name in enumerate(self._parameters)}
        off = np.zeros(snapped.shape, dtype=np.bool_)
        for parameter, condition in self._conditional:
            j, on = place[parameter.name], place[condition.on]
            off[:, j] = off[:, on] | ~_meets(self._parameters[condition.on], condition, snapped[:, on])
            snapped[off[:, j], j] = parameter.to_unit(parameter.default)
        return snapped

    def subset(self, names: Iterable[str]) -> SearchSpace:
        """Return the space of some parameters, in this space's order, with the others fixed at their defaults.

        Constraints and conditions on fixed parameters are kept, with the default values put in.  Parameters that can no
        longer be active are left out too.  Raises InvalidSpace on an unknown name.
        """
        wanted = set(names)
        unknown = sorted(wanted - set(self.names))
        if unknown:
            raise InvalidSpace(f"no such parameters: {', '.join(unknown)}")
        resolved: dict[str, Condition | None] = {}
        gone: set[str] = set()
        for parameter, condition in self._conditional:
            on = condition.on
            if on in gone or (on not in wanted and not condition.holds(self._default[on])):
                gone.add(parameter.name)
            elif on in wanted:
                resolved[parameter.name] = condition
            else:  # that of the fixed parameter itself
                resolved[parameter.name] = resolved.get(on)
        wanted -= gone
        fixed = {name: value for name, value in self._default.items() if name not in wanted}
        constraints = [constraint.without(fixed) for constraint in self._constraints if constraint.names & wanted]
        kept = [
            replace(parameter, condition=resolved.get(parameter.name))
            for parameter in self.parameters
            if parameter.name in wanted
        ]
        return SearchSpace(kept, constraints)

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain JSON data; ``from_dict`` reads it back."""
        return {
            "parameters": [parameter.to_dict() for parameter in self.parameters],
            "constraints": [constraint.to_dict() for constraint in self._constraints],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SearchSpace:
        """Return the space that ``to_dict`` wrote.  Raises InvalidSpace on keys that it does not write."""
        _only(content, {"parameters", "constraints"}, "a search space")
        parameters = []
        for item in content["parameters"]:
            _only(item, _PARAMETER_KEYS, "a parameter")
            lists = {key: tuple(item.get(key, ())) for key in ("choices", "special")}
            condition = Condition.from_dict(item["condition"]) if "condition" in item else None
            parameters.append(Parameter(**{**item, **lists, "condition": condition}))
        constraints: list[Constraint] = []
        for item in content.get("constraints", ()):
            if "text" in item:
                _only(item, {"name", "text", "fixed"}, "a constraint")
                constraints.append(Predicate(**item))
            elif "place" in item:
                _only(item, {"name", "weights", "place", "bound"}, "a constraint")
                constraints.append(Capacity(**item))
            else:
                _only(item, {"name", "coefficients", "bound"}, "a constraint")
                constraints.append(LinearConstraint(**item))
        return cls(parameters, constraints)


def _meets(on: Parameter, condition: Condition, units: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which snapped coordinates (n,) of the parameter ``on`` belong to values that meet the condition."""
    met = np.zeros(len(units), dtype=np.bool_)
    for value in condition.values:
        met |= np.abs(units - on.to_unit(value)) < _NEAR
    if condition.low is None and condition.high is None:
        return met
    # Coordinates rise with values, special ones included, so that comparing coordinates compares values.
    inside = np.ones(len(units), dtype=np.bool_)
    if condition.low is not None:
        inside &= units >= _edge(on, condition.low, up=True) - _NEAR
    if condition.high is not None:
        inside &= units <= _edge(on, condition.high, up=False) + _NEAR
    return met | inside


def _edge(on: Parameter, bound: float, *, up: bool) -> float:
    """Return the coordinate of the smallest value >= ``bound`` (``up``) or the largest <= it; 2 or -1 without one."""
    low, high = on.low, on.high
    if low is not None and high is not None and low <= bound <= high:
        return on.to_unit(bound if on.kind == "real" else (math.ceil(bound) if up else math.floor(bound)))
    known = [float(value) for value in on.special] + [float(number) for number in (low, high) if number is not None]
    fitting = [number for number in known if (number >= bound if up else number <= bound)]
    if not fitting:
        return 2.0 if up else -1.0
    return on.to_unit(min(fitting) if up else max(fitting))


def _only(content: Mapping[str, Any], allowed: Iterable[str], what: str) -> None:
    unknown = sorted(set(content) - set(allowed))
    if unknown:
        raise InvalidSpace(f"{what} has no {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
