"""Which parameters mattered: from the trials of any search, or from a screening design.

``permutation``: a random forest is fitted to the finished trials, and one parameter's (or one group's) values are
shuffled among trials that it has not seen: how much worse it then predicts is how much the parameter matters (Breiman,
Machine Learning 45 (2001), section 10).  Fitted anew to bootstrap samples of the trials, which gives the intervals.
``effects``: mean absolute elementary effects of a Morris design (mu* of Campolongo, Cariboni & Saltelli 2007).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.models.surrogate import Encoder, one_thread
from optimizer.space import Configuration, SearchSpace

RESAMPLES = 40
TREES = 40
SHUFFLES = 5
MIN_TRIALS = 8  # trials below which nothing is said


@dataclass(frozen=True)
class Importance:
    """One parameter or group.  ``value`` with its 95 % interval; ``count``: resamples or effects behind it.

    ``permutation``: the fraction of the variance of log(value) that is lost without it.  ``effects``: mean absolute
    change of log(value) when it moves by two thirds of its range; an interval of infinity where one effect is all
    there is.
    """

    name: str
    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Explained:
    """``parameters`` and ``groups`` by importance, largest first; ``explained``: R^2 on trials that were not fitted.

    Where ``explained`` is at or below zero, the forest predicts no better than the mean and nothing follows.
    """

    trials: int
    explained: float
    parameters: tuple[Importance, ...]
    groups: tuple[Importance, ...]


def permutation(
    space: SearchSpace, results: Sequence[tuple[Mapping[str, object], float]], *, seed: int = 0
) -> Explained | None:
    """``results``: configurations with their values; None where fewer than 8 are there or all values are equal."""
    from sklearn.ensemble import RandomForestRegressor  # here: an `import optimizer` must not pay for it

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
        # One large prediction for all shuffles: a forest costs a millisecond a call, whatever it predicts.
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
            of_it = [w for w, n in zip(worse, names, strict=True) if n == name]
            lost[name].append(float(np.mean(of_it)) / variance)
    importances = {name: _interval(name.removeprefix("\0"), values) for name, values in lost.items()}
    return Explained(
        trials=len(y),
        explained=float(np.mean(explained)),
        parameters=_ordered(importances[name] for name in space.names),
        groups=_ordered(importance for name, importance in importances.items() if name.startswith("\0")),
    )


def effects(space: SearchSpace, results: Sequence[tuple[Mapping[str, object], float]]) -> tuple[Importance, ...]:
    """Of each group that alone differs between two results that follow each other; largest first.

    ``results``: in the order of the asks; those without a value are left out, with the two steps that they are part
    of, since then more than one group differs.
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
    """Logarithms, since runs differ by factors; values as they stand where some are not positive."""
    y = np.asarray(values, dtype=np.float64)
    return np.log(y) if len(y) and (y > 0).all() else y


def _columns(space: SearchSpace, widths: Sequence[int]) -> Mapping[str, list[int]]:
    """Parameter -> its columns in the encoding."""
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
