"""Search spaces: the parameters tuned together, with the constraints between them and the conditions on them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.capacity import Capacity
from optimizer.space.condition import Condition
from optimizer.space.configuration import Configuration, Value, digest_of
from optimizer.space.constraint import Constraint, LinearConstraint
from optimizer.space.dependent import Dependents
from optimizer.space.derived import Derived
from optimizer.space.equality import LinearEquality
from optimizer.space.parameter import Parameter
from optimizer.space.stored import constraint_of, derived_of, only, parameter_of

_NEAR = 1e-9  # two coordinates this close belong to one value: no cell is as narrow


class SearchSpace(Mapping[str, Parameter]):
    """An ordered, immutable set of parameters (a mapping from their names) with constraints.

    The mapping, ``names``, ``parameters`` and the unit cube have the parameters that are searched, in the same order.
    ``dependents``: those that are not, since their values follow (derived ones, and one of each equation).  ``tuned``:
    all but the derived ones.  A configuration has a value for every parameter.  A parameter that is inactive by its
    condition is at its default, so that configurations of equal effect are equal.

    Raises InvalidSpace on a name given twice, on a constraint, a condition or a derived parameter over unknown ones or
    ones of the wrong kind, on conditions in a circle, and where the default breaks a constraint.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        constraints: Iterable[Constraint] = (),
        derived: Iterable[Derived] = (),
    ) -> None:
        self._tuned: dict[str, Parameter] = {}
        self.constraints: Final = tuple(constraints)
        entries = tuple(derived)
        for parameter in (*parameters, *(entry.parameter for entry in entries)):
            if parameter.name in self._tuned:
                raise InvalidSpace(f"parameter {parameter.name!r} is defined twice")
            self._tuned[parameter.name] = parameter
        ranges = dict(self._tuned)
        for entry in entries:
            del self._tuned[entry.name]
        if not self._tuned:
            raise InvalidSpace("a search space needs at least one parameter")
        for constraint in self.constraints:
            self._check(constraint, ranges)
        equalities = [constraint for constraint in self.constraints if isinstance(constraint, LinearEquality)]
        conditions = frozenset(p.condition.on for p in self._tuned.values() if p.condition is not None)
        self.dependents: Final = Dependents(self._tuned, equalities, entries, conditions)
        self.tuned: Final = tuple(self._tuned.values())  # those that equations are solved for included
        self._parameters = {name: p for name, p in self._tuned.items() if name not in self.dependents.names}
        self.parameters: Final = tuple(self._parameters.values())
        self._places = {name: j for j, name in enumerate(self._parameters)}
        self._default = self._checked_default()
        self._conditional = self._in_order_of_conditions()
        self._hash = digest_of(json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")))

    def _checked_default(self) -> Configuration:
        values = {name: parameter.default for name, parameter in self._tuned.items()}
        for part in self.dependents.slices:
            if not part.equality.holds(values):
                total = part.equality.sum(values)
                raise InvalidSpace(
                    f"the default configuration breaks the equation {part.equality}: it adds up to {total:g}"
                )
        self.dependents.fill(values)
        for entry in self.dependents.derived:
            value = entry.value(values)
            if not entry.allows(value):
                raise InvalidSpace(
                    f"derived parameter {entry}: the default configuration gives it {value!r}; "
                    f"allowed: {entry.parameter.allowed}"
                )
        default = Configuration(values)
        for constraint in self.constraints:
            if not constraint.holds(default):
                raise InvalidSpace(f"the default configuration breaks the constraint {constraint}")
        return default

    def _check(self, constraint: Constraint, known: Mapping[str, Parameter]) -> None:
        for name in sorted(constraint.names):
            if name not in known:
                raise InvalidSpace(f"constraint {constraint}: there is no parameter {name!r}")
            if isinstance(constraint, LinearEquality) and name not in self._tuned:
                raise InvalidSpace(f"equation {constraint}: {name!r} is derived; name what it is derived from")
            if isinstance(constraint, LinearConstraint) and known[name].kind == "categorical":
                raise InvalidSpace(f"constraint {constraint}: {name!r} is categorical")
            if isinstance(constraint, Capacity) and constraint.place not in known[name].choices:
                raise InvalidSpace(f"capacity {constraint}: {name!r} cannot be there")

    def _in_order_of_conditions(self) -> tuple[tuple[Parameter, Condition], ...]:
        """Return the parameters that have conditions, each after the parameter that its condition is on."""
        waiting = {
            parameter.name: parameter.condition for parameter in self.parameters if parameter.condition is not None
        }
        for name, condition in waiting.items():
            on = self._parameters.get(condition.on)
            if on is None:
                why = "derived" if condition.on in self.dependents.names else "no parameter"
                raise InvalidSpace(f"{name}: its condition is on {condition.on!r}, which is {why}")
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
        return f"SearchSpace({len(self)} parameters, {len(self.constraints)} constraints, {self._hash})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parameters)

    def inactive(self, configuration: Mapping[str, Value]) -> frozenset[str]:
        """Return the names of the parameters without effect in a configuration, by their conditions."""
        off: set[str] = set()
        for parameter, condition in self._conditional:
            if condition.on in off or not condition.holds(configuration[condition.on]):
                off.add(parameter.name)
        return frozenset(off)

    def canonical(self, configuration: Mapping[str, Value]) -> Configuration:
        """Return the nearest configuration that the space has: the searched values, with what follows from them.

        Inactive parameters get their defaults, and dependent ones their values, whatever they have.  Searched values
        that leave an equation no solution are moved, all in proportion to their room (see ``Slice.repaired``).
        """
        if not self.dependents.names:
            if not self._conditional:
                return configuration if isinstance(configuration, Configuration) else Configuration(configuration)
            off = self.inactive(configuration)
            return Configuration({**configuration, **{name: self._parameters[name].default for name in off}})
        values = {name: configuration[name] for name in self._parameters}
        self.dependents.repair(values)
        return self._completed(values)

    def _completed(self, values: dict[str, Value]) -> Configuration:
        """Return searched values as a configuration; inactive parameters get their defaults."""
        self.dependents.fill(values)  # conditions may be on what an equation is solved for
        off = self.inactive(values)
        if off:
            values.update((name, self._parameters[name].default) for name in off)
            self.dependents.fill(values)
        return Configuration(values)

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

        Dependent values may be left out.  Constraints are left to ``is_feasible``: a known result that breaks one is
        still a result; but not equations, and derived values that are not those of this space.  Raises InvalidValue on
        such, on a value that is not allowed, a missing parameter and an unknown one.
        """
        for name in configuration:
            if name not in self._parameters and name not in self.dependents.names:
                raise InvalidValue(name, configuration[name], f"no such parameter; known: {', '.join(self.names)}")
        checked: dict[str, Value] = {}
        for name, parameter in self._parameters.items():
            if name not in configuration:
                raise InvalidValue(name, None, parameter.allowed)
            checked[name] = parameter.validate(configuration[name])
        if not self.dependents.names:
            return self.canonical(Configuration(checked))
        completed = self._completed(checked)
        self.dependents.check(completed, configuration)
        return completed

    def from_default(self, changes: Mapping[str, Any]) -> Configuration:
        """Return the default with some values changed, and with what follows from these.  Raises InvalidValue."""
        return self.validate({**{name: self._default[name] for name in self._parameters}, **changes})

    def is_feasible(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether every constraint holds, and every dependent value lies in its range."""
        return all(constraint.holds(configuration) for constraint in self.constraints) and self.dependents.hold(
            configuration
        )

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
        snapped = np.stack([parameter.snap(units[:, j]) for j, parameter in enumerate(self.parameters)], axis=1)
        snapped = self.dependents.repaired(snapped, self._places, self.parameters)
        if not self._conditional:
            return snapped
        place = self._places
        off = np.zeros(snapped.shape, dtype=np.bool_)
        for parameter, condition in self._conditional:
            j, on = place[parameter.name], place[condition.on]
            off[:, j] = off[:, on] | ~_meets(self._parameters[condition.on], condition, snapped[:, on])
            snapped[off[:, j], j] = parameter.to_unit(parameter.default)
        return snapped

    def subset(self, names: Iterable[str]) -> SearchSpace:
        """Return the space of some of ``tuned``, in this space's order, with the others fixed at their defaults.

        Constraints, conditions and derived parameters are kept, with the default values of fixed parameters put in.
        Parameters that can no longer be active, or vary, are left out too.  Raises InvalidSpace on an unknown name.
        """
        wanted = set(names)
        unknown = sorted(wanted - set(self._tuned))
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
        for part in self.dependents.slices:  # what an equation leaves alone has its default
            if len(part.equality.names & wanted) == 1:
                wanted -= part.equality.names
        fixed = {name: self._default[name] for name in self._tuned if name not in wanted}
        free = wanted | {entry.name for entry in self.dependents.derived}
        constraints = [constraint.without(fixed) for constraint in self.constraints if constraint.names & free]
        constraints = [constraint for constraint in constraints if constraint.names]
        kept = [
            replace(parameter, condition=resolved.get(parameter.name))
            for parameter in self.tuned
            if parameter.name in wanted
        ]
        return SearchSpace(kept, constraints, [entry.without(fixed) for entry in self.dependents.derived])

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain JSON data; ``from_dict`` reads it back."""
        content: dict[str, Any] = {
            "parameters": [parameter.to_dict() for parameter in self.tuned],
            "constraints": [constraint.to_dict() for constraint in self.constraints],
        }
        if self.dependents.derived:  # spaces without any keep their hashes
            content["derived"] = [entry.to_dict() for entry in self.dependents.derived]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SearchSpace:
        """Return the space that ``to_dict`` wrote.  Raises InvalidSpace on keys that it does not write."""
        only(content, {"parameters", "constraints", "derived"}, "a search space")
        return cls(
            [parameter_of(item) for item in content["parameters"]],
            [constraint_of(item) for item in content.get("constraints", ())],
            [derived_of(item) for item in content.get("derived", ())],
        )


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
