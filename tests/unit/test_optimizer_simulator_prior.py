"""A simulator's prior: followed where measurements agree, dropped where they contradict it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.algorithms.dds import DDS
from optimizer.algorithms.tailor import Tailor
from optimizer.errors import InvalidInput
from optimizer.models.simulator_prior import Modelled, SimulatorPrior, fitted_rho
from optimizer.sampling import latin_hypercube
from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

SPACE = SearchSpace(
    [Parameter(f"s{i // 4}.x{i}", "real", 0.5, low=0.0, high=1.0, group=f"s{i // 4}") for i in range(12)]
)


def truth(configuration: Configuration) -> float:
    """The logarithm of the latency: four parameters matter."""
    return sum(weight * (float(configuration[f"s0.x{i}"]) - 0.9) ** 2 for i, weight in enumerate((1.0, 0.8, 0.6, 0.4)))


def modelled(sign: float = 1.0, count: int = 120) -> list[Modelled]:
    level = truth(SPACE.default())
    points = latin_hypercube(SPACE, count, np.random.default_rng(3))
    return [Modelled(point, sign * (truth(point) - level)) for point in points]


def test_a_belief_answers_between_its_points() -> None:
    belief = SimulatorPrior(SPACE, modelled())
    fresh = latin_hypercube(SPACE, 50, np.random.default_rng(9))
    encoder = belief._encoder
    said = belief.at(encoder.encode(encoder.units(fresh)))
    true = np.array([truth(point) - truth(SPACE.default()) for point in fresh])
    assert np.corrcoef(said, true)[0, 1] > 0.9
    [first, *_] = belief.best(3)
    assert first == min(modelled(), key=lambda point: point.log_ratio).configuration
    with pytest.raises(InvalidInput, match="at least 2"):
        SimulatorPrior(SPACE, modelled()[:1])
    with pytest.raises(InvalidInput, match="finite"):
        SimulatorPrior(SPACE, [*modelled()[:2], Modelled(SPACE.default(), math.inf)])


def test_trust_follows_the_measurements() -> None:
    rng = np.random.default_rng(5)
    belief = rng.standard_normal(12)
    assert fitted_rho(belief, belief + 0.05 * rng.standard_normal(12)) == pytest.approx(1.0, abs=0.1)
    assert fitted_rho(belief, 0.4 * belief) == pytest.approx(0.4, abs=0.1)
    assert fitted_rho(belief, -belief) == 0.0
    assert fitted_rho(belief[:1], belief[:1]) == 1.0, "nothing is known yet"
    assert fitted_rho(np.zeros(5), rng.standard_normal(5)) == 1.0


def searched(points: list[Modelled], seed: int, budget: int = 8) -> float:
    optimizer = Tailor(SPACE, seed=seed, budget=budget, modelled=points)
    optimizer.tell([Observation(SPACE.default(), ObservationState.COMPLETED, math.exp(truth(SPACE.default())))])
    for _ in range(budget):
        [suggestion] = optimizer.ask()
        value = math.exp(truth(suggestion.configuration))
        optimizer.tell([Observation(suggestion.configuration, ObservationState.COMPLETED, value, ask=suggestion.ask)])
    best = optimizer.best()
    assert best is not None
    return math.log(best.value)


def test_a_right_model_saves_trials() -> None:
    without = np.mean([searched([], seed) for seed in range(4)])
    right = np.mean([searched(modelled(), seed) for seed in range(4)])
    assert right < 0.5 * without


def test_the_same_points_the_same_suggestions() -> None:
    first, again = (Tailor(SPACE, seed=4, budget=6, modelled=points) for points in (modelled(), modelled()[::-1]))
    assert [suggestion.configuration for suggestion in first.ask(2)] == [
        suggestion.configuration for suggestion in again.ask(2)
    ]


def test_an_algorithm_without_a_model_refuses_it() -> None:
    with pytest.raises(InvalidInput, match="does not learn from a model"):
        DDS(SPACE, seed=1, budget=5, modelled=modelled())
