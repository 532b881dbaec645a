from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.algorithms.dds import DDS, DDSGrow
from optimizer.sampling import neighbour, reflect
from optimizer.space import Configuration, LinearConstraint, Parameter, SearchSpace
from optimizer.testing.problems import mixed_space
from optimizer.trial import Observation, ObservationState

COMPLETED = ObservationState.COMPLETED


def reals(count: int) -> SearchSpace:
    return SearchSpace([Parameter(f"x{j}", "real", 0.5, low=0, high=1) for j in range(count)])


def changed(before: Configuration, after: Configuration) -> int:
    return sum(before[name] != after[name] for name in before)


def told(configuration: Configuration, value: float) -> Observation:
    return Observation(configuration, COMPLETED, value)


def test_the_selection_probability_is_that_of_the_paper() -> None:
    dds, grow = DDS(reals(2), seed=0, budget=100), DDSGrow(reals(2), seed=0, budget=100)
    # Tolson & Shoemaker 2007: P(1) = 1, P(N) = 0, and ln 10 is half of ln 100
    assert dds.selection_probability(1, 100) == 1.0
    assert dds.selection_probability(10, 100) == pytest.approx(0.5)
    assert dds.selection_probability(100, 100) == 0.0
    assert dds.selection_probability(500, 100) == 0.0
    assert dds.selection_probability(1, 1) == 1.0
    for i in (1, 3, 10, 100):
        assert grow.selection_probability(i, 100) == pytest.approx(1 - dds.selection_probability(i, 100))


def test_dds_shrinks_and_dds_grow_grows() -> None:
    space = reals(40)
    sizes = {}
    for algorithm in (DDS, DDSGrow):
        optimizer = algorithm(space, seed=1, budget=30, start=space.default())
        optimizer.tell([told(space.default(), 0.0)])
        sizes[algorithm] = [changed(suggestion.configuration, space.default()) for suggestion in optimizer.ask(30)]
    assert sizes[DDS][0] == 40
    assert sizes[DDS][-1] == 1
    assert sizes[DDSGrow][0] == 1
    assert sizes[DDSGrow][-1] == 40
    for i, (shrinking, growing) in enumerate(zip(sizes[DDS], sizes[DDSGrow], strict=True), start=1):
        expected = 40 * (1 - math.log(i) / math.log(30))
        assert abs(shrinking - expected) < 4 * math.sqrt(10)  # four deviations of a binomial of 40
        assert abs(growing - (40 - expected)) < 4 * math.sqrt(10)


def test_the_search_is_greedy_around_the_best_told() -> None:
    space = reals(40)
    optimizer = DDS(space, seed=2, budget=20, start=space.default())
    optimizer.tell([told(space.default(), 5.0)])
    first = optimizer.ask(19)[-1].configuration
    worse = space.from_unit(np.full(40, 0.9))
    optimizer.tell([told(first, 4.0), told(worse, 6.0)])
    last = optimizer.ask()[0].configuration
    assert changed(last, first) <= 3
    assert changed(last, worse) > 30


def test_a_better_value_told_later_for_the_incumbent_counts_by_its_mean() -> None:
    space = reals(30)
    a, b = space.from_unit(np.full(30, 0.1)), space.from_unit(np.full(30, 0.9))
    optimizer = DDS(space, seed=2, budget=2, start=a)
    optimizer.tell([told(a, 1.0), told(a, 5.0), told(b, 2.0)])
    near_b = optimizer.ask(2)[1].configuration
    assert changed(near_b, b) == 1


def test_a_start_design_precedes_the_search_where_no_start_is_given() -> None:
    space = reals(3)
    notes = [suggestion.note for suggestion in DDS(space, seed=0, budget=30).ask(8)]
    assert notes == ["start design"] * 8  # nothing was told, so that there is nothing to perturb
    optimizer = DDS(space, seed=0, budget=30)
    optimizer.tell([told(suggestion.configuration, 1.0) for suggestion in optimizer.ask(5)])
    assert optimizer.ask()[0].note == "perturbs 3 of 3 parameters"
    tight = DDS(space, seed=0, budget=6)
    tight.tell([told(space.default(), 1.0)])
    assert [suggestion.note == "start design" for suggestion in tight.ask(3)] == [True, True, False]


def test_a_start_that_failed_is_still_where_the_search_starts() -> None:
    space = reals(30)
    optimizer = DDSGrow(space, seed=0, budget=10, start=space.default())
    first = optimizer.ask()[0]
    assert first.note == "start"
    optimizer.tell([Observation(first.configuration, ObservationState.FAILED, ask=0)])
    assert changed(optimizer.ask()[0].configuration, space.default()) == 1


@given(st.floats(-3, 4))
def test_reflection_stays_inside(unit: float) -> None:
    assert 0.0 <= reflect(unit) <= 1.0


def test_reflection_mirrors_and_then_takes_the_bound() -> None:
    assert reflect(-0.25) == 0.25
    assert reflect(1.25) == 0.75
    assert reflect(-1.5) == 0.0
    assert reflect(2.5) == 1.0
    assert reflect(0.4) == 0.4


def test_a_perturbed_parameter_always_changes_and_choices_are_drawn_evenly() -> None:
    space = SearchSpace(
        [
            Parameter("integer", "integer", 50, low=1, high=100),
            Parameter("coarse", "integer", 1, low=1, high=2),
            Parameter("switch", "boolean", True),
            Parameter("choice", "categorical", "a", choices=("a", "b", "c")),
        ]
    )
    rng = np.random.default_rng(0)
    drawn: dict[str, list[object]] = {name: [] for name in space}
    for _ in range(2000):
        for name, parameter in space.items():
            drawn[name].append(neighbour(parameter, parameter.default, 0.2, rng))
    for name, parameter in space.items():
        assert parameter.default not in drawn[name]
    assert 900 < drawn["choice"].count("b") < 1100
    steps = np.array(drawn["integer"], dtype=float) - 50
    assert np.std(steps) == pytest.approx(20, abs=2)  # r = 0.2 of 100 values
    assert abs(float(np.mean(steps))) < 2


def test_steps_on_a_log_scale_are_factors() -> None:
    parameter = Parameter("p", "real", 10.0, low=0.1, high=1000.0, scale="log")
    rng = np.random.default_rng(0)
    steps = [math.log10(float(neighbour(parameter, 10.0, 0.2, rng))) - 1 for _ in range(2000)]
    assert np.std(steps) == pytest.approx(0.2 * 4, rel=0.1)


def test_constraints_hold_where_the_incumbent_touches_them() -> None:
    space = SearchSpace(
        [Parameter(f"x{j}", "real", 0.25, low=0, high=1) for j in range(4)],
        [LinearConstraint({f"x{j}": 1 for j in range(4)}, 1.0)],
    )
    optimizer = DDS(space, seed=0, budget=50, start=space.default())
    optimizer.tell([told(space.default(), 0.0)])
    assert all(space.is_feasible(suggestion.configuration) for suggestion in optimizer.ask(50))


def test_mixed_spaces_give_many_different_suggestions() -> None:
    space = mixed_space()
    optimizer = DDSGrow(space, seed=3, budget=100, start=space.default())
    optimizer.tell([told(space.default(), 1.0)])
    assert len({suggestion.configuration for suggestion in optimizer.ask(100)}) == 100
