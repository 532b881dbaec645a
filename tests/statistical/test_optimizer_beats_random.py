"""Each algorithm that learns beats random search where it should: a smooth, noisy function and few evaluations.

The function is a bowl in ten dimensions whose axes matter less and less (0.7 to the power of their number), with its
bottom drawn per seed from the middle of the range; the noise is a tenth of what the default loses to the bottom.
All start at the default, at budget 30.  What counts is the true value of the configuration with the best told value.
Seeds are fixed and shared, so that the differences are paired; alpha is 0.01 per algorithm, one-sided.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.stats import wilcoxon

from optimizer.algorithms.bayesian import BayesianGP
from optimizer.algorithms.dds import DDS, DDSGrow
from optimizer.algorithms.random import Random
from optimizer.base import Optimizer
from optimizer.space import Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

ALPHA = 0.01
BUDGET = 30
DIMENSIONS = 10
NOISE = 0.05
WEIGHTS = 0.7 ** np.arange(DIMENSIONS)
WEIGHTS = WEIGHTS * DIMENSIONS / WEIGHTS.sum()
SPACE = SearchSpace([Parameter(f"x{j}", "real", 0.5, low=0, high=1) for j in range(DIMENSIONS)])


@functools.cache
def outcome(algorithm: type[Optimizer], seed: int) -> float:
    optimizer = algorithm(SPACE, seed=seed, budget=BUDGET, start=SPACE.default())
    rng = np.random.default_rng(1000 + seed)
    bottom, noise = rng.uniform(0.2, 0.8, DIMENSIONS), rng.normal(0.0, NOISE, BUDGET)
    results = []
    for error in noise:
        (suggestion,) = optimizer.ask()
        true = float(WEIGHTS @ (SPACE.to_unit(suggestion.configuration) - bottom) ** 2)
        results.append((true + float(error), true))
        told = Observation(suggestion.configuration, ObservationState.COMPLETED, results[-1][0], ask=suggestion.ask)
        optimizer.tell([told])
    return min(results)[1]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("algorithm", "seeds"),
    [(DDS, 30), (DDSGrow, 30), (BayesianGP, 15)],  # a model costs a hundred times what a perturbation costs
    ids=["dds", "dds-grow", "bo-gp"],
)
def test_it_beats_random_search(algorithm: type[Optimizer], seeds: int) -> None:
    ours = np.array([outcome(algorithm, seed) for seed in range(seeds)])
    random = np.array([outcome(Random, seed) for seed in range(seeds)])
    assert wilcoxon(ours, random, alternative="less").pvalue < ALPHA
