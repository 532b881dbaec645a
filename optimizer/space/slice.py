"""The part of a space that keeps a linear equation: which parameter it is solved for, and points that keep it.

Every parameter of the equation is seen as a share, from 0 to its width: |coefficient| times the distance of its value
from the end where the sum is smallest.  The shares add up to ``_sum``.  One parameter, ``solved``, is not searched: its
share is what the others leave.  They must leave between 0 and its width, which a uniform draw of many parameters hardly
ever does; so ``spread`` maps the unit cube to the points that keep the equation, and ``repaired`` moves others there.

Source of ``spread``: Rosenblatt, Annals of Mathematical Statistics 23 (1952): each coordinate is the conditional
distribution function of one share, given those before it, of the uniform distribution on the equation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidSpace
from optimizer.space.configuration import Value
from optimizer.space.equality import LinearEquality, tidy
from optimizer.space.parameter import Parameter

Array = NDArray[np.float64]
_POINTS = 1025  # of a tabulated distribution function
_ALMOST = 1e-9  # relative to the sum


class _Share:
    """One parameter of an equation as a share of its sum."""

    def __init__(self, parameter: Parameter, coefficient: float) -> None:
        self.parameter = parameter
        self.falls = coefficient < 0  # the share is largest at the parameter's low end
        self._factor = abs(coefficient)
        self._low, self._high = float(parameter.low or 0), float(parameter.high or 0)
        self.width = self._factor * (self._high - self._low)
        self.smallest = coefficient * (self._high if self.falls else self._low)  # what it adds to the sum at share 0
        self._grid = self._stepped()
        if self._grid is not None:
            gaps = np.diff(self._grid)
            self.gap, self.even = float(gaps.max(initial=0.0)), bool(np.ptp(gaps) < _ALMOST) if gaps.size else False
        else:
            self.gap, self.even = (self._factor if parameter.kind == "integer" else 0.0), True
        self.cell = self.width / (len(self._grid) - 1) if self._grid is not None and len(self._grid) > 1 else self.gap

    def _stepped(self) -> Array | None:
        """Return the shares of a parameter with a step, ascending; None without a step, or with one of 1."""
        step = self.parameter.step
        plain = step is None or (self.parameter.kind == "integer" and step == 1) or self.width <= 0.0
        values = None if plain else self.parameter.values()
        return None if values is None else np.sort(self.of(np.array([float(value) for value in values])))

    def of(self, values: Array) -> Array:
        """Return the shares of values (n,)."""
        return self._factor * ((self._high - values) if self.falls else (values - self._low))

    def values(self, shares: Array) -> Array:
        """Return the values of shares (n,)."""
        distance = shares / self._factor
        values = self._high - distance if self.falls else self._low + distance
        return np.round(values) if self.parameter.kind == "integer" else np.asarray(values)

    def on_steps_of(self, unit: float) -> bool:
        """Return whether all shares are multiples of ``unit``."""
        if self.gap == 0.0 or self.width <= 0.0:
            return self.width <= 0.0
        shares = self._grid if self._grid is not None else np.array([self._factor])
        return bool(np.all(np.abs(shares / unit - np.round(shares / unit)) < _ALMOST * max(1.0, self.width / unit)))

    def nearest(self, shares: Array, least: Array, most: Array) -> Array:
        """Return the possible share nearest to each of ``shares`` between ``least`` and ``most``, all (n,)."""
        slack = _ALMOST * max(1.0, self.width)
        wanted = np.clip(shares, np.maximum(least, 0.0), np.minimum(most, self.width))
        if self._grid is not None:
            upper = np.clip(np.searchsorted(self._grid, wanted), 1, len(self._grid) - 1)
            closer = upper - (wanted - self._grid[upper - 1] <= self._grid[upper] - wanted)
            first = np.searchsorted(self._grid, least - slack)
            last = np.searchsorted(self._grid, most + slack, side="right") - 1
            return np.asarray(self._grid[np.clip(np.clip(closer, first, last), 0, len(self._grid) - 1)])
        if self.gap > 0.0:
            first, last = np.ceil((least - slack) / self.gap), np.floor((most + slack) / self.gap)
            return np.clip(np.clip(np.round(wanted / self.gap), first, last) * self.gap, 0.0, self.width)
        return np.asarray(wanted)


class Slice:
    """One equation of a space, solved for one of its parameters.

    ``free``: the names of the others, in the order of the columns of all arrays here.  ``kept``: parameters that it is
    not solved for, since others have conditions on them.  Raises InvalidSpace on parameters
    that are not integer or real, have special values or conditions, and where none can take up what the others leave.
    """

    def __init__(self, equality: LinearEquality, parameters: Mapping[str, Parameter], kept: Collection[str]) -> None:
        if len(equality.coefficients) < 2:
            raise InvalidSpace(f"equation {equality}: it leaves its parameter one value; fix the parameter instead")
        for name in equality.names:
            parameter = parameters[name]
            if not parameter.ordered:
                raise InvalidSpace(f"equation {equality}: {name!r} is {parameter.kind}; allowed: integers and reals")
            if parameter.special or parameter.condition is not None:
                why = "has special values" if parameter.special else "is not always active (it has a condition)"
                raise InvalidSpace(f"equation {equality}: {name!r} {why}, so that it cannot be part of a sum")
        self.equality = equality
        shares = {name: _Share(parameters[name], number) for name, number in equality.coefficients.items()}
        solved = _solvable(shares, kept)
        if solved is None:
            raise InvalidSpace(
                f"equation {equality}: no parameter can take up what the others leave; allowed: a real without a "
                "step, or a parameter whose coefficient times step divides those of all others, as wide as their steps"
            )
        self.solved = parameters[solved]
        self._last = shares.pop(solved)
        self.free = tuple(shares)
        self._shares = tuple(shares.values())
        self._sum = equality.total - sum(share.smallest for share in (*self._shares, self._last))
        self._after = _reversed_sums([share.width for share in self._shares], self._last.width)
        self._tabulate()

    def solve(self, configuration: Mapping[str, Value]) -> Value:
        """Return the value of ``solved`` that keeps the equation, be it in its range or not."""
        coefficients = self.equality.coefficients
        others = sum(coefficients[name] * float(configuration[name]) for name in self.free)
        factor = coefficients[self.solved.name]
        number = tidy((self.equality.total - others) / factor)
        almost = _ALMOST * max(1.0, abs(number), abs(self._sum / factor))
        for bound in (self.solved.low, self.solved.high):  # rounding may lead just outside
            if bound is not None and abs(number - bound) <= almost:
                number = float(bound)
        return round(number) if self.solved.kind == "integer" and abs(number - round(number)) <= almost else number

    def repaired(self, values: Array) -> Array:
        """Move values (n, k) of ``free`` to some that leave the solved parameter a value in its range, (n, k).

        All shares shrink, or grow, by one proportion of the room that each has.  Rows that need no move stay.
        """
        shares = np.stack([share.of(values[:, j]) for j, share in enumerate(self._shares)], axis=1)
        left = self._sum - shares.sum(axis=1)
        slack = 1e-12 * max(1.0, abs(self._sum))  # the rounding of floating point
        broken = (left < -slack) | (left > self._last.width + slack)
        if not broken.any():
            return values
        excess = np.where(left < 0.0, left, np.maximum(left - self._last.width, 0.0))[broken]  # below 0: shrink
        moved = shares[broken]
        room = np.where(excess[:, None] < 0.0, moved, np.array([share.width for share in self._shares]) - moved)
        total = room.sum(axis=1)
        moved = moved + room * np.divide(excess, total, out=np.zeros_like(excess), where=total > 0.0)[:, None]
        result = values.copy()
        result[broken] = self._completed(moved)
        return result

    def spread(self, units: Array) -> Array:
        """Return values of ``free`` (n, k) for points of the unit cube (n, k).

        Uniform points give values that are uniform among those that keep the equation (integers and steps nearly).
        """
        left = np.full(len(units), self._start)
        shares = np.empty_like(units)
        for j, share in enumerate(self._shares):
            width = share.width + share.cell
            table = self._tables[j]
            upper, lower = self._below(j, left), self._below(j, left - width)
            at = np.where(self._flipped[j], 1.0 - units[:, j], units[:, j])
            rest = np.interp(upper - at * (upper - lower), table, self._grid)
            least, most = np.maximum(0.0, left - self._ends[j]), np.minimum(width, left)
            shares[:, j] = np.where(upper > lower, np.clip(left - rest, least, most), least + at * (most - least))
            left = left - shares[:, j]
            if self._reflected:
                shares[:, j] = width - shares[:, j]
            shares[:, j] -= share.cell / 2
        return self._completed(shares)

    def gathered(self, values: Array) -> Array:
        """Return the points of the unit cube (n, k) that ``spread`` maps to these values of ``free`` (n, k)."""
        left = np.full(len(values), self._start)
        units = np.empty_like(values)
        for j, share in enumerate(self._shares):
            width = share.width + share.cell
            taken = share.of(values[:, j]) + share.cell / 2
            if self._reflected:
                taken = width - taken
            upper, lower = self._below(j, left), self._below(j, left - width)
            least, most = np.maximum(0.0, left - self._ends[j]), np.minimum(width, left)
            linear = np.divide(taken - least, most - least, out=np.full_like(taken, 0.5), where=most > least)
            ratio = np.divide(upper - self._below(j, left - taken), upper - lower, out=linear, where=upper > lower)
            at = np.clip(ratio, 0.0, 1.0)
            units[:, j] = np.where(self._flipped[j], 1.0 - at, at)
            left = left - taken
        return units

    def _completed(self, shares: Array) -> Array:
        """Return values (n, k) near ``shares`` (n, k): each the nearest one that leaves the later ones a solution."""
        left = np.full(len(shares), self._sum)
        values = np.empty_like(shares)
        for j, share in enumerate(self._shares):
            taken = share.nearest(shares[:, j], left - self._after[j], left)
            values[:, j] = share.values(taken)
            left = left - taken
        return values

    def _below(self, j: int, sums: Array) -> Array:
        """Return the probability that the shares after the free parameter j add up to at most ``sums``, (n,)."""
        return np.interp(sums, self._grid, self._tables[j])

    def _tabulate(self) -> None:
        """Tabulate, for each free parameter, the distribution function of the sum of the shares after it.

        Integers and steps count as the cells around their values.  Of the two ends of the sum, that is taken where it
        is nearer: a distribution function near 0 has all its digits, near 1 it has not.
        """
        widths = [share.width + share.cell for share in self._shares]
        last = self._last.width + self._last.cell
        self._start = self._sum + sum(share.cell / 2 for share in (*self._shares, self._last))
        whole = sum(widths) + last
        self._reflected = self._start > whole / 2
        if self._reflected:
            self._start = whole - self._start
        self._flipped = [share.falls != self._reflected for share in self._shares]
        self._ends = _reversed_sums(widths, last)
        self._grid = np.linspace(0.0, max(self._start, _ALMOST), _POINTS)
        tables = [np.minimum(self._grid / last, 1.0)]
        for width in widths[:0:-1]:
            below = tables[0]
            if width <= 0.0:
                tables.insert(0, below)
                continue
            density = (below - np.interp(self._grid - width, self._grid, below, left=0.0)) / width
            steps = (density[1:] + density[:-1]) / 2 * np.diff(self._grid)
            tables.insert(0, np.concatenate([[0.0], np.cumsum(steps)]))
        self._tables = tables


def _solvable(shares: Mapping[str, _Share], kept: Collection[str]) -> str | None:
    """Return the parameter to solve for: a real without a step, else one that fits; of several, the last one.

    Whatever the others take, it must be able to take the rest: its values are evenly spaced, all other shares are
    multiples of its spacing, and no other has a gap wider than its whole range.
    """
    last_first = list(shares)[::-1]
    candidates = sorted(last_first, key=lambda name: shares[name].gap > 0.0)
    for name in candidates:
        share, others = shares[name], [other for known, other in shares.items() if known != name]
        if (
            name in kept
            or share.width <= 0.0
            or not share.even
            or any(other.gap > share.width * (1 + _ALMOST) for other in others)
        ):
            continue
        if share.gap == 0.0 or all(other.on_steps_of(share.gap) for other in others):
            return name
    return None


def _reversed_sums(widths: Sequence[float], last: float) -> list[float]:
    """Return, for each of the free parameters, the sum of the widths after it, that of the solved one included."""
    sums, total = [], last
    for width in reversed(widths):
        sums.append(total)
        total += width
    return sums[::-1]
