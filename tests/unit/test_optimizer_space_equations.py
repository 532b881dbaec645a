"""Equations between parameters: what they are solved for, and points that keep them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.sampling import latin_hypercube, mutated, uniform, unseen
from optimizer.space import Condition, Configuration, LinearEquality, Parameter, SearchSpace
from optimizer.space.cube import from_cube, to_cube
from optimizer.testing.problems import divided_space


def cpus(count: int, total: float, low: float = 0.5, high: float = 3.0) -> SearchSpace:
    """Return a space of real parameters p0, p1, ... with equal defaults that add up to ``total``."""
    names = [f"p{number}" for number in range(count)]
    parameters = [Parameter(name, "real", total / count, low=low, high=high) for name in names]
    return SearchSpace(parameters, [LinearEquality(dict.fromkeys(names, 1), total)])


def pair(first: Parameter, second: Parameter, **coefficients: float) -> SearchSpace:
    """Return a space of two parameters a and b whose equation its default keeps."""
    factors = {"a": 1.0, "b": 1.0, **coefficients}
    total = sum(factors[parameter.name] * float(parameter.default) for parameter in (first, second))
    return SearchSpace([first, second], [LinearEquality(factors, total)])


def integer(name: str, default: int, low: int = 0, high: int = 12, **more: Any) -> Parameter:
    return Parameter(name, "integer", default, low=low, high=high, **more)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Draw a space with an equation that has a solution in every parameter: integers or reals, with any signs."""
    kinds = draw(st.lists(st.sampled_from(["integer", "real", "stepped"]), min_size=1, max_size=5))
    parameters, coefficients = [], {}
    for number, kind in enumerate(kinds):
        low = draw(st.integers(-5, 20))
        size = draw(st.integers(1, 40))
        default = low + draw(st.integers(0, size))
        name, step = f"p{number}", draw(st.integers(2, 4)) if kind == "stepped" else None
        known: Any = "integer" if kind == "stepped" else kind
        parameters.append(Parameter(name, known, default, low=low, high=low + size, step=step))
        coefficients[name] = draw(st.sampled_from([-3.0, -1.0, 1.0, 2.0]))
    # The last one is wide and fine enough to take up what the others leave.
    kind = "real" if "real" in kinds else draw(st.sampled_from(["real", "integer"]))
    at = draw(st.integers(0, 150))
    parameters.append(Parameter("last", kind, at, low=0, high=150))  # type: ignore[arg-type]  # one of the kinds
    coefficients["last"] = draw(st.sampled_from([-1.0, 1.0]))
    total = sum(coefficients[parameter.name] * float(parameter.default) for parameter in parameters)
    return SearchSpace(parameters, [LinearEquality(coefficients, total)])


@settings(max_examples=150, deadline=None)
@given(spaces(), st.integers(0, 2**31))
def test_every_sampler_keeps_the_equation(space: SearchSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [uniform(space, rng) for _ in range(5)]
    drawn += latin_hypercube(space, 4, rng)
    drawn += [space.from_unit(rng.random(len(space))) for _ in range(5)]
    drawn += [mutated(space, drawn[0], 0.5, 0.5, rng) for _ in range(5)]
    drawn.append(unseen(space, rng, ()))
    for configuration in drawn:
        assert space.is_feasible(configuration), configuration
        assert space.validate(configuration) == configuration
        assert space.canonical(configuration) == configuration
    assert space.canonical(space.default()) == space.default()


@settings(max_examples=100, deadline=None)
@given(spaces(), st.integers(0, 2**31))
def test_snapped_coordinates_are_those_of_the_configurations(space: SearchSpace, seed: int) -> None:
    units = np.random.default_rng(seed).random((6, len(space)))
    snapped = space.snap(units)
    expected = np.array([space.to_unit(space.from_unit(point)) for point in units])
    assert np.allclose(snapped, expected, atol=1e-4)  # reals are rounded only when they become values


@settings(max_examples=100, deadline=None)
@given(spaces(), st.integers(0, 2**31))
def test_the_cube_is_mapped_back(space: SearchSpace, seed: int) -> None:
    configuration = from_cube(space, np.random.default_rng(seed).random(len(space)))
    back = from_cube(space, to_cube(space, configuration))
    whole = any(parameter.kind == "integer" for parameter in space.tuned)
    widths = {p.name: float(p.high or 0) - float(p.low or 0) for p in space.tuned}
    for name, width in widths.items():
        assert abs(float(back[name]) - float(configuration[name])) <= max(0.02 * width, 1.0 * whole)


@pytest.mark.parametrize(("count", "total"), [(3, 1.0), (10, 1.0), (10, 9.0), (4, 2.0)])
def test_draws_are_uniform_on_the_equation(count: int, total: float) -> None:
    """Each share of n that add up to 1 has the mean 1 / n and the variance (n - 1) / (n^2 (n + 1)) (Dirichlet)."""
    space = cpus(count, total, low=0.0, high=1.0)
    rng = np.random.default_rng(0)
    points = np.array([list(uniform(space, rng).values()) for _ in range(1500)], dtype=float)
    assert np.allclose(points.sum(axis=1), total)
    assert np.allclose(points.mean(axis=0), total / count, atol=0.02)
    if total in (1.0, count - 1.0):
        assert np.allclose(points.var(axis=0), (count - 1) / count**2 / (count + 1), rtol=0.15)
    assert np.allclose(points.var(axis=0), points.var(axis=0).mean(), rtol=0.15)  # the solved one is like the others


def test_integers_are_drawn_nearly_uniformly() -> None:
    """Of the 165 ways to divide 12 among four, no way is drawn 1.5 times as often as another expects."""
    names = "abcd"
    space = SearchSpace([integer(name, 3, 0, 8) for name in names], [LinearEquality(dict.fromkeys(names, 1), 12)])
    ways = {way for way in itertools.product(range(9), repeat=4) if sum(way) == 12}
    rng = np.random.default_rng(0)
    drawn = (uniform(space, rng) for _ in range(100 * len(ways)))
    counted = Counter(tuple(configuration[name] for name in names) for configuration in drawn)
    assert set(counted) == ways
    assert max(counted.values()) < 150
    assert min(counted.values()) > 50


def test_a_used_up_space_has_given_every_way() -> None:
    space = SearchSpace([integer(name, 1, 0, 3) for name in "abc"], [LinearEquality(dict.fromkeys("abc", 1), 3)])
    seen: set[Configuration] = set()
    rng = np.random.default_rng(0)
    for _ in range(10):
        seen.add(unseen(space, rng, seen))
    assert {tuple(c[name] for name in "abc") for c in seen} == {
        way for way in itertools.product(range(4), repeat=3) if sum(way) == 3
    }


def test_the_solved_parameter_is_not_searched_but_in_configurations() -> None:
    space = cpus(3, 4.0)
    assert space.names == ("p0", "p1")
    assert [parameter.name for parameter in space.tuned] == ["p0", "p1", "p2"]
    assert space.dependents.texts == {"p2": "p0 + p1 + p2 = 4"}
    assert space.from_default({"p0": 1.1, "p1": 1.3})["p2"] == 1.6


def test_a_change_stays_and_the_others_make_room() -> None:
    space = cpus(3, 4.5)
    moved = space.canonical(space.default().replace({"p0": 3.0}))
    assert moved["p2"] == 0.5  # it gave what it had ...
    assert float(moved["p0"]) > 2.4  # ... and the others the rest, by their room
    assert space.is_feasible(moved)


def test_equal_parameters_are_an_equation_too() -> None:
    first = Parameter("a", "integer", 64, low=16, high=1024, step=16)
    space = pair(first, Parameter("b", "integer", 64, low=32, high=2048, step=16), b=-1.0)
    assert len(space) == 1
    rng = np.random.default_rng(0)
    assert all((c := uniform(space, rng))["a"] == c["b"] for _ in range(20))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (lambda: pair(integer("a", 3), integer("b", 2), a=2.0, b=3.0), "no parameter can take up"),
        (lambda: pair(integer("a", 3), integer("b", 2, 2, 4), a=2.0, b=0.5), "no parameter can take up"),
        (lambda: pair(integer("a", 5, step=4), integer("b", 2, step=3)), "no parameter can take up"),
        (lambda: pair(integer("a", 20, special=(20,)), integer("b", 2)), "'a' has special values"),
        (lambda: SearchSpace([integer("a", 3)], [LinearEquality({"a": 1}, 3)]), "leaves its parameter one value"),
        (
            lambda: SearchSpace([integer("a", 3), integer("b", 3)], [LinearEquality({"a": 1, "b": 1}, 7)]),
            "breaks the equation a \\+ b = 7: it adds up to 6",
        ),
        (
            lambda: SearchSpace([integer("a", 3)], [LinearEquality({"a": 1, "z": 1}, 3)]),
            "there is no parameter 'z'",
        ),
        (
            lambda: SearchSpace(
                [integer("a", 3), Parameter("b", "categorical", "x", choices=("x",))],
                [LinearEquality({"a": 1, "b": 1}, 3)],
            ),
            "'b' is categorical",
        ),
        (
            lambda: SearchSpace(
                [integer("a", 3), integer("b", 3), integer("c", 3)],
                [LinearEquality({"a": 1, "b": 1}, 6), LinearEquality({"c": 1, "b": 1}, 6)],
            ),
            "'b' is also in",
        ),
        (
            lambda: SearchSpace(
                [integer("a", 3), integer("b", 3, condition=Condition("a", low=1))],
                [LinearEquality({"a": 1, "b": 1}, 6)],
            ),
            "'b' is not always active",
        ),
        (lambda: LinearEquality({"a": 0.0, "b": 1.0}, 2), "a coefficient is 0"),
        (lambda: LinearEquality({}, 2), "names no parameter"),
        (lambda: LinearEquality({"a": float("inf")}, 2), "must be finite"),
    ],
)
def test_errors_say_what_is_wrong(space: Any, words: str) -> None:
    with pytest.raises(InvalidSpace, match=words):
        space()


def test_a_condition_on_a_parameter_keeps_it_searched() -> None:
    space = SearchSpace(
        [integer("a", 3), integer("b", 3), integer("c", 5, condition=Condition("b", low=1))],
        [LinearEquality({"a": 1, "b": 1}, 6)],
    )
    assert space.names == ("b", "c")
    assert space.from_default({"b": 0, "c": 7}) == {"a": 6, "b": 0, "c": 5}


def test_values_that_break_the_equation_are_refused_by_name() -> None:
    space = cpus(3, 4.0)
    with pytest.raises(InvalidValue, match=r"p2: found 2.0; allowed: 1.6, which follows from .* = 4"):
        space.from_default({"p0": 1.1, "p1": 1.3, "p2": 2.0})
    with pytest.raises(InvalidValue, match=r"p2: found -2.0; allowed: a number from 0.5 to 3.0; it follows from"):
        space.from_default({"p0": 3.0, "p1": 3.0})


def test_a_subset_keeps_the_rest_of_the_equation() -> None:
    space = cpus(4, 4.0)
    part = space.subset(["p1", "p3"])
    assert part.names == ("p1",)
    assert part.dependents.texts == {"p3": "p1 + p3 = 2"}
    assert [parameter.name for parameter in space.subset(p.name for p in space.tuned).tuned] == ["p0", "p1", "p2", "p3"]
    with pytest.raises(InvalidSpace, match="at least one parameter"):
        space.subset(["p3"])  # alone, it has no choice


def test_a_space_is_written_and_read_back() -> None:
    space = divided_space()
    again = SearchSpace.from_dict(space.to_dict())
    assert again == space
    assert again.dependents.texts == space.dependents.texts


@pytest.mark.parametrize(
    ("text", "coefficients", "total"),
    [
        ("{a} + {b} == 4", {"a": 1, "b": 1}, 4),
        ("100 == 2 * {a} + {b} * 3 - {c} / 4", {"a": -2, "b": -3, "c": 0.25}, -100),
        ("{a.x} == {b.x}", {"a.x": 1, "b.x": -1}, 0),
        ("-({a} - 3) + 2 * ({b} + 1) == {b}", {"a": -1, "b": 1}, -5),
    ],
)
def test_text_is_read_as_an_equation(text: str, coefficients: dict[str, float], total: float) -> None:
    equation = LinearEquality.parse(text)
    assert equation is not None
    assert (dict(equation.coefficients), equation.total) == (coefficients, total)


@pytest.mark.parametrize(
    "text",
    ["{a} * {b} == 4", "{a} <= 4", "{a} == 'x'", "{a} == 1 or {b} == 2", "{a} % 2 == 0", "{a} == {a}", "1 / {a} == 2",
     "min({a}, {b}) == 3", "{a} == {b} == {c}", "{a} / 0 == 1", "{a} == True", "1 == 1", "{a} +"],
)  # fmt: skip
def test_other_text_is_no_equation(text: str) -> None:
    assert LinearEquality.parse(text) is None
