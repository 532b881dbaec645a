"""A wrong model of the application must not end a study worse than none: 20 seeds, one-sided 95 % bound of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from optimizer.benchmark.lists import problem
from optimizer.benchmark.problem import Problem
from optimizer.benchmark.race import run
from optimizer.models.simulator_prior import Modelled
from optimizer.sampling import latin_hypercube

SEEDS = 20
BUDGET = 15
WORSE = math.log(1.05)
PROBLEM = "microservices 2 8 fan-out 20"


def logarithms(real: Problem, count: int = 150) -> list[Modelled]:
    level = real.truth(real.space.default())
    assert level is not None
    points = latin_hypercube(real.space, count, np.random.default_rng(7))
    values = [(one, real.truth(one)) for one in points]
    return [Modelled(one, math.log(value / level)) for one, value in values if value is not None]


def losses(points: list[Modelled]) -> list[float]:
    """log(final value with the model / without), seed by seed."""
    found = []
    for seed in range(SEEDS):
        without, told = (run("tailor", problem(PROBLEM), seed, BUDGET, modelled=given) for given in ((), points))
        found.append(math.log(told.values[-1] / without.values[-1]))
    return found


def upside_down(points: list[Modelled]) -> list[Modelled]:
    """What is good is said to be bad: worse than nothing."""
    return [one._replace(log_ratio=-one.log_ratio) for one in points]


def shuffled(points: list[Modelled]) -> list[Modelled]:
    """Said of other configurations."""
    order = np.random.default_rng(1).permutation(len(points))
    return [one._replace(log_ratio=points[place].log_ratio) for one, place in zip(points, order, strict=True)]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [upside_down, shuffled])
def test_a_wrong_model_does_no_harm(wrong: Callable[[list[Modelled]], list[Modelled]]) -> None:
    found = losses(wrong(logarithms(problem(PROBLEM))))
    bound = np.mean(found) + stats.t.ppf(0.95, len(found) - 1) * np.std(found, ddof=1) / math.sqrt(len(found))
    assert bound < WORSE, [round(one, 3) for one in found]


@pytest.mark.slow
@pytest.mark.statistical
def test_a_right_model_helps() -> None:
    found = losses(logarithms(problem(PROBLEM)))
    assert stats.wilcoxon(found, alternative="less").pvalue < 0.05, [round(one, 3) for one in found]
