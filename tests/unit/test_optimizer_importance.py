"""Which parameters mattered: the forest and the screening design find what was put in, and say so when they cannot."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from optimizer.algorithms.dds import DDS
from optimizer.algorithms.morris import STEP, Morris
from optimizer.analysis.importance import effects, permutation
from optimizer.errors import SearchExhausted
from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState


def space() -> SearchSpace:
    """Three groups of two; only b.x and, less, c.kind matter below."""
    return SearchSpace(
        [
            Parameter(f"{group}.{name}", "real", 0.5, low=0, high=1, group=group)
            for group in ("a", "b", "c")
            for name in ("x", "y")
        ]
        + [Parameter("c.kind", "categorical", "u", choices=("u", "v", "w"), group="c")]
    )


def value(configuration: Configuration) -> float:
    x = configuration["b.x"]
    assert isinstance(x, float)
    return 10 + 10 * x + (3 if configuration["c.kind"] == "w" else 0)


def test_a_forest_finds_what_matters() -> None:
    rng = np.random.default_rng(1)
    drawn = [space().from_unit(rng.random(7)) for _ in range(60)]
    importance = permutation(
        space(), [(point, value(point) * math.exp(0.02 * rng.standard_normal())) for point in drawn]
    )
    assert importance is not None
    assert importance.explained > 0.5
    assert [parameter.name for parameter in importance.parameters[:2]] == ["b.x", "c.kind"]
    assert [group.name for group in importance.groups[:2]] == ["b", "c"]
    assert importance.parameters[0].low > 0
    assert all(
        estimate.low <= estimate.value <= estimate.high for estimate in (*importance.parameters, *importance.groups)
    )
    assert permutation(space(), [(point, 1.0) for point in drawn]) is None
    assert permutation(space(), [(point, value(point)) for point in drawn[:7]]) is None


def test_a_forest_on_noise_says_that_it_explains_nothing() -> None:
    rng = np.random.default_rng(2)
    drawn = [space().from_unit(rng.random(7)) for _ in range(40)]
    importance = permutation(space(), [(point, float(rng.random()) + 1) for point in drawn])
    assert importance is not None
    assert importance.explained < 0.2


def test_a_screening_moves_one_group_at_a_time() -> None:
    optimizer = Morris(space(), seed=3, budget=8, start=space().default())
    optimizer.tell([Observation(space().default(), ObservationState.COMPLETED, 1.0)])
    points = [space().default(), *(suggestion.configuration for suggestion in optimizer.ask(100))]
    with pytest.raises(SearchExhausted):
        optimizer.ask()
    assert len(points) == 8, "two trajectories of four, the first from the default"
    for trajectory in (points[:4], points[4:]):
        moved: list[str] = []
        for before, after in itertools.pairwise(trajectory):
            groups = {space()[name].group for name in before if before[name] != after[name]}
            assert len(groups) == 1
            moved += groups
            units = space().to_unit(after) - space().to_unit(before)
            ordered = [
                j for j, parameter in enumerate(space().parameters) if parameter.ordered and parameter.group in groups
            ]
            assert all(abs(units[j]) == pytest.approx(min(STEP, 0.5)) or abs(units[j]) == pytest.approx(STEP)
                       for j in ordered)  # fmt: skip
        assert sorted(moved) == ["a", "b", "c"]


def test_effects_are_those_of_the_group_that_moved() -> None:
    optimizer = Morris(space(), seed=5, budget=20)
    results = []
    for _ in range(20):
        [suggestion] = optimizer.ask()
        results.append((suggestion.configuration, value(suggestion.configuration)))
    moved = {effect.name: effect for effect in effects(space(), results)}
    assert moved["a"].value == 0.0
    assert moved["b"].value > moved["c"].value
    assert moved["b"].count == 5
    assert moved["b"].low <= moved["b"].value <= moved["b"].high
    # A trial without a value takes both of its steps with it.
    assert sum(effect.count for effect in effects(space(), results[:1] + results[2:])) == 15 - 2


def test_priors_steer_dds() -> None:
    chosen = {"a": 0, "b": 0, "c": 0}
    for seed in range(40):
        optimizer = DDS(space(), seed=seed, budget=30, start=space().default())
        priors = {"a": 0.05, "b": 1.0, "c": 0.05}
        optimizer.tell([Observation(space().default(), ObservationState.COMPLETED, 1.0, priors=priors)])
        for suggestion in optimizer.ask(29)[10:]:
            for name, setting in suggestion.configuration.items():
                chosen[space()[name].group] += setting != space().default()[name]
    assert chosen["b"] > 3 * max(chosen["a"], chosen["c"])
    assert min(chosen.values()) > 0


def test_priors_come_with_the_best_configuration() -> None:
    optimizer = DDS(space(), seed=1, budget=30, start=space().default())
    assert optimizer.priors() is None
    better = space().from_unit(np.full(7, 0.3))
    optimizer.tell([Observation(space().default(), ObservationState.COMPLETED, 2.0, priors={"a": 1.0, "b": 0.5})])
    weights = optimizer.priors()
    assert weights is not None
    assert weights.mean() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(2 * weights[2])
    assert weights[4] == pytest.approx(1.0), "no weight was told for this group"
    optimizer.tell([Observation(better, ObservationState.COMPLETED, 1.0, priors={"a": 0.5, "b": 1.0, "c": 0.5})])
    weights = optimizer.priors()
    assert weights is not None
    assert weights[2] == pytest.approx(2 * weights[0])
    worse = space().from_unit(np.full(7, 0.9))
    optimizer.tell([Observation(worse, ObservationState.COMPLETED, 9.0, priors={"c": 1.0})])
    assert optimizer.priors() == pytest.approx(weights)


def test_tied_parameters_are_shuffled_as_one() -> None:
    """Each of eight services has a small part in the effect of their threads, which is all there is."""
    parameters = [
        Parameter(f"s{n}.{name}", "real", 0.5, low=0.0, high=1.0, group=f"s{n}")
        for n in range(8)
        for name in ("threads", "heap")
    ]
    space = SearchSpace([*parameters, Parameter("s0.alone", "boolean", False, group="s0")])
    rng = np.random.default_rng(4)
    points = [space.from_unit(rng.random(len(space))) for _ in range(80)]
    values = [math.exp(sum(float(point[f"s{n}.threads"]) for n in range(8))) for point in points]
    explained = permutation(space, list(zip(points, values, strict=True)))
    assert explained is not None
    threads, heap = explained.tied
    assert (threads.name, heap.name) == ("threads (8)", "heap (8)")
    assert threads.low > heap.high
    assert threads.value > 2 * explained.parameters[0].value
