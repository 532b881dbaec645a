"""Search spaces: the parameters tuned together, with the constraints between them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.configuration import Configuration, Value, digest_of
from optimizer.space.constraint import LinearConstraint
from optimizer.space.parameter import Parameter

_PARAMETER_KEYS = frozenset(
    {"name", "kind", "default", "low", "high", "step", "choices", "scale", "group", "attributes"}
)


class SearchSpace(Mapping[str, Parameter]):
    """An ordered, immutable set of parameters (a mapping from their names) with constraints.

    Coordinates of the unit cube are in the order of ``names``.  Raises InvalidSpace on a name given twice, on a
    constraint over parameters that are not there or not numbers, and where the default breaks a constraint.
    """

    def __init__(self, parameters: Iterable[Parameter], constraints: Iterable[LinearConstraint] = ()) -> None:
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
        self._hash = digest_of(json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")))

    def _check(self, constraint: LinearConstraint) -> None:
        for name in constraint.coefficients:
            if name not in self._parameters:
                raise InvalidSpace(f"constraint {constraint}: there is no parameter {name!r}")
            if self._parameters[name].kind == "categorical":
                raise InvalidSpace(f"constraint {constraint}: {name!r} is categorical")
        if not constraint.holds(self._default):
            raise InvalidSpace(f"the default configuration breaks the constraint {constraint}")

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
    def constraints(self) -> tuple[LinearConstraint, ...]:
        return self._constraints

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Group -> the names of its parameters, both in the order of definition."""
        found: dict[str, tuple[str, ...]] = {}
        for parameter in self.parameters:
            found[parameter.group] = (*found.get(parameter.group, ()), parameter.name)
        return found

    @property
    def content_hash(self) -> str:
        """16 hexadecimal digits; equal spaces have equal hashes in any process."""
        return self._hash

    @property
    def cardinality(self) -> float:
        """How many configurations there are, constraints aside; infinite with a continuous parameter."""
        return math.prod(parameter.cardinality for parameter in self.parameters)

    def default(self) -> Configuration:
        return self._default

    def validate(self, configuration: Mapping[str, Any]) -> Configuration:
        """The configuration with each value in its parameter's kind, in the order of ``names``.

        Constraints are left to ``is_feasible``: a known result that breaks one is still a result.  Raises
        InvalidValue on a value that is not allowed, a parameter that is missing, and one that is not of the space.
        """
        for name in configuration:
            if name not in self._parameters:
                raise InvalidValue(name, configuration[name], f"no such parameter; known: {', '.join(self.names)}")
        checked: dict[str, Value] = {}
        for name, parameter in self._parameters.items():
            if name not in configuration:
                raise InvalidValue(name, None, parameter.allowed)
            checked[name] = parameter.validate(configuration[name])
        return Configuration(checked)

    def is_feasible(self, configuration: Mapping[str, Value]) -> bool:
        """Whether every constraint holds."""
        return all(constraint.holds(configuration) for constraint in self._constraints)

    def to_unit(self, configuration: Mapping[str, Any]) -> NDArray[np.float64]:
        """Coordinates in the unit cube, shape (d,).  Raises InvalidValue."""
        checked = self.validate(configuration)
        return np.array([parameter.to_unit(checked[name]) for name, parameter in self._parameters.items()])

    def from_unit(self, unit: ArrayLike) -> Configuration:
        """The configuration whose cell holds the point ``unit``, shape (d,).  Raises InvalidValue."""
        point = np.asarray(unit, dtype=float)
        if point.shape != (len(self),):
            raise InvalidValue("unit", point.shape, f"an array of shape ({len(self)},)")
        pairs = zip(self._parameters.items(), point.tolist(), strict=True)
        return Configuration({name: parameter.from_unit(number) for (name, parameter), number in pairs})

    def subset(self, names: Iterable[str]) -> SearchSpace:
        """The space of some parameters, in this space's order; the others stay at their defaults.

        Constraints that also involve parameters left out are kept with those at their defaults.  Raises
        InvalidSpace on a name that is not there.
        """
        wanted = set(names)
        unknown = sorted(wanted - set(self.names))
        if unknown:
            raise InvalidSpace(f"no such parameters: {', '.join(unknown)}")
        constraints = []
        for constraint in self._constraints:
            kept = {name: number for name, number in constraint.coefficients.items() if name in wanted}
            if kept:
                fixed = {name: number for name, number in constraint.coefficients.items() if name not in wanted}
                spent = math.fsum(number * float(self._default[name]) for name, number in fixed.items())
                constraints.append(LinearConstraint(kept, constraint.bound - spent, constraint.name))
        return SearchSpace((p for p in self.parameters if p.name in wanted), constraints)

    def to_dict(self) -> dict[str, Any]:
        """As JSON allows; ``from_dict`` reads it back."""
        return {
            "parameters": [parameter.to_dict() for parameter in self.parameters],
            "constraints": [constraint.to_dict() for constraint in self._constraints],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SearchSpace:
        """The space that ``to_dict`` wrote.  Raises InvalidSpace on keys that it does not write."""
        _only(content, {"parameters", "constraints"}, "a search space")
        parameters = []
        for item in content["parameters"]:
            _only(item, _PARAMETER_KEYS, "a parameter")
            parameters.append(Parameter(**{**item, "choices": tuple(item.get("choices", ()))}))
        constraints = []
        for item in content.get("constraints", ()):
            _only(item, {"name", "coefficients", "bound"}, "a constraint")
            constraints.append(LinearConstraint(**item))
        return cls(parameters, constraints)


def _only(content: Mapping[str, Any], allowed: Iterable[str], what: str) -> None:
    unknown = sorted(set(content) - set(allowed))
    if unknown:
        raise InvalidSpace(f"{what} has no {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
