"""Wilcoxon's exact signed-rank distribution: the basis of every statement about pairs.

It is written here because scipy does not publish the distribution of its test, and the interval needs it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray


def distribution(ranks: ArrayLike) -> NDArray[np.float64]:
    """Return P(2 T = t), t = 0, 1, ...: T is the sum of the ranks with a positive sign, each with probability 1/2.

    ``ranks``: shape (n,), whole or half (mid-ranks of ties), which is why the result counts in halves.
    """
    steps = np.rint(2 * np.asarray(ranks, dtype=np.float64)).astype(np.int64)
    mass = np.zeros(int(steps.sum()) + 1)
    mass[0] = 1.0
    for step in steps:
        mass[step:] = mass[step:] / 2 + mass[: len(mass) - step] / 2
        mass[:step] /= 2
    return mass


def p_value(differences: ArrayLike) -> float:
    """Return the two-sided exact p of Wilcoxon's signed-rank test, given the ties; zero differences are left out.

    ``differences``: shape (n,), finite.  1 when nothing is left.
    """
    from scipy import stats  # here: the import takes half a second, and most commands do not need it

    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if not len(values):
        return 1.0
    ranks = stats.rankdata(np.abs(values))
    mass = distribution(ranks)
    positive = round(2 * float(ranks[values > 0].sum()))
    lower, upper = float(mass[: positive + 1].sum()), float(mass[positive:].sum())
    return min(1.0, 2 * min(lower, upper))


@cache
def critical_rank(pairs: int, tail: float) -> tuple[int, float]:
    """Return the largest k with P(T <= k - 1) <= ``tail`` for ``pairs`` pairs without ties, and that probability.

    The k-th smallest and the k-th largest Walsh average bound the median; k = 0 when there are too few pairs.
    """
    whole = np.cumsum(distribution(np.arange(1, pairs + 1))[::2])
    # The tolerance is for rounding: 1/32 + 1/32 + ... is summed in binary.
    k = int(np.searchsorted(whole, tail + 1e-12, side="right"))
    return k, float(whole[k - 1]) if k else 0.0


def walsh_averages(differences: ArrayLike) -> NDArray[np.float64]:
    """Return the n (n + 1) / 2 averages of every two differences, each with itself too, ascending."""
    values = np.asarray(differences, dtype=np.float64)
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)
