"""Measured constraints and several objectives: how configurations rank, and that those who say so learn them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from optimizer import registry
from optimizer.base import Optimizer, Scored
from optimizer.errors import InvalidObservation
from optimizer.models.surrogate import worst_for_failed
from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

SPACE = SearchSpace([Parameter(name, "real", 0.5, low=0.0, high=1.0) for name in ("a", "b", "c")])
COMPLETED = ObservationState.COMPLETED


def at(a: float, b: float = 0.5) -> Configuration:
    return SPACE.default().replace({"a": a, "b": b})


def told(
    configuration: Configuration,
    value: float,
    constraints: Mapping[str, float] | None = None,
    others: Mapping[str, float] | None = None,
) -> Observation:
    return Observation(configuration, COMPLETED, value, constraints=constraints or {}, others=others or {})


def made(name: str, budget: int = 30) -> Optimizer:
    return registry.load(name)(SPACE, seed=3, budget=budget, start=SPACE.default())


def test_what_keeps_the_limits_comes_first() -> None:
    optimizer = made("random")
    optimizer.tell(
        [
            told(at(0.1), 1.0, {"cpu": 0.5, "p99": -1.0}),
            told(at(0.2), 9.0, {"cpu": -0.1, "p99": 0.0}),
            told(at(0.3), 2.0, {"cpu": 0.1, "p99": 0.1}),
            told(at(0.4), 8.0, {"cpu": 0.3}),
            told(at(0.4), 6.0, {"cpu": -0.4}),
        ]
    )
    best, *rest = optimizer.scores()
    assert best == Scored(at(0.4), 7.0, 0.0), "the mean of its constraints keeps the limit"
    assert [observation.configuration for observation in rest] == [at(0.2), at(0.3), at(0.1)]
    assert rest[1].violation == pytest.approx(0.2)
    assert optimizer.recommend() == at(0.4)


def test_models_of_the_value_alone_see_the_worst_for_what_breaks_a_limit() -> None:
    rows = [told(at(0.1), 1.0, {"cpu": 0.5}), told(at(0.2), 9.0, {"cpu": -0.5})]
    assert [value for _, value in worst_for_failed(rows)] == [9.0, 9.0]


def test_the_pareto_set() -> None:
    optimizer = made("random")
    optimizer.tell(
        [
            told(at(0.1), 1.0, others={"cost": 5.0}),
            told(at(0.2), 2.0, others={"cost": 4.0}),
            told(at(0.3), 3.0, others={"cost": 4.5}),
            told(at(0.4), 0.5, {"cpu": 0.1}, {"cost": 1.0}),
        ]
    )
    assert optimizer.pareto() == [at(0.1), at(0.2)]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidObservation, match="finite"):
        told(at(0.1), 1.0, {"cpu": float("inf")})
    optimizer = made("random")
    optimizer.tell([told(at(0.1), 1.0, others={"cost": 1.0})])
    with pytest.raises(InvalidObservation, match="same further objectives"):
        optimizer.tell([told(at(0.2), 1.0)])


@pytest.mark.parametrize("name", ["tailor", "optuna-tpe"])
def test_a_limit_is_learnt(name: str) -> None:
    """The value falls with a, and what a costs passes its limit from 0.6 up: the best is close below."""
    optimizer = made(name)
    start = SPACE.default()
    optimizer.tell([_measured(start, ask=None)])
    for _ in range(30):
        [suggestion] = optimizer.ask()
        optimizer.tell([_measured(suggestion.configuration, suggestion.ask)])
    best = optimizer.recommend()
    assert best is not None
    assert 0.5 <= float(best["a"]) <= 0.6
    late = [
        observation for observation in optimizer.observations if observation.ask is not None and observation.ask >= 15
    ]
    assert sum(observation.keeps_limits for observation in late) >= len(late) / 2


def _measured(configuration: Configuration, ask: int | None) -> Observation:
    a, b = float(configuration["a"]), float(configuration["b"])
    value = 3.0 - 2.0 * a + (b - 0.4) ** 2
    return Observation(configuration, COMPLETED, value, ask=ask, constraints={"cpu": a / 0.6 - 1.0})


@pytest.mark.parametrize("name", ["tailor", "optuna-tpe"])
def test_the_pareto_set_is_spread_over_both_objectives(name: str) -> None:
    """Value and cost pull a to opposite ends; b has to be small for both."""
    optimizer = made(name)
    for index in range(31):
        if index == 0:
            configuration, ask = SPACE.default(), None
        else:
            [suggestion] = optimizer.ask()
            configuration, ask = suggestion.configuration, suggestion.ask
        a, b = float(configuration["a"]), float(configuration["b"])
        others = {"cost": 1.0 + a**2 + b**2}
        optimizer.tell([Observation(configuration, COMPLETED, 1.0 + (1 - a) ** 2 + b**2, ask=ask, others=others)])
    front = optimizer.pareto()
    places = [float(point["a"]) for point in front]
    assert min(places) < 0.35
    assert max(places) > 0.65
    assert min(float(point["b"]) for point in front) < 0.25
