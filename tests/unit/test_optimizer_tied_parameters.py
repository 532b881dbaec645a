"""Tied parameters (one name in several groups): which are tied, and what their common effect is taken to be."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from optimizer.algorithms.tailor import Tailor
from optimizer.models.additive import AdditiveProcess, Layout
from optimizer.models.surrogate import Encoder
from optimizer.models.tied_parameters import ALONE, KNOTS, LENGTH, TiedParameters, tied_parameters
from optimizer.sampling import grouped_design
from optimizer.space import Parameter, SearchSpace, Value

SERVICES = [f"s{number}" for number in range(6)]


def space(*more: Parameter) -> SearchSpace:
    return SearchSpace(
        [
            *(Parameter(f"{s}.heap", "integer", 100, low=10, high=1000, scale="log", group=s) for s in SERVICES),
            *(Parameter(f"{s}.eager", "boolean", False, group=s) for s in SERVICES),
            *(Parameter(f"{s}.policy", "categorical", "a", choices=("a", "b", "c"), group=s) for s in SERVICES),
            *more,
        ]
    )


def sets(made: SearchSpace) -> dict[str, TiedParameters]:
    """Return the tied parameters by the name of the first member."""
    tied = tied_parameters(made, Encoder(made).columns)
    return {made.names[group.members[0]]: group for group in tied}


def test_who_belongs_together() -> None:
    other = Parameter("s9.heap", "real", 0.5, low=0.0, high=1.0, group="s9")
    made = space(other, Parameter("plain", "real", 0.5, low=0.0, high=1.0))
    tied = sets(made)
    assert {name: len(group.members) for name, group in tied.items()} == {
        "s0.heap": 6, "s0.eager": 6, "s0.policy": 6, "s9.heap": 1, "plain": 1,
    }  # fmt: skip
    assert sorted(number for group in tied.values() for number in group.members) == list(range(len(made)))


def test_together_they_have_one_value_as_far_as_their_bounds_allow() -> None:
    made = space(Parameter("s9.heap", "integer", 300, low=200, high=500, scale="log", group="s9"))
    points = grouped_design(made, tied_parameters(made, Encoder(made).columns), 8, np.random.default_rng(1))
    strata = set()
    for point in points:
        for name in ("heap", "eager", "policy"):
            assert len({point[f"{s}.{name}"] for s in SERVICES}) == 1
        heap = float(point["s0.heap"])
        strata.add(int(8 * math.log(heap / 10) / math.log(100)))
        assert float(point["s9.heap"]) == pytest.approx(min(max(heap, 200), 500), rel=0.02)
    assert len(strata) >= 7, "one in each of eight strata, integers aside"


def test_places_have_nothing_to_do_with_each_other() -> None:
    places = (
        Parameter(f"{s}.place", "categorical", "0", choices=("0", "1"), group=s, attributes={ALONE: 1.0})
        for s in SERVICES
    )
    made = space(*places)
    assert all(len(group.members) == 1 for name, group in sets(made).items() if name.endswith("place"))
    optimizer = Tailor(made, seed=1, budget=15)
    asked = [optimizer.ask()[0].configuration for _ in range(5)]
    assert any(len({configuration[f"{s}.place"] for s in SERVICES}) == 2 for configuration in asked)


def matern(distance: float) -> float:
    r = math.sqrt(5.0) * distance / LENGTH
    return (1.0 + r + r * r / 3.0) * math.exp(-r)


def encoded(made: SearchSpace, *changes: Mapping[str, Value]) -> NDArray[np.float64]:
    encoder = Encoder(made)
    return encoder.encode(encoder.snap(encoder.units([made.default().replace(dict(change)) for change in changes])))


def test_the_features_are_those_of_a_sum_of_one_process_over_the_members() -> None:
    made = SearchSpace(
        [Parameter(f"{s}.p", "real", 0.0, low=0.0, high=1.0, group=s) for s in SERVICES[:3]]
        + [Parameter(f"{s}.q", "integer", 5, low=1, high=9, special=(0,), group=s) for s in SERVICES[:2]]
    )
    weight = np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(2)
    rows = rng.integers(KNOTS, size=(4, 3)) / (KNOTS - 1)  # at knots the interpolation is exact
    x = encoded(made, *({f"s{j}.p": value for j, value in enumerate(row.tolist())} for row in rows))
    features = sets(made)["s0.p"].features(x, weight)
    expected = [
        [sum(weight[i] * weight[j] * matern(abs(a[i] - b[j])) for i in range(3) for j in range(3)) for b in rows]
        for a in rows
    ]
    np.testing.assert_allclose(features @ features.T, expected, atol=1e-9)
    single, both, none = sets(made)["s0.q"].features(
        encoded(made, {"s0.q": 0, "s1.q": 1}, {"s0.q": 0, "s1.q": 0}, {"s0.q": 9, "s1.q": 9}), np.array([0.5, 0.5])
    )
    assert both @ both == pytest.approx(1.0)
    assert single @ both == pytest.approx(0.5), "a special value has nothing to do with those beside it"
    assert none @ both == pytest.approx(0.0)


@pytest.mark.parametrize("name", ["eager", "policy"])
def test_choices_agree_as_often_as_their_members_do(name: str) -> None:
    made = space()
    other: Value = True if name == "eager" else "b"
    x = encoded(made, {}, {f"{s}.{name}": other for s in SERVICES[:3]}, {f"{s}.{name}": other for s in SERVICES})
    default, half, all_ = sets(made)[f"s0.{name}"].features(x, np.full(6, 1 / 6))
    assert default @ default == pytest.approx(1.0)
    assert default @ half == pytest.approx(0.5)
    assert default @ all_ == pytest.approx(0.0)
    assert half @ all_ == pytest.approx(0.5)


def test_the_common_effect_of_tied_parameters_is_learnt_from_few_points() -> None:
    """Each moves the value by a sixth of what all do."""
    made = SearchSpace(
        Parameter(f"{s}.{name}", "real", 0.5, low=0.0, high=1.0, group=s) for s in SERVICES for name in ("p", "q", "r")
    )
    encoder = Encoder(made)
    layout = Layout.of(made, encoder.columns, np.ones(len(made)))
    apart = Layout(layout.parameter, layout.group, layout.weight)
    start = grouped_design(made, tied_parameters(made, encoder.columns), 10, np.random.default_rng(3))
    known = encoder.encode(encoder.units(start))
    new = np.random.default_rng(4).random((200, len(made)))

    def value(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.sin(3.0 * x[:, 0::3]) - x[:, 1::3] ** 2).mean(axis=1))

    y = value(known)
    left = {}
    for name, columns in (("sets", layout), ("apart", apart)):
        process = AdditiveProcess(columns, known, (y - y.mean()) / y.std(), np.full(len(y), 1e-3))
        said = process.predict(new)[0] * y.std() + y.mean()
        left[name] = float(np.var(said - value(new)) / np.var(value(new)))
    assert left["sets"] < 0.5 < left["apart"]


def test_the_start_up_design_moves_tied_parameters_together() -> None:
    optimizer = Tailor(space(), seed=1, budget=15)
    asked = [optimizer.ask()[0].configuration for _ in range(5)]
    for configuration in asked:
        assert len({configuration[f"{s}.heap"] for s in SERVICES}) == 1
    assert len({configuration["s0.heap"] for configuration in asked}) == 5
