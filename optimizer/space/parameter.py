"""Parameters: the values of one tunable, and the coordinates of these values on the unit interval.

Algorithms work on the unit cube or on the values themselves; only this module maps the one to the other.  Discrete
parameters divide the interval into cells (equal ones in their scale), so that a uniform coordinate is a uniform draw
and a value's own coordinate lies inside its cell.
"""

from __future__ import annotations

import bisect
import itertools
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space.condition import Condition
from optimizer.space.configuration import Value, plain

Kind = Literal["integer", "real", "categorical", "boolean"]
_KINDS = ("integer", "real", "categorical", "boolean")
_LARGEST_GRID = 1_000_000  # values; with a finer step the parameter should be continuous
SPECIAL_SHARE = 0.15  # of the unit interval for each special value: enough that a uniform draw tries it
_MOST_SPECIAL = 3
_ROUNDING = 1e-12  # the coordinate of ``high`` may be off by its last digit


@dataclass(frozen=True)
class Parameter:
    """One tunable: its values and their coordinates on [0, 1].

    integer, real: ``low`` to ``high``, both included.  With a ``step``, only low, low + step, ..., ``high`` and the
    default are suggested; ``validate`` still accepts the values between (imported results).
    ``special``: values outside low to high with a meaning of their own (0: off, -1: no limit); each has a cell at
    the end of the unit interval where it belongs by its size (the idea: Kanellis et al., LlamaTune, VLDB 2022,
    section 4).
    categorical: ``choices``, unordered.  boolean: False and True.  ``condition``: the parameter has an effect only
    where another one has certain values; elsewhere it is at its default.  ``attributes``: numbers about the parameter
    (priority, share of the critical path) for algorithms that use them.  Raises InvalidSpace.
    """

    name: str
    kind: Kind
    default: Value
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: tuple[Value, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    group: str = ""
    attributes: Mapping[str, float] = field(default_factory=dict, hash=False)
    special: tuple[Value, ...] = ()
    condition: Condition | None = None
    _grid: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())
    _middles: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())
    _edges: tuple[float, float] = field(init=False, repr=False, compare=False, default=(0.0, 1.0))

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidSpace("a parameter needs a name")
        if self.kind not in _KINDS:
            raise InvalidSpace(f"{self.name}: kind is {self.kind!r}; allowed: {', '.join(_KINDS)}")
        if self.scale not in ("linear", "log"):
            raise InvalidSpace(f"{self.name}: scale is {self.scale!r}; allowed: linear, log")
        self._set("attributes", {key: float(number) for key, number in self.attributes.items()})
        if self.ordered:
            self._check_range()
            self._check_special()
        else:
            self._check_choices()
        try:
            self._set("default", self.validate(self.default))
        except InvalidValue as error:
            raise InvalidSpace(f"{self.name}: default {self.default!r} is not allowed: {error.allowed}") from error
        if self.ordered:
            self._lay_out()

    def _set(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

    @property
    def ordered(self) -> bool:
        """Whether the values have an order (integer and real)."""
        return self.kind in ("integer", "real")

    def _check_choices(self) -> None:
        if self.low is not None or self.high is not None or self.step is not None or self.scale == "log":
            raise InvalidSpace(f"{self.name}: a {self.kind} parameter has no low, high, step or log scale")
        if self.special:
            raise InvalidSpace(f"{self.name}: a {self.kind} parameter has no special values; make them choices")
        if self.kind == "boolean":
            if self.choices not in ((), (False, True)):
                raise InvalidSpace(f"{self.name}: a boolean parameter has no choices")
            self._set("choices", (False, True))
            return
        choices = tuple(plain(self.name, choice) for choice in self.choices)
        if not choices:
            raise InvalidSpace(f"{self.name}: a categorical parameter needs choices")
        if len({(type(choice), choice) for choice in choices}) != len(choices):
            raise InvalidSpace(f"{self.name}: a choice appears twice in {list(choices)}")
        self._set("choices", choices)

    def _check_range(self) -> None:
        if self.choices:
            raise InvalidSpace(f"{self.name}: {self.kind} parameters have no choices")
        if self.low is None or self.high is None:
            raise InvalidSpace(f"{self.name}: {self.kind} parameters need low and high")
        for what, number in (("low", self.low), ("high", self.high), ("step", self.step)):
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, numbers.Real) or not math.isfinite(number):
                raise InvalidSpace(f"{self.name}: {what} is {number!r}; allowed: a finite number")
            if self.kind == "integer" and number != int(number):
                raise InvalidSpace(f"{self.name}: {what} is {number!r}; allowed: an integer")
            self._set(what, int(number) if self.kind == "integer" else float(number))
        if self.low > self.high:
            raise InvalidSpace(f"{self.name}: low {self.low!r} is above high {self.high!r}")
        if self.scale == "log" and self.low <= 0:
            raise InvalidSpace(f"{self.name}: a log scale needs low above 0, found {self.low!r}")
        if self.step is not None:
            if self.step <= 0:
                raise InvalidSpace(f"{self.name}: step is {self.step!r}; allowed: above 0")
            if (self.high - self.low) / self.step > _LARGEST_GRID:
                raise InvalidSpace(f"{self.name}: step {self.step!r} makes more than {_LARGEST_GRID} values")

    def _check_special(self) -> None:
        """Convert the special values to the parameter's kind and sort them."""
        low, high = self._bounds()
        special: set[int | float] = set()
        for value in self.special:
            number = plain(self.name, value)
            if isinstance(number, bool | str) or (self.kind == "integer" and number != int(number)):
                raise InvalidSpace(f"{self.name}: special value {value!r}; allowed: numbers of kind {self.kind}")
            if low <= number <= high:
                raise InvalidSpace(f"{self.name}: special value {value!r} lies between low and high; leave it out")
            special.add(int(number) if self.kind == "integer" else float(number))
        if len(special) < len(self.special) or len(special) > _MOST_SPECIAL:
            raise InvalidSpace(
                f"{self.name}: special is {list(self.special)}; allowed: {_MOST_SPECIAL} values, each once"
            )
        self._set("special", tuple(sorted(special)))

    def _bounds(self) -> tuple[float, float]:
        if self.low is None or self.high is None:
            raise InvalidSpace(f"{self.name}: a {self.kind} parameter has no bounds")
        return self.low, self.high

    def _warp(self, number: float) -> float:
        return math.log(number) if self.scale == "log" else number

    def _lay_out(self) -> None:
        """Compute the cells of the unit interval: where each value of a discrete parameter begins and ends."""
        low, high = self._bounds()
        if self.step is None or (self.kind == "integer" and self.step == 1):
            half = 0.5 if self.kind == "integer" else 0.0
            self._set("_edges", (self._warp(low - half), self._warp(high + half)))
            return
        count = int((high - low) / self.step * (1 + 1e-12))  # 1e-12: 0.3 / 0.1 is 2.9999999999999996
        exact = self.kind == "integer"
        steps = (low + index * self.step for index in range(count + 1))
        grid = {int(number) if exact else float(f"{number:.12g}") for number in steps}
        grid = {number for number in grid if number <= high} | {high}
        if self.default not in self.special:
            grid |= {float(self.default)}
        self._set("_grid", tuple(sorted(int(number) if exact else number for number in grid)))
        warped = [self._warp(number) for number in self._grid]
        self._set("_middles", tuple((left + right) / 2 for left, right in itertools.pairwise(warped)))
        if self._middles:
            self._set("_edges", (2 * warped[0] - self._middles[0], 2 * warped[-1] - self._middles[-1]))
        else:
            self._set("_edges", (warped[0], warped[0]))

    @property
    def cardinality(self) -> float:
        """Number of values that can be suggested; infinite for a real parameter without a step."""
        if not self.ordered:
            return len(self.choices)
        low, high = self._bounds()
        if self._grid:
            usual: float = len(self._grid)
        elif low == high:
            usual = 1
        else:
            usual = high - low + 1 if self.kind == "integer" else math.inf
        return usual + len(self.special)

    @property
    def allowed(self) -> str:
        """The allowed values, for messages."""
        if not self.ordered:
            return "one of " + ", ".join(repr(choice) for choice in self.choices)
        noun = "an integer" if self.kind == "integer" else "a number"
        besides = "".join(f", or {value!r}" for value in self.special)
        return f"{noun} from {self.low!r} to {self.high!r}{besides}"

    def validate(self, value: object) -> Value:
        """Return ``value`` in the parameter's kind (3.0 is an integer, 3 is a real).  Raises InvalidValue."""
        try:
            plain_value = plain(self.name, value)
        except InvalidValue as error:
            raise InvalidValue(self.name, value, self.allowed) from error
        if not self.ordered:
            for choice in self.choices:
                if type(choice) is type(plain_value) and choice == plain_value:
                    return choice
            raise InvalidValue(self.name, value, self.allowed)
        low, high = self._bounds()
        if isinstance(plain_value, bool | str) or not (low <= plain_value <= high or plain_value in self.special):
            raise InvalidValue(self.name, value, self.allowed)
        if self.kind == "real":
            return float(plain_value)
        if plain_value != int(plain_value):
            raise InvalidValue(self.name, value, self.allowed)
        return int(plain_value)

    def values(self) -> tuple[Value, ...] | None:
        """Return all values that can be suggested, in order; None where they are not countable."""
        if not self.ordered:
            return self.choices
        low, high = self._bounds()
        if self._grid:
            usual: tuple[Value, ...] = self._grid
        elif self.kind == "integer":
            usual = tuple(range(int(low), int(high) + 1))
        elif low == high:
            usual = (low,)
        else:
            return None
        return (*self._below, *usual, *self._above)

    @property
    def _below(self) -> tuple[Value, ...]:
        """Special values that are smaller than ``low``."""
        return tuple(value for value in self.special if float(value) < self._bounds()[0])

    @property
    def _above(self) -> tuple[Value, ...]:
        """Special values that are larger than ``high``."""
        return self.special[len(self._below) :]

    @property
    def usual(self) -> tuple[float, float]:
        """The part of the unit interval for the values from low to high: all of it without special values."""
        return SPECIAL_SHARE * len(self._below), 1.0 - SPECIAL_SHARE * len(self._above)

    def to_unit(self, value: object) -> float:
        """Return the coordinate of ``value`` in [0, 1]: the middle of its cell, or its place on the scale.

        Raises InvalidValue.
        """
        checked = self.validate(value)
        if self.choices:
            kinds = [(type(choice), choice) for choice in self.choices]
            return (kinds.index((type(checked), checked)) + 0.5) / len(kinds)
        begin, stop = self.usual
        if checked in self.special:
            place = self.special.index(checked)
            return SPECIAL_SHARE * (place + 0.5) + (0.0 if place < len(self._below) else stop - begin)
        start, end = self._edges
        if end <= start or self.low == self.high:
            return 0.5 * (begin + stop)
        return begin + (stop - begin) * min(1.0, max(0.0, (self._warp(float(checked)) - start) / (end - start)))

    def from_unit(self, unit: float) -> Value:
        """Return the value whose cell holds ``unit``; reals are rounded to a millionth of their range.

        Raises InvalidValue where ``unit`` is outside [0, 1].
        """
        if not 0.0 <= unit <= 1.0:
            raise InvalidValue(self.name, unit, "a coordinate from 0 to 1")
        if not self.ordered:
            return self.choices[min(int(unit * len(self.choices)), len(self.choices) - 1)]
        low, high = self._bounds()
        start, end = self._edges
        if self.special:
            begin, stop = self.usual
            if unit < begin:
                return self._below[min(int(unit / SPECIAL_SHARE), len(self._below) - 1)]
            if self._above and unit > stop + _ROUNDING:
                return self._above[min(int((unit - stop) / SPECIAL_SHARE), len(self._above) - 1)]
            unit = min(1.0, max(0.0, (unit - begin) / (stop - begin)))
        warped = start + float(unit) * (end - start)
        if self._grid:
            return self._grid[bisect.bisect_right(self._middles, warped)]
        number = math.exp(warped) if self.scale == "log" else warped
        if self.kind == "integer":
            return int(min(high, max(low, math.floor(number + 0.5))))
        if low == high:
            return low
        # A millionth of the range is far below any noise, and keeps rendered files readable.
        decimals = 6 - math.floor(math.log10(high - low))
        rounded = float(f"{number:.6g}") if self.scale == "log" else round(number, decimals)
        return min(high, max(low, rounded)) + 0.0

    def snap(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coordinates of the values whose cells hold ``units``, (n,): a vectorised to_unit(from_unit(u)).

        Reals without a step keep their coordinates (they are rounded only when they become values).
        """
        if not self.ordered:
            count = len(self.choices)
            return (np.minimum(np.floor(units * count), count - 1) + 0.5) / count
        if self.special:
            begin, stop = self.usual
            inner = begin + (stop - begin) * self._snap_usual(np.clip((units - begin) / (stop - begin), 0.0, 1.0))
            cells = np.array([self.to_unit(value) for value in self.special])
            low_cell = np.clip((units / SPECIAL_SHARE).astype(np.int64), 0, max(len(self._below) - 1, 0))
            high_cell = len(self._below) + ((units - stop) / SPECIAL_SHARE).astype(np.int64)
            inner = np.where(units < begin, cells[low_cell], inner)
            beyond = (units > stop + _ROUNDING) & bool(self._above)
            return np.where(beyond, cells[np.clip(high_cell, 0, len(cells) - 1)], inner)
        return self._snap_usual(units)

    def _snap_usual(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Snap coordinates (n,) of a parameter without special values."""
        if self.kind == "real" and not self._grid and self.low != self.high:
            return units.copy()
        return self.coordinates(self.numbers(units))

    def numbers(self, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values at coordinates (n,), special ones aside, as numbers (n,): a vectorised from_unit.

        Reals are not rounded.  The parameter is ``ordered``.
        """
        start, end = self._edges
        low, high = self._bounds()
        if end <= start or low == high:
            return np.full_like(units, low)
        warped = start + units * (end - start)
        if self._grid:
            return np.asarray(self._grid, dtype=float)[np.searchsorted(self._middles, warped, side="right")]
        numbers = np.exp(warped) if self.scale == "log" else warped
        return np.clip(np.floor(numbers + 0.5) if self.kind == "integer" else numbers, low, high)

    def coordinates(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coordinates of values (n,) between low and high, without special values: a vectorised to_unit."""
        start, end = self._edges
        if end <= start or self.low == self.high:
            return np.full_like(numbers, 0.5)
        warped = np.log(numbers) if self.scale == "log" else numbers
        return np.clip((warped - start) / (end - start), 0.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameter as plain JSON data, without the fields at their defaults."""
        content: dict[str, Any] = {"name": self.name, "kind": self.kind, "default": self.default}
        for key in ("low", "high", "step"):
            if getattr(self, key) is not None:
                content[key] = getattr(self, key)
        if self.kind == "categorical":
            content["choices"] = list(self.choices)
        if self.scale != "linear":
            content["scale"] = self.scale
        if self.group:
            content["group"] = self.group
        if self.attributes:
            content["attributes"] = dict(self.attributes)
        if self.special:
            content["special"] = list(self.special)
        if self.condition is not None:
            content["condition"] = self.condition.to_dict()
        return content
