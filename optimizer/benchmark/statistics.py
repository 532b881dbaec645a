"""Statistics of many runs: ranks over problems, and tests of the differences between optimizers.

The unit is the problem: a problem's value is the mean over its seeds of the logarithm of the true value found, so that
seeds do not count as independent evidence.  Sources: Demsar, JMLR 7 (2006) (ranks, Wilcoxon); Holm, Scand. J. Stat. 6
(1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.benchmark.race import Run


@dataclass(frozen=True)
class Standing:
    """``levels[i, j]``: mean log value of optimizer i on problem j.  ``ranks[i, j]``: its rank (1 is best)."""

    optimizers: tuple[str, ...]
    problems: tuple[str, ...]
    levels: NDArray[np.float64]
    ranks: NDArray[np.float64]

    @property
    def mean_ranks(self) -> Mapping[str, float]:
        """Mean ranks over the problems by optimizer, the best first."""
        means = dict(zip(self.optimizers, self.ranks.mean(axis=1).tolist(), strict=True))
        return dict(sorted(means.items(), key=lambda item: item[1]))


@dataclass(frozen=True)
class Difference:
    """Our values against those of ``optimizer``.

    ``ratio``: geometric mean over problems of ours to theirs, below 1 where ours is better.  ``wins``, ``losses``:
    numbers of problems.  ``p``: Holm-adjusted.
    """

    optimizer: str
    ratio: float
    wins: int
    losses: int
    p: float


def standing(runs: Iterable[Run], evaluations: int) -> Standing:
    """Return levels and ranks after so many evaluations, over the problems with such runs of every optimizer.

    Raises ValueError where there is no such problem.
    """
    logs: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if len(run.values) > evaluations:
            logs.setdefault((run.optimizer, run.problem), []).append(math.log(run.values[evaluations]))
    optimizers = tuple(sorted({optimizer for optimizer, _ in logs}))
    everywhere = {problem for _, problem in logs}
    problems = tuple(sorted(p for p in everywhere if all((o, p) in logs for o in optimizers)))
    if not problems:
        raise ValueError(f"no problem was run by every optimizer for {evaluations} evaluations")
    levels = np.array([[float(np.mean(logs[o, p])) for p in problems] for o in optimizers])
    from scipy.stats import rankdata  # imported here: it takes a second

    return Standing(optimizers, problems, levels, np.apply_along_axis(rankdata, 0, levels))


def against(table: Standing, ours: str, others: Sequence[str] | None = None) -> tuple[Difference, ...]:
    """Compare ours with each other optimizer: Wilcoxon's signed-rank test over problems, adjusted by Holm's method."""
    from scipy.stats import wilcoxon

    mine = table.levels[table.optimizers.index(ours)]
    names = [name for name in (others or table.optimizers) if name != ours]
    raw: list[tuple[float, str, NDArray[np.float64]]] = []
    for name in names:
        difference = mine - table.levels[table.optimizers.index(name)]
        p = float(wilcoxon(difference).pvalue) if np.any(difference != 0) else 1.0
        raw.append((p, name, difference))
    raw.sort(key=lambda item: (item[0], item[1]))
    differences, worst = [], 0.0
    for place, (p, name, difference) in enumerate(raw):
        worst = max(worst, min(1.0, p * (len(raw) - place)))
        differences.append(
            Difference(
                name,
                math.exp(float(difference.mean())),
                int((difference < 0).sum()),
                int((difference > 0).sum()),
                worst,
            )
        )
    return tuple(differences)
