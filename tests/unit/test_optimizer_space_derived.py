"""Derived parameters: their values follow, and no optimizer searches them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import InvalidSpace, InvalidValue, NotOfThisSpace
from optimizer.sampling import uniform
from optimizer.space import (
    Condition,
    Derived,
    LinearConstraint,
    LinearEquality,
    Parameter,
    Predicate,
    SearchSpace,
    circle_of,
)
from optimizer.testing.problems import divided_space
from optimizer.transfer import carried

MEMORY = Parameter("memory", "integer", 1000, low=100, high=4000, group="app")


def derived(name: str, text: str, low: float = 0, high: float = 10_000, kind: Any = "integer") -> Derived:
    return Derived(Parameter(name, kind, low, low=low, high=high), text)


def space(*entries: Derived, constraints: tuple[Any, ...] = (), more: tuple[Parameter, ...] = ()) -> SearchSpace:
    return SearchSpace([MEMORY, *more], constraints, entries)


def test_a_derived_value_follows_and_is_not_searched() -> None:
    whole = space(derived("heap", "0.75 * {memory}"))
    assert whole.names == ("memory",)
    assert whole.default() == {"memory": 1000, "heap": 750}
    assert whole.from_default({"memory": 2000}) == {"memory": 2000, "heap": 1500}
    assert whole.canonical(whole.default().replace(memory=400)) == {"memory": 400, "heap": 300}
    assert len(whole.to_unit(whole.default())) == 1
    assert "heap" not in whole.groups.get("app", ())


@given(st.integers(100, 4000), st.sampled_from(["{memory} / 3", "{memory} * 0.1", "7 - {memory} / 9"]))
def test_integers_are_rounded_down(memory: int, text: str) -> None:
    whole = space(derived("part", text, low=-10_000))
    exact = {"{memory} / 3": memory // 3, "{memory} * 0.1": memory // 10, "7 - {memory} / 9": (63 - memory) // 9}
    assert whole.from_default({"memory": memory})["part"] == exact[text]


@pytest.mark.parametrize(
    ("text", "value"),
    [("ceil({memory} / 3)", 334), ("floor({memory} / 3) * 2", 666), ("min({memory}, 512)", 512),
     ("-{memory} // -3", 333), ("max(1, {memory} % 7)", 6), ("abs({memory} - 1200)", 200), ("{memory} * 0.001 * 3", 3)],
)  # fmt: skip
def test_the_language(text: str, value: int) -> None:
    assert space(derived("part", text)).default()["part"] == value


def test_reals_have_twelve_digits() -> None:
    assert space(derived("ratio", "{memory} * 0.1 + 0.2", kind="real")).default()["ratio"] == 100.2


def test_a_value_outside_its_range_is_infeasible_not_moved() -> None:
    whole = space(derived("heap", "0.75 * {memory}", low=128, high=1500))
    beyond = whole.from_default({"memory": 4000})
    assert beyond["heap"] == 3000
    assert not whole.is_feasible(beyond)
    assert whole.is_feasible(whole.from_default({"memory": 2000}))


def test_a_value_that_does_not_exist_is_infeasible() -> None:
    whole = space(derived("share", "6000 / ({memory} - 400)"))
    assert not whole.is_feasible(whole.from_default({"memory": 400}))
    assert whole.is_feasible(whole.default())


def test_derived_from_derived_in_any_order() -> None:
    whole = space(derived("young", "{heap} / 3"), derived("heap", "{memory} / 2"))
    assert whole.default() == {"memory": 1000, "heap": 500, "young": 166}


def test_constraints_may_be_about_derived_values() -> None:
    heap = derived("heap", "0.5 * {memory}")
    limits = (LinearConstraint({"heap": 1.0}, 1000), Predicate("{heap} >= 100"))
    whole = space(heap, constraints=limits)
    assert [whole.is_feasible(whole.from_default({"memory": memory})) for memory in (150, 1000, 2002)] == [
        False, True, False,
    ]  # fmt: skip


def test_a_solved_parameter_and_a_condition_come_before() -> None:
    parts = [Parameter(name, "integer", 2, low=0, high=4) for name in "ab"]
    idle = Parameter("idle", "integer", 60, low=1, high=600, condition=Condition("a", low=2))
    whole = SearchSpace([*parts, idle], [LinearEquality({"a": 1, "b": 1}, 4)], [derived("d", "10 * {b} + {idle}")])
    assert whole.names == ("a", "idle") or whole.names == ("b", "idle")
    assert whole.from_default({"a": 1, "idle": 99}) == {"a": 1, "b": 3, "idle": 60, "d": 90}


def test_values_that_do_not_follow_are_refused() -> None:
    whole = space(derived("heap", "0.75 * {memory}"))
    assert whole.validate({"memory": 400, "heap": 300})["heap"] == 300
    for value in (301, "300", True):
        with pytest.raises(InvalidValue, match=r"heap: found .*; allowed: 300, which follows from 0.75 \* {memory}"):
            whole.validate({"memory": 400, "heap": value})
    with pytest.raises(NotOfThisSpace):
        carried(whole, {"memory": 400, "heap": 512}, whole.default())
    assert carried(whole, {"memory": 400}, whole.default())["heap"] == 300


def test_a_subset_keeps_what_is_derived() -> None:
    other = Parameter("other", "integer", 3, low=1, high=9)
    whole = space(derived("heap", "0.5 * {memory} + {other}"), derived("rest", "{memory} - {heap}"), more=(other,))
    part = whole.subset(["other"])
    assert part.names == ("other",)
    assert part.default() == {"other": 3, "heap": 503, "rest": 497}
    assert part.from_default({"other": 5}) == {"other": 5, "heap": 505, "rest": 495}
    again = SearchSpace.from_dict(part.to_dict())
    assert again == part
    assert again.from_default({"other": 5}) == part.from_default({"other": 5})


def test_a_space_without_is_written_as_before() -> None:
    assert set(SearchSpace([MEMORY]).to_dict()) == {"parameters", "constraints"}


def test_a_draw_keeps_everything_at_once() -> None:
    whole, rng = divided_space(), np.random.default_rng(0)
    drawn = [uniform(whole, rng) for _ in range(50)]
    assert sum(map(whole.is_feasible, drawn)) > 25
    assert all(whole.validate(configuration) == configuration for configuration in drawn)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: space(derived("a", "{b}"), derived("b", "{a} + 1")), "in a circle: (a -> b -> a|b -> a -> b)"),
        (lambda: space(derived("a", "{a}")), "in a circle: a -> a"),
        (lambda: space(derived("a", "{memry}")), "there is no parameter 'memry'"),
        (lambda: space(derived("memory", "1 * {memory}")), "'memory' is defined twice"),
        (lambda: space(derived("a", "{memory}", high=999)), "default configuration gives it 1000; allowed: an integer"),
        (lambda: space(derived("a", "1 / ({memory} - 1000)")), "default configuration gives it None"),
        (
            lambda: space(derived("a", "{kind}"), more=(Parameter("kind", "categorical", "x", choices=("x",)),)),
            "'kind' is categorical",
        ),
        (lambda: Derived(Parameter("a", "boolean", True), "{memory}"), "a boolean parameter cannot be derived"),
        (lambda: derived("a", "{memory} > 3"), r"derived from '{memory} > 3'; allowed: {parameter} names, numbers"),
        (lambda: derived("a", "'x'"), "derived from"),
        (lambda: derived("a", "min({memory})"), "derived from"),
        (lambda: derived("a", "floor({memory}, 2)"), "derived from"),
        (lambda: derived("a", "3"), "names no parameter"),
        (lambda: derived("a", "__import__('os')"), "derived from"),
        (
            lambda: Derived(Parameter("a", "integer", 1, low=0, high=2, condition=Condition("b", low=1)), "{b}"),
            "has no condition",
        ),
        (
            lambda: space(derived("a", "{memory}"), more=(replace(MEMORY, name="c", condition=Condition("a", low=1)),)),
            "its condition is on 'a', which is derived",
        ),
        (
            lambda: space(derived("a", "{memory}"), constraints=(LinearEquality({"memory": 1, "a": 1}, 2000),)),
            "'a' is derived; name what it is derived from",
        ),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidSpace, match=words):
        make()


def test_a_circle_is_named_in_its_order() -> None:
    assert circle_of({"a": ["b"], "b": ["c", "x"], "c": ["b"]}) in (["b", "c", "b"], ["c", "b", "c"])
    assert circle_of({"a": ["b"], "b": ["x"]}) == []
