"""A table of measured configurations as a problem: every point is answered by a measured row.

Most points of the space were never measured.  ``answers`` says what becomes of them:

* "nearest": the row nearest to the point answers for it, and the optimizer believes that the point itself was measured;
* "rows": the nearest row is measured in place of the point, and the optimizer is told so.

The distance of two configurations is the sum over the options of the difference of their levels, as a fraction of the
largest difference (1 for two unequal choices without an order); of equally near rows the first counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimizer.errors import InvalidInput
from optimizer.space import Configuration, Parameter, SearchSpace, Value

DEFAULTS: Mapping[str, float] = {"good": 0.1, "median": 0.5, "bad": 0.9}
"""Name of a default -> quantile of the values at which its row stands; values are minimised."""

Answers = Literal["nearest", "rows"]
ANSWERS: tuple[Answers, ...] = ("nearest", "rows")
Level = float | str


class Table:
    """A Problem from a table.

    ``options``: name -> level of each row; an option of one level is left out.  ``values``: shape (rows,), above 0, to
    be minimised; rows of equal options count once, with their geometric mean.  ``noise``: standard deviation of the
    logarithm of one measurement.  ``default``: a key of ``DEFAULTS``.  Raises InvalidInput.
    """

    family = "measured systems"

    def __init__(
        self,
        name: str,
        options: Mapping[str, Sequence[Level]],
        values: ArrayLike,
        *,
        noise: float = 0.1,
        default: str = "median",
        answers: Answers = "nearest",
    ) -> None:
        y = np.asarray(values, dtype=float)
        if default not in DEFAULTS:
            raise InvalidInput(f"{name}: default: found {default}; allowed: {', '.join(DEFAULTS)}")
        if answers not in ANSWERS:
            raise InvalidInput(f"{name}: answers: found {answers}; allowed: {', '.join(ANSWERS)}")
        if not (math.isfinite(noise) and noise >= 0):
            raise InvalidInput(f"{name}: noise: found {noise}; allowed: a finite number, at least 0")
        if not len(y) or not np.all(np.isfinite(y) & (y > 0)):
            raise InvalidInput(f"{name}: found a value that is not a finite number above 0, or no row")
        self.name, self.answers = name, answers
        self._noise = noise
        self._levels = {option: _sorted(column) for option, column in options.items() if len(set(column)) > 1}
        if not self._levels:
            raise InvalidInput(f"{name}: no option has two levels")
        self._unordered = np.array([_is_text(levels) and len(levels) > 2 for levels in self._levels.values()])
        columns = [[levels.index(level) for level in options[option]] for option, levels in self._levels.items()]
        indices = np.array(columns, dtype=np.int64).T
        self._rows, which = np.unique(indices, axis=0, return_inverse=True)
        counts = np.bincount(which.ravel())
        self._log_values = np.bincount(which.ravel(), weights=np.log(y)) / counts
        order = np.argsort(self._log_values, kind="stable")
        self._default_row = int(order[round(DEFAULTS[default] * (len(order) - 1))])
        self.space = self._space(self._rows[self._default_row])
        self._spans = np.array([1.0 if _is_text(levels) else len(levels) - 1.0 for levels in self._levels.values()])

    @property
    def rows(self) -> int:
        """Number of measured configurations."""
        return len(self._rows)

    def truth(self, configuration: Configuration) -> float | None:
        """Return the value of the nearest row."""
        return math.exp(float(self._log_values[self._nearest(configuration)]))

    def noise(self, configuration: Configuration) -> float:
        """Return the standard deviation of the logarithm of one measurement, the same for all."""
        return self._noise

    def priors(self, configuration: Configuration) -> Mapping[str, float]:
        """Return no priors."""
        return {}

    def measurable(self, configuration: Configuration) -> Configuration:
        """Return the configuration that is measured where this one is asked for."""
        if self.answers == "nearest":
            return configuration
        return self.space.validate(self._values(self._rows[self._nearest(configuration)]))

    def _nearest(self, configuration: Configuration) -> int:
        asked = np.array([self._index(option, configuration[option]) for option in self._levels])
        apart = np.abs(self._rows - asked).astype(float)
        apart[:, self._unordered] = apart[:, self._unordered] > 0
        distance: NDArray[np.float64] = (apart / self._spans).sum(axis=1)
        return int(np.argmin(np.round(distance, 9)))

    def _space(self, default: NDArray[np.int64]) -> SearchSpace:
        values = self._values(default)
        parameters = []
        for option, levels in self._levels.items():
            if len(levels) == 2:
                parameters.append(Parameter(option, "boolean", values[option]))
            elif _is_text(levels):
                parameters.append(Parameter(option, "categorical", values[option], choices=tuple(levels)))
            else:
                parameters.append(Parameter(option, "integer", values[option], low=0, high=len(levels) - 1))
        return SearchSpace(parameters)

    def _values(self, indices: NDArray[np.int64]) -> dict[str, Value]:
        """Return a row as values of the space: booleans, choices, and positions of levels."""
        values: dict[str, Value] = {}
        for (option, levels), index in zip(self._levels.items(), indices.tolist(), strict=True):
            values[option] = bool(index) if len(levels) == 2 else levels[index] if _is_text(levels) else index
        return values

    def _index(self, option: str, value: Value) -> int:
        levels = self._levels[option]
        return levels.index(value) if _is_text(levels) and len(levels) > 2 else int(value)


def _sorted(column: Sequence[Level]) -> list[Level]:
    numbers = sorted({level for level in column if not isinstance(level, str)})
    return [*numbers, *sorted({level for level in column if isinstance(level, str)})]


def _is_text(levels: Sequence[Level]) -> bool:
    return any(isinstance(level, str) for level in levels)
