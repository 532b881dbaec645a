"""Importance of parameters: from the trials of any search, or from a screening design.

``permutation``: a random forest is fitted to the finished trials, and the values of one parameter (or group) are
shuffled among trials outside the fit.  The importance is the loss of accuracy (Breiman, Machine Learning 45 (2001),
section 10).  The fit is repeated on bootstrap samples of the trials, which gives the intervals.
``effects``: mean absolute elementary effects of a Morris design (mu* of Campolongo, Cariboni & Saltelli 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.models.surrogate import Encoder, one_thread
from optimizer.models.tied_parameters import tied_parameters
from optimizer.space import Configuration, SearchSpace

RESAMPLES = 40
TREES = 40
SHUFFLES = 5
MIN_TRIALS = 8  # with fewer there is no result


@dataclass(frozen=True)
class Importance:
    """Importance of one parameter or group: ``value`` with its 95 % interval, from ``count`` resamples or effects.

    ``permutation``: the fraction of the variance of log(value) that is lost without it.  ``effects``: mean absolute
    change of log(value) when it moves by two thirds of its range; the interval is infinite with a single effect.
    """

    name: str
    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Explained:
    """``parameters`` and ``groups`` by importance, largest first; ``explained``: R^2 on trials outside the fit.

    ``tied``: sets of tied parameters, such as "threads (12)" for those of twelve groups, shuffled as one.
    Where ``explained`` is at or below zero, the forest predicts no better than the mean: no conclusion is possible.
    """

    trials: int
    explained: float
    parameters: tuple[Importance, ...]
    groups: tuple[Importance, ...]
    tied: tuple[Importance, ...] = ()


def permutation(
    space: SearchSpace, results: Sequence[tuple[Mapping[str, object], float]], *, seed: int = 0
) -> Explained | None:
    """Return the permutation importance; None for fewer than 8 results or equal values.

    ``results``: configurations with their values.
    """
    from sklearn.ensemble import RandomForestRegressor  # imported here: it takes a second

    configurations = [Configuration({name: values[name] for name in space.names}) for values, _ in results]
    y = _scale([value for _, value in results])
    if len(y) < MIN_TRIALS or float(np.ptp(y)) == 0:
        return None
    encoder = Encoder(space)
    x = encoder.encode(encoder.snap(encoder.units(configurations)))
    columns = _columns(space, encoder.columns)
    sets = {
        **{name: [name] for name in space.names},
        **{f"\0{group}": list(names) for group, names in space.groups.items()},
        **{f"\1{name}": members for name, members in _tied(space, encoder.columns).items()},
    }
    lost: dict[str, list[float]] = {name: [] for name in sets}
    explained = []
    rng = np.random.default_rng(seed)
    for _ in range(RESAMPLES):
        chosen = rng.integers(len(y), size=len(y))
        rest = np.setdiff1d(np.arange(len(y)), chosen)
        if len(rest) < 2:
            continue
        forest = RandomForestRegressor(n_estimators=TREES, random_state=int(rng.integers(2**31)), n_jobs=1)
        with one_thread():
            forest.fit(x[chosen], y[chosen])
        variance = float(np.mean((y[rest] - y[chosen].mean()) ** 2)) or 1.0
        error = float(np.mean((y[rest] - forest.predict(x[rest])) ** 2))
        explained.append(1 - error / variance)
        # One prediction for all shuffles: each call of a forest takes a millisecond, whatever its size.
        blocks, names = [], []
        for name, members in sets.items():
            for _ in range(SHUFFLES):
                block = x[rest].copy()
                order = rng.permutation(len(rest))
                for member in members:
                    block[:, columns[member]] = block[order][:, columns[member]]
                blocks.append(block)
                names.append(name)
        predicted = forest.predict(np.concatenate(blocks)).reshape(len(blocks), len(rest))
        worse = np.mean((predicted - y[rest]) ** 2, axis=1) - error
        for name in sets:
            losses = [loss for loss, member in zip(worse, names, strict=True) if member == name]
            lost[name].append(float(np.mean(losses)) / variance)
    importances = {name: _interval(name.lstrip("\0\1"), values) for name, values in lost.items()}
    return Explained(
        trials=len(y),
        explained=float(np.mean(explained)),
        parameters=_ordered(importances[name] for name in space.names),
        groups=_ordered(importance for name, importance in importances.items() if name.startswith("\0")),
        tied=_ordered(importance for name, importance in importances.items() if name.startswith("\1")),
    )


def effects(space: SearchSpace, results: Sequence[tuple[Mapping[str, object], float]]) -> tuple[Importance, ...]:
    """Return the importance of each group that alone differs between two consecutive results; largest first.

    ``results``: in the order of the asks, without the failed ones.  The two steps of a missing result do not count,
    since more than one group differs then.
    """
    y = _scale([value for _, value in results])
    changes: dict[str, list[float]] = {}
    for number in range(1, len(results)):
        before, after = results[number - 1][0], results[number][0]
        groups = {space[name].group for name in space.names if before[name] != after[name]}
        if len(groups) == 1:
            changes.setdefault(groups.pop(), []).append(abs(float(y[number] - y[number - 1])))
    return _ordered(_mean(name, values) for name, values in changes.items())


def _scale(values: Sequence[float]) -> NDArray[np.float64]:
    """Return logarithms, since runs differ by factors; the values themselves where some are not positive."""
    y = np.asarray(values, dtype=np.float64)
    return np.log(y) if len(y) and (y > 0).all() else y


def _tied(space: SearchSpace, widths: Sequence[int]) -> dict[str, list[str]]:
    """Return the names of the tied parameters of each set of two or more, by a name for the set."""
    result: dict[str, list[str]] = {}
    for tied in tied_parameters(space, widths):
        names = [space.names[number] for number in tied.members]
        if len(names) > 1:
            label = f"{names[0].removeprefix(f'{space[names[0]].group}.')} ({len(names)})"
            # Parameters of one name and other kinds of values are tied among themselves.
            result[label if label not in result else f"{label}, as in {space[names[0]].group}"] = names
    return result


def _columns(space: SearchSpace, widths: Sequence[int]) -> Mapping[str, list[int]]:
    """Return the columns of each parameter in the encoding."""
    ends = np.cumsum(widths)
    return {name: list(range(end - width, end)) for name, end, width in zip(space.names, ends, widths, strict=True)}


def _interval(name: str, values: Sequence[float]) -> Importance:
    low, high = (float(quantile) for quantile in np.quantile(values, (0.025, 0.975)))
    return Importance(name, float(np.mean(values)), low, high, len(values))


def _mean(name: str, values: Sequence[float]) -> Importance:
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Importance(name, mean, 0.0, math.inf, 1)
    from scipy import stats

    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Importance(name, mean, max(0.0, mean - half), mean + half, len(values))


def _ordered(importances: Iterable[Importance]) -> tuple[Importance, ...]:
    return tuple(sorted(importances, key=lambda importance: (-importance.value, importance.name)))
