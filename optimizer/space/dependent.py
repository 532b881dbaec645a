"""Parameters that are not searched, because their values follow: from an equation, or from a text."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.configuration import Value
from optimizer.space.derived import Derived, circle_of
from optimizer.space.equality import LinearEquality, tidy
from optimizer.space.parameter import Parameter
from optimizer.space.slice import Slice

Array = NDArray[np.float64]
_ALMOST = 1e-9  # relative: a derived value that was stored and read back


class Dependents:
    """The equations and the derived parameters of a space.

    ``parameters``: all others, the solved ones included.  ``kept``: parameters that no equation is solved for.  Raises
    InvalidSpace on equations that share a parameter, and on derived parameters in a circle or over unknown or
    categorical ones.
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        equalities: Iterable[LinearEquality],
        derived: Sequence[Derived],
        kept: frozenset[str],
    ) -> None:
        slices: list[Slice] = []
        for equality in equalities:
            for other in slices:
                for name in sorted(equality.names & other.equality.names):
                    raise InvalidSpace(f"equation {equality}: {name!r} is also in {other.equality}; allowed: one each")
            slices.append(Slice(equality, parameters, kept))
        self.slices = tuple(slices)
        self.solved = {part.solved.name: part for part in slices}
        self.derived = _in_order(parameters, derived)
        self.names = frozenset(self.solved) | {entry.name for entry in derived}

    @property
    def in_equations(self) -> frozenset[str]:
        """The parameters of all equations, those that these are solved for included."""
        return frozenset(name for part in self.slices for name in part.equality.names)

    @property
    def texts(self) -> dict[str, str]:
        """Mapping of each dependent parameter to what its value follows from."""
        solved = {name: str(part.equality) for name, part in self.solved.items()}
        return {**solved, **{derived.name: derived.text for derived in self.derived}}

    def repair(self, values: dict[str, Value]) -> None:
        """Move searched values so that every equation has a solution within its parameter's range."""
        for part in self.slices:
            row = np.array([[float(values[name]) for name in part.free]])
            moved = part.repaired(row)
            if moved is not row:
                for name, number in zip(part.free, moved[0].tolist(), strict=True):
                    values[name] = round(number) if isinstance(values[name], int) else tidy(number)

    def fill(self, values: dict[str, Value]) -> None:
        """Set the dependent values, whether they lie in their ranges or not; the default where there is none."""
        for name, part in self.solved.items():
            values[name] = part.solve(values)
        for derived in self.derived:
            value = derived.value(values)
            values[derived.name] = derived.parameter.default if value is None else value

    def check(self, values: Mapping[str, Value], given: Mapping[str, object]) -> None:
        """Check what ``fill`` set: that equations have a solution, and that values ``given`` agree.

        Raises InvalidValue.
        """
        for name, part in self.solved.items():
            try:
                part.solved.validate(values[name])
            except InvalidValue as error:
                allowed = f"{error.allowed}; it follows from {part.equality}"
                raise InvalidValue(name, values[name], allowed) from None
        for name, text in self.texts.items():
            if name in given and not _equal(given[name], values[name]):
                raise InvalidValue(
                    name, given[name], f"{values[name]!r}, which follows from {text} (it may be left out)"
                )

    def hold(self, configuration: Mapping[str, Value]) -> bool:
        """Return whether all dependent values lie in their ranges."""
        for name, part in self.solved.items():
            try:
                part.solved.validate(configuration[name])
            except InvalidValue:
                return False
        return all(derived.allows(derived.value(configuration)) for derived in self.derived)

    def repaired(self, units: Array, places: Mapping[str, int], parameters: Sequence[Parameter]) -> Array:
        """Repair coordinates (n, d) as ``repair`` does; ``places``: the column of each searched parameter."""
        result = units
        for part in self.slices:
            columns = [places[name] for name in part.free]
            values = np.stack([parameters[j].numbers(units[:, j]) for j in columns], axis=1)
            moved = part.repaired(values)
            if moved is values:
                continue
            rows = np.any(moved != values, axis=1)
            result = result.copy() if result is units else result
            for k, j in enumerate(columns):
                result[rows, j] = parameters[j].coordinates(moved[rows, k])
        return result


def _equal(given: object, value: Value) -> bool:
    if isinstance(given, bool | str) or isinstance(value, bool | str) or not isinstance(given, int | float):
        return False
    return abs(given - value) <= _ALMOST * max(1.0, abs(value))


def _in_order(parameters: Mapping[str, Parameter], derived: Sequence[Derived]) -> tuple[Derived, ...]:
    """Return the derived parameters, each after those that it is derived from."""
    waiting = {entry.name: entry for entry in derived}
    for entry in derived:
        for name in sorted(entry.names):
            if name in waiting:
                continue
            if name not in parameters:
                raise InvalidSpace(f"derived parameter {entry}: there is no parameter {name!r}")
            if parameters[name].kind == "categorical":
                raise InvalidSpace(f"derived parameter {entry}: {name!r} is categorical; allowed: numbers and booleans")
    sources = {name: sorted(entry.names) for name, entry in waiting.items()}
    if circle := circle_of(sources):
        raise InvalidSpace(f"derived parameters in a circle: {' -> '.join(circle)}")
    order = graphlib.TopologicalSorter(sources).static_order()
    return tuple(waiting[name] for name in order if name in waiting)
