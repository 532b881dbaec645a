"""Placement solvers: the exact one against all placements there are, the knapsack against all loads."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from optimizer import registry
from optimizer.algorithms.knapsack import best_load
from optimizer.algorithms.placement_exact import solve
from optimizer.benchmark.placements import least_cost, random_placement
from optimizer.errors import InvalidInput, SearchExhausted
from optimizer.placement.assignment import CALLS, COST, ONLY, PRESSURE, REMOTE, SENSITIVITY, assignment_of
from optimizer.space import Capacity, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

ALGORITHMS = ("knapsack", "placement-exact", "placement-cpsat", "placement-spread", "placement-latency")


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), services=st.integers(2, 7), domains=st.integers(1, 3), pinned=st.booleans())
def test_no_placement_is_better_than_the_exact_one(seed: int, services: int, domains: int, pinned: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = assignment_of(random_placement(rng, services, domains, room=rng.uniform(1.0, 2.0), pinned=pinned))
    best, places = least_cost(problem), solve(problem)
    if places is None:
        assert best == np.inf
        return
    assert problem.fits(places)
    assert problem.cost(places) == pytest.approx(best, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_domains_of_different_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    small = assignment_of(random_placement(rng, 6, 3))
    bounds = small.limits[0].bounds * np.array([1.0, 0.6, 1.7])
    problem = replace(small, limits=(replace(small.limits[0], bounds=bounds),))
    places, best = solve(problem), least_cost(problem)
    assert (places is None) == (best == np.inf)
    if places is not None:
        assert problem.cost(places) == pytest.approx(best, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), domains=st.integers(1, 3))
def test_what_calls_between_domains_cost(seed: int, domains: int) -> None:
    rng = np.random.default_rng(seed)
    small = assignment_of(random_placement(rng, 6, domains, room=rng.uniform(1.0, 2.0)))
    one_way = np.triu(rng.uniform(0.0, 2.0, (6, 6)), 1)
    problem = replace(small, remote=one_way + one_way.T, alone=rng.uniform(0.0, 1.0, (6, domains)))
    places, best = solve(problem), least_cost(problem)
    assert (places is None) == (best == np.inf)
    if places is not None:
        assert problem.cost(places) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("name", ["placement-exact", "placement-cpsat"])
def test_services_that_call_each_other_come_together_unless_they_harm_each_other_more(name: str) -> None:
    def space(remote: float, to_database: float) -> SearchSpace:
        attributes = {
            "front": {f"{REMOTE}logic": remote, f"{SENSITIVITY}l3": 1.0},
            "logic": {f"{PRESSURE}l3": 0.5, f"{COST}left": to_database},
        }
        return SearchSpace(
            Parameter(
                f"{service}.host", "categorical", "left", choices=("left", "right"), group=service, attributes=own
            )
            for service, own in attributes.items()
        )

    def asked(remote: float, to_database: float) -> tuple[str, str]:
        [suggestion] = registry.load(name)(space(remote, to_database), seed=1).ask()
        return tuple(str(suggestion.configuration[f"{service}.host"]) for service in ("front", "logic"))  # type: ignore[return-value]

    assert len(set(asked(0.6, 0.0))) == 1, "the calls cost more than the interference"
    assert len(set(asked(0.4, 0.0))) == 2
    assert asked(0.6, 0.1) == ("right", "right"), "where its database is"
    assert asked(0.4, 0.1) == ("left", "right")


@settings(max_examples=400)
@given(
    items=st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=9),
    capacity=st.floats(0, 30),
)
def test_no_load_is_worth_more_than_the_knapsacks(items: list[tuple[float, float]], capacity: float) -> None:
    weights, values = (np.array([item[k] for item in items]) for k in (0, 1))
    slack = capacity + 1e-9 * max(1.0, capacity)

    def worth(chosen: NDArray[np.int64]) -> float:
        return float(values[chosen].sum())

    loads = (
        np.array(load, dtype=np.int64)
        for n in range(len(items) + 1)
        for load in itertools.combinations(range(len(items)), n)
    )
    best = max(worth(load) for load in loads if weights[load].sum() <= slack)
    load = best_load(weights, values, capacity)
    assert weights[load].sum() <= slack * (1 + 1e-12)
    assert worth(load) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_suggests_once_what_fits_and_the_same_again(name: str) -> None:
    space = random_placement(np.random.default_rng(3), 10, 2, room=1.6)
    first, second = (registry.load(name)(space, seed=5) for _ in range(2))
    [suggestion] = first.ask()
    assert space.is_feasible(suggestion.configuration)
    assert second.ask()[0] == suggestion
    assert suggestion.note
    with pytest.raises(SearchExhausted):
        first.ask()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_placement_is_recommended_even_where_one_trial_of_the_start_was_lower(name: str) -> None:
    """The verdict compares the recommended placement with the start, in fresh runs."""
    space = random_placement(np.random.default_rng(3), 10, 2, room=1.6)
    solver = registry.load(name)(space, seed=5)
    assert solver.recommend() is None
    solver.tell([Observation(space.default(), ObservationState.COMPLETED, 10.0)])
    assert solver.recommend() == space.default()
    [suggestion] = solver.ask()
    solver.tell([Observation(suggestion.configuration, ObservationState.COMPLETED, 11.0, ask=suggestion.ask)])
    assert solver.recommend() == suggestion.configuration


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_space_that_is_no_placement_is_refused(name: str) -> None:
    space = SearchSpace([Parameter("workers", "integer", 1, low=1, high=8)])
    with pytest.raises(InvalidInput, match="placement needs categorical"):
        registry.load(name)(space, seed=1).ask()


@pytest.mark.parametrize("seed", range(6))
def test_constraint_programming_finds_the_optimum_and_says_so(seed: int) -> None:
    space = random_placement(np.random.default_rng(seed), 9, 3, pinned=seed % 2 == 0)
    problem = assignment_of(space)
    exact = solve(problem)
    try:
        [suggestion] = registry.load("placement-cpsat")(space, seed=1).ask()
    except SearchExhausted:
        assert exact is None
        return
    assert exact is not None
    places = problem.places(suggestion.configuration)
    assert problem.fits(places)
    assert "proved" in suggestion.note
    assert problem.cost(places) == pytest.approx(problem.cost(exact), abs=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_constraint_programming_is_never_worse_than_the_knapsack(seed: int) -> None:
    """Also where a service fills its domain to the last bit, as in some of these."""
    space = random_placement(np.random.default_rng(seed), 4 if seed % 2 else 9, 4, room=1.0)
    problem = assignment_of(space)
    [known] = registry.load("knapsack")(space, seed=1).ask()
    [suggestion] = registry.load("placement-cpsat")(space, seed=1, seconds=0.2).ask()
    cost, bound = (problem.cost(problem.places(placed.configuration)) for placed in (suggestion, known))
    assert cost <= bound + 1e-9


def test_calls_draw_chatty_services_together() -> None:
    places = ("a.0", "a.1", "b.0")
    attributes = {PRESSURE + "core": 1.0, SENSITIVITY + "core": 1.0}
    space = SearchSpace(
        [
            Parameter("front", "categorical", "b.0", choices=places, attributes={**attributes, CALLS + "search": 10.0}),
            Parameter("search", "categorical", "a.0", choices=places, attributes=attributes),
            Parameter("stranger", "categorical", "a.1", choices=places, attributes={**attributes, ONLY + "b.0": 1.0}),
        ]
    )
    [apart] = registry.load("placement-cpsat")(space, seed=1, call_cost=1.0).ask()
    at = apart.configuration
    assert {str(at["front"])[0], str(at["search"])[0]} == {"a"}, "one host"
    assert at["front"] != at["search"], "two domains"


def test_the_knapsack_is_the_thesis_one() -> None:
    """Weights 3, 2, 2 and values 4, 3, 3 in four cores: the two smaller ones are worth more than the large one."""
    need, score = {"large": 3.0, "b": 2.0, "c": 2.0}, {"large": 4.0, "b": 3.0, "c": 3.0}
    parameters = [
        Parameter(name, "categorical", "node2", choices=("node1", "node2"), attributes={"score": score[name]})
        for name in need
    ]
    space = SearchSpace(parameters, [Capacity(need, "node1", 4.0, "cpu")])
    [suggestion] = registry.load("knapsack")(space, seed=1).ask()
    assert suggestion.configuration.to_dict() == {"large": "node2", "b": "node1", "c": "node1"}


def test_nineteen_services_on_four_domains_have_a_proved_optimum() -> None:
    space = random_placement(np.random.default_rng(1), 19, 4)
    [suggestion] = registry.load("placement-exact")(space, seed=1).ask()
    problem = assignment_of(space)
    best = problem.cost(problem.places(suggestion.configuration))
    rng = np.random.default_rng(2)
    for _ in range(2_000):
        places = rng.integers(0, 4, 19)
        assert not problem.fits(places) or problem.cost(places) >= best
    with pytest.raises(InvalidInput, match="placement-cpsat"):
        registry.load("placement-exact")(random_placement(rng, 21, 2), seed=1).ask()


def test_capacities_come_back_from_their_dictionary() -> None:
    space = random_placement(np.random.default_rng(1), 4, 2)
    assert SearchSpace.from_dict(space.to_dict()) == space
    fixed = space.subset(["s0", "s1"])
    left = [constraint for constraint in fixed.constraints if isinstance(constraint, Capacity)]
    assert [constraint.bound for constraint in left] == pytest.approx(
        [constraint.bound - sum(w for n, w in constraint.weights.items()
                                if n in ("s2", "s3") and space[n].default == constraint.place)
         for constraint in space.constraints if isinstance(constraint, Capacity)]
    )  # fmt: skip
