"""Prior mean of an application from effects that were learnt in others (``effects``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.models.additive import Array
from optimizer.models.effects import Effect, own_name, transferable
from optimizer.models.surrogate import Encoder
from optimizer.space import Configuration, Parameter, SearchSpace, Value

MOST_NODES = 65  # of an ordered parameter; between them the prior mean is linear
BETWEEN = 0.3  # standard deviation of an effect between two applications, as a part of it
PARTS = (0.5, 0.8, 1.0, 0.95)  # of the expected gain, for which the best configurations change as little as possible


@dataclass(frozen=True)
class _Table:
    """The prior of one parameter.

    ``key``: type of the server and name; effects of one key are uncertain together.  ``values``; ``changes`` of the
    logarithm from the default, and their ``deviations``, both (n,).  ``first``: its first column in the encoding;
    ``nodes``: places of the first k values there, increasing; each of the rest has a column, in which it is ``hot``.
    ``carried``: the place of the value nearest to the best one elsewhere.
    """

    key: tuple[str, str]
    values: tuple[Value, ...]
    changes: Array
    deviations: Array
    first: int
    nodes: Array
    hot: float
    carried: int

    def at(self, x: Array) -> Array:
        """Return the change at encoded configurations (m, columns), (m,)."""
        count = len(self.nodes)
        levels = self.changes[count:]
        if not count:
            return np.asarray(x[:, self.first : self.first + len(levels)] @ levels / self.hot)
        flags = x[:, self.first + 1 : self.first + 1 + len(levels)]
        usual = np.interp(x[:, self.first], self.nodes, self.changes[:count])
        return np.asarray(usual * (1.0 - flags.sum(axis=1)) + flags @ levels)

    @property
    def lowest(self) -> int:
        """The place of the value with the lowest change, which is 0 where nothing is better than the default."""
        return int(np.argmin(self.changes))


class TransferPrior:
    """Sum over the parameters of their expected changes of log(value), 0 at the default.

    ``types``: group of parameters -> type of the server.  Servers of a type have equal parts of its effect.  Parameters
    without an effect are left out.
    """

    # It may be wrong, and says nothing of types of servers that only this application has: beside its best
    # configurations, which are tried anyway, it counts only as far as measurements confirm it.
    replaces_design = False
    expected_rho = 0.0

    def __init__(
        self,
        space: SearchSpace,
        types: Mapping[str, str],
        effects: Sequence[Effect],
    ) -> None:
        self._space = space
        known: dict[tuple[str, str], list[Effect]] = {}
        for effect in effects:
            known.setdefault((effect.server, effect.parameter), []).append(effect)
        begins = np.concatenate([[0], np.cumsum(Encoder(space).columns)])
        members: dict[tuple[str, str], list[tuple[Parameter, int]]] = {}
        for parameter, begin in zip(space.parameters, begins.tolist(), strict=False):
            key = types.get(parameter.group, ""), own_name(parameter)
            if key in known and transferable(parameter):
                members.setdefault(key, []).append((parameter, begin))
        self._tables: dict[str, _Table] = {}
        for key, tied in members.items():
            for parameter, begin in tied:
                self._tables[parameter.name] = _table(key, parameter, begin, known[key], 1.0 / len(tied))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters with an effect, in the order of the space."""
        return tuple(name for name in self._space.names if name in self._tables)

    def gain(self, configuration: Configuration) -> tuple[float, float]:
        """Return the expected change of log(value) from the default to a configuration, and its standard deviation."""
        default = self._space.default()
        changes, deviations = 0.0, dict.fromkeys((table.key for table in self._tables.values()), 0.0)
        for name, table in self._tables.items():
            if configuration[name] != default[name]:
                place = table.values.index(configuration[name])
                changes += float(table.changes[place])
                deviations[table.key] += float(table.deviations[place])
        return changes, math.hypot(*deviations.values())

    def at(self, x: Array) -> Array:
        """Return the predicted logarithm at encoded configurations (m, columns), (m,)."""
        total = np.zeros(len(x))
        for table in self._tables.values():
            total += table.at(x)
        return total

    def best(self, count: int) -> list[Configuration]:
        """Return at most ``count`` feasible configurations that are predicted to be good, the best first.

        The best configuration of another application, carried over, comes first.  The others change the parameters
        that matter most, for a part of the gain that all promise: changes of little effect bring risks (memory that
        runs out) and no gain.
        """
        chosen: list[Configuration] = []
        candidates = [self._changed([(name, table.carried) for name, table in self._tables.items()])]
        for candidate in (*candidates, *map(self._moved, PARTS)):
            if len(chosen) < count and candidate not in (self._space.default(), *chosen):
                chosen.append(candidate)
        return chosen

    def _moved(self, part: float) -> Configuration:
        """Return the default with the most important parameters at their best values, as far as that is allowed."""
        gains: dict[tuple[str, str], float] = {}
        for table in self._tables.values():
            gains[table.key] = gains.get(table.key, 0.0) + float(table.changes[table.lowest])
        wanted, moves = part * math.fsum(gains.values()), []
        for key in sorted(gains, key=lambda key: (gains[key], key)):
            if wanted > -1e-9:
                break
            wanted -= gains[key]
            moves += [(name, table.lowest) for name, table in self._tables.items() if table.key == key]
        return self._changed(moves)

    def _changed(self, moves: Sequence[tuple[str, int]]) -> Configuration:
        """Return the default with the value at each place, as far as that is allowed.

        Where the constraints forbid all changes at once, they are made one by one, without those that break one.
        """
        default = self._space.default()
        values = {name: self._tables[name].values[place] for name, place in moves}
        changed = self._space.canonical(default.replace(values))
        if self._space.is_feasible(changed):
            return changed
        changed = default
        for name, value in values.items():
            further = self._space.canonical(changed.replace({name: value}))
            changed = further if self._space.is_feasible(further) else changed
        return changed


def _table(key: tuple[str, str], parameter: Parameter, first: int, effects: Sequence[Effect], share: float) -> _Table:
    ordered, levels = _values(parameter)
    values = (*ordered, *levels)
    changes, deviations = _combined(effects, values, parameter.default)
    begin, stop = parameter.usual
    nodes = np.array([(parameter.to_unit(value) - begin) / (stop - begin) for value in ordered])
    hot = math.sqrt(0.5) if parameter.kind == "categorical" else 1.0
    if parameter.kind == "boolean":  # one column
        nodes = np.array([0.0, 1.0])
    carried = _nearest(parameter, values, effects[0].best)
    return _Table(key, values, share * changes, share * deviations, first, nodes, hot, carried)


def _nearest(parameter: Parameter, values: Sequence[Value], wanted: Value) -> int:
    """Return the place of the value nearest to the wanted one, of the default where that means nothing here."""
    if wanted in values:
        return list(values).index(wanted)
    if not parameter.ordered or isinstance(wanted, str | bool):
        return list(values).index(parameter.default)
    usual = [place for place, value in enumerate(values) if value not in parameter.special]
    return min(usual, key=lambda place: abs(float(values[place]) - float(wanted)))


def _values(parameter: Parameter) -> tuple[list[Value], list[Value]]:
    """Return values of a parameter, increasing, and its special values or choices."""
    if not parameter.ordered:
        return [], list(parameter.choices)
    begin, stop = parameter.usual
    units = np.linspace(begin + 1e-9, stop - 1e-9, MOST_NODES)
    usual = {parameter.from_unit(unit) for unit in units} | {parameter.default}
    return sorted(usual.difference(parameter.special), key=float), list(parameter.special)


def _combined(effects: Sequence[Effect], values: Sequence[Value], default: Value) -> tuple[Array, Array]:
    """Return changes from the default to each value and their deviations (n,), combined by precision; 0 if unknown."""
    changes, deviations = np.zeros(len(values)), np.zeros(len(values))
    for place, value in enumerate(values):
        known = []
        for effect in effects:
            there, here = effect.at(value), effect.at(default)
            if value != default and there is not None and here is not None:
                known.append((there.log_ratio - here.log_ratio, math.hypot(there.deviation, here.deviation)))
        if known:
            spread = BETWEEN * max(abs(change) for change, _ in known)
            precisions = np.array([1.0 / max(deviation**2 + spread**2, 1e-12) for _, deviation in known])
            changes[place] = float(precisions @ np.array([change for change, _ in known]) / precisions.sum())
            deviations[place] = float(precisions.sum() ** -0.5)
    return changes, deviations
