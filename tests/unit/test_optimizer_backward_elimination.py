"""Parts of a recommendation that do not matter go back to their defaults; those that do stay."""

from __future__ import annotations

import math

import numpy as np

from optimizer.analysis.backward_elimination import smaller
from optimizer.space import Configuration, LinearConstraint, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

GROUPS = ("web", "cache", "db", "queue", "mail", "search")
SPACE = SearchSpace(
    [Parameter(f"{group}.{name}", "real", 0.0, low=0.0, high=1.0, group=group) for group in GROUPS for name in "ab"]
)


def value(configuration: Configuration) -> float:
    """Only cache.a and db.b matter."""
    return 10.0 * math.exp(-0.6 * float(configuration["cache.a"]) - 0.4 * float(configuration["db.b"]))


def told(space: SearchSpace, count: int, noise: float) -> list[Observation]:
    rng = np.random.default_rng(5)
    points = [space.default(), *(space.from_unit(rng.random(len(space))) for _ in range(count))]
    errors = np.exp(noise * rng.standard_normal(len(points)))
    return [
        Observation(point, ObservationState.COMPLETED, value(point) * float(error), value(point) * noise)
        for point, error in zip(points, errors, strict=True)
    ]


def full(space: SearchSpace = SPACE) -> Configuration:
    return space.from_unit(np.full(len(space), 0.9))


def test_what_does_not_matter_goes_back() -> None:
    candidates = smaller(SPACE, told(SPACE, 40, 0.03), full())
    assert 1 <= len(candidates) <= 3
    smallest = candidates[0]
    assert {"cache", "db"}.isdisjoint(smallest.back)
    assert len(smallest.back) >= 3
    for candidate in candidates:
        default = SPACE.default()
        for parameter in SPACE.parameters:
            expected = default if parameter.group in candidate.back else full()
            assert candidate.configuration[parameter.name] == expected[parameter.name]
    sizes = [len(candidate.back) for candidate in candidates]
    assert sizes == sorted(sizes, reverse=True)
    assert smaller(SPACE, told(SPACE, 40, 0.03), full(), most=1) == candidates[:1]


def test_with_one_group_single_parameters_go_back() -> None:
    space = SPACE.subset(["cache.a", "cache.b"])

    def here(configuration: Configuration) -> float:
        return 10.0 * math.exp(-0.6 * float(configuration["cache.a"]))

    rng = np.random.default_rng(5)
    points = [space.from_unit(rng.random(2)) for _ in range(20)]
    rows = [Observation(point, ObservationState.COMPLETED, here(point), 0.01) for point in points]
    assert [candidate.back for candidate in smaller(space, rows, full(space))] == [("cache.b",)]


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert smaller(SPACE, told(SPACE, 3, 0.03), full()) == []
    assert smaller(SPACE, told(SPACE, 40, 0.03), SPACE.default().replace({"cache.a": 0.5})) == []
    failed = [Observation(full(), ObservationState.FAILED)]
    assert smaller(SPACE, failed, full()) == []
    negative = [Observation(observation.configuration, observation.state, -1.0) for observation in told(SPACE, 10, 0.0)]
    assert smaller(SPACE, negative, full()) == []


def test_candidates_keep_the_constraints() -> None:
    """mail.a can only go back together with queue.a: without the one, the other breaks the constraint."""
    constraint = LinearConstraint({"queue.a": 1.0, "mail.a": -1.0}, 0.2)
    space = SearchSpace(SPACE.parameters, [constraint])
    for candidate in smaller(space, told(space, 40, 0.03), full()):
        assert space.is_feasible(candidate.configuration)
