"""The behaviour of each algorithm that the conformance kit cannot know."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from optimizer.algorithms.bayesian import BayesianGBRT, BayesianGP, BayesianRF
from optimizer.algorithms.genetic import Genetic
from optimizer.algorithms.hyperopt import TPE, Annealing
from optimizer.algorithms.latin import LatinHypercube
from optimizer.algorithms.nevergrad import ParticleSwarm
from optimizer.algorithms.optuna import OptunaTPE
from optimizer.algorithms.serial import Serial
from optimizer.algorithms.tailor import Tailor
from optimizer.base import Optimizer
from optimizer.errors import InvalidInput
from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.testing.problems import mixed_space, value_of
from optimizer.trial import Observation, ObservationState, Suggestion

COMPLETED = ObservationState.COMPLETED
LINE = SearchSpace([Parameter("x", "real", 0.5, low=0, high=1), Parameter("y", "real", 0.5, low=0, high=1)])


def bowl(configuration: Configuration) -> float:
    return (float(configuration["x"]) - 0.7) ** 2 + 0.2 * (float(configuration["y"]) - 0.2) ** 2


def conversation(optimizer: Optimizer, value: Callable[[Configuration], float]) -> Iterator[Suggestion]:
    while True:
        [suggestion] = optimizer.ask()
        yield suggestion
        optimizer.tell(
            [Observation(suggestion.configuration, COMPLETED, value(suggestion.configuration), 1e-4, suggestion.ask)]
        )


CONVERGES = [(Genetic, 0.5), (ParticleSwarm, 0.5), (Annealing, 0.5), (TPE, 0.5), (BayesianGP, 0.2), (BayesianGBRT, 0.9),
             (BayesianRF, 0.9), (Tailor, 0.2)]  # fmt: skip


@pytest.mark.parametrize(("kind", "factor"), CONVERGES)
def test_late_suggestions_are_better_than_early_ones(kind: type[Optimizer], factor: float) -> None:
    """Trees model a smooth bowl badly."""
    optimizer = kind(LINE, seed=3, budget=40)
    values = [bowl(suggestion.configuration) for suggestion in islice(conversation(optimizer, bowl), 40)]
    assert statistics.median(values[-10:]) < factor * statistics.median(values[:10])


@pytest.mark.parametrize("acquisition", ["ei", "pi", "lcb"])
def test_acquisition_functions_differ_and_work(acquisition: str) -> None:
    optimizer = BayesianGP(LINE, seed=0, budget=18, acquisition=acquisition)
    made = list(islice(conversation(optimizer, bowl), 18))
    assert min(bowl(suggestion.configuration) for suggestion in made) < 0.01
    assert {"ei": "expected", "pi": "probability", "lcb": "bound"}[acquisition] in made[-1].note


def test_a_latin_hypercube_meets_every_stratum_once() -> None:
    made = LatinHypercube(LINE, seed=0, budget=10).ask(10)
    for name in ("x", "y"):
        assert sorted(int(10 * float(suggestion.configuration[name])) for suggestion in made) == list(range(10))


def test_children_are_made_of_their_parents() -> None:
    """Without mutation's steps a child of two parents has the values of one or the other, one parameter aside."""
    space = SearchSpace([Parameter(f"p{j}", "real", 0.5, low=0, high=1) for j in range(30)])
    optimizer = Genetic(space, seed=0, budget=8, crossover=1.0)
    parents = [
        suggestion.configuration
        for suggestion in islice(conversation(optimizer, lambda configuration: float(configuration["p0"])), 3)
    ][:2]
    child = optimizer.ask()[0]
    assert "two parents" in child.note
    inherited = [name for name in space.names if child.configuration[name] in {parent[name] for parent in parents}]
    assert 24 <= len(inherited) < 30


@pytest.mark.parametrize(("direction", "first"), [("forward", "web"), ("reverse", "db")])
def test_serial_tunes_one_service_at_a_time(direction: str, first: str) -> None:
    space = mixed_space()
    default = space.default()
    optimizer = Serial(space, seed=1, budget=15, start=default, inner="random", direction=direction)
    optimizer.tell([Observation(default, COMPLETED, value_of(space, default))])
    best = default
    groups: list[str] = []
    for number, suggestion in enumerate(
        islice(conversation(optimizer, lambda configuration: value_of(space, configuration)), 15)
    ):
        if number % 5 == 0:
            context = best
        changed = {space[name].group for name in space.names if suggestion.configuration[name] != context[name]}
        assert len(changed) == 1, "only the parameters of one service differ from the best so far"
        groups += changed
        best = min(best, suggestion.configuration, key=lambda configuration: value_of(space, configuration))
    assert groups[0] == first
    assert groups == [group for group in dict.fromkeys(groups) for _ in range(5)]


def test_serial_goes_along_the_path_where_it_is_known() -> None:
    space = SearchSpace(
        [
            Parameter(f"{group}.x", "real", 0.5, low=0, high=1, group=group, attributes={"path_order": place})
            for group, place in (("store", 3.0), ("front", 1.0), ("logic", 2.0))
        ]
    )
    optimizer = Serial(space, seed=1, budget=3, start=space.default(), inner="random")
    optimizer.tell([Observation(space.default(), COMPLETED, 1.0)])
    notes = [suggestion.note for suggestion in islice(conversation(optimizer, lambda configuration: 2.0), 3)]
    assert [note.rpartition(" ")[2] for note in notes] == ["front", "logic", "store"]


def test_a_library_that_is_slow_with_wide_integers_sees_real_numbers() -> None:
    class Narrow(OptunaTPE):
        widest_grid = 16

    space = SearchSpace(
        [
            Parameter("few", "integer", 4, low=1, high=16),
            Parameter("many", "integer", 512, low=16, high=65536, scale="log"),
        ]
    )
    search = Narrow(space, seed=1, budget=6)
    assert [search.in_cells(parameter) for parameter in space.parameters] == [False, True]
    kinds = [type(distribution).__name__ for distribution in search._distributions.values()]
    assert kinds == ["IntDistribution", "FloatDistribution"]
    many = space.parameters[1]
    assert [search.to_value(many, search.to_drawn(many, value)) for value in (16, 513, 65536)] == [16, 513, 65536]
    for suggestion in islice(conversation(search, lambda configuration: float(configuration["many"])), 6):
        assert isinstance(suggestion.configuration["many"], int)


def test_a_latin_hypercube_draws_its_design_as_a_whole_and_so_of_a_bounded_size() -> None:
    wide = SearchSpace(Parameter(f"p{number}", "real", 0.5, low=0.0, high=1.0) for number in range(2_000))
    with pytest.raises(InvalidInput, match=r"1001 points of 2000 parameters; allowed: at most 2,000,000 values"):
        LatinHypercube(wide, seed=1, budget=1_001)
    [first] = LatinHypercube(wide, seed=1, budget=1_000).ask()
    assert len(first.configuration) == 2_000
