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
    values = [(point, real.truth(point)) for point in points]
    return [Modelled(point, math.log(value / level)) for point, value in values if value is not None]


def losses(points: list[Modelled]) -> list[float]:
    """log(final value with the model / without), seed by seed."""
    losses_by_seed = []
    for seed in range(SEEDS):
        without, told = (run("tailor", problem(PROBLEM), seed, BUDGET, modelled=given) for given in ((), points))
        losses_by_seed.append(math.log(told.values[-1] / without.values[-1]))
    return losses_by_seed


def upside_down(points: list[Modelled]) -> list[Modelled]:
    """Invert the model: good configurations are said to be bad."""
    return [point._replace(log_ratio=-point.log_ratio) for point in points]


def shuffled(points: list[Modelled]) -> list[Modelled]:
    """Give the model's values to other configurations."""
    order = np.random.default_rng(1).permutation(len(points))
    return [point._replace(log_ratio=points[place].log_ratio) for point, place in zip(points, order, strict=True)]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [upside_down, shuffled])
def test_a_wrong_model_does_no_harm(wrong: Callable[[list[Modelled]], list[Modelled]]) -> None:
    lost = losses(wrong(logarithms(problem(PROBLEM))))
    bound = np.mean(lost) + stats.t.ppf(0.95, len(lost) - 1) * np.std(lost, ddof=1) / math.sqrt(len(lost))
    assert bound < WORSE, [round(loss, 3) for loss in lost]


@pytest.mark.slow
@pytest.mark.statistical
def test_a_right_model_helps() -> None:
    lost = losses(logarithms(problem(PROBLEM)))
    assert stats.wilcoxon(lost, alternative="less").pvalue < 0.05, [round(loss, 3) for loss in lost]
