"""Special values, conditions and predicates: what a space of real servers needs beyond ranges and choices."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.models.surrogate import Encoder
from optimizer.sampling import every, perturbed
from optimizer.space import Condition, Configuration, LinearConstraint, Parameter, Predicate, SearchSpace

IDLE = Parameter("web.idle", "integer", 0, low=4, high=256, scale="log", special=(0,))
LIMIT = Parameter("db.limit", "integer", 100, low=10, high=1000, special=(-1, 100_000))
SHARE = Parameter("db.share", "real", 0.5, low=0.1, high=0.9, special=(0.0, 1.0))
STEPPED = Parameter("db.stepped", "integer", -1, low=10, high=95, step=20, special=(-1,))


def idle_space(*constraints: Any) -> SearchSpace:
    """Keep-alive may be off; only where it is on do its time-out and the number of requests mean anything."""
    return SearchSpace(
        [
            IDLE,
            Parameter("web.timeout_s", "real", 60.0, low=1.0, high=600.0, condition=Condition("web.idle", low=1)),
            Parameter(
                "web.close", "categorical", "late", choices=("late", "early", "never"),
                condition=Condition("web.idle", low=64),
            ),
            Parameter("web.grace_s", "integer", 2, low=1, high=9, condition=Condition("web.close", values=("late",))),
            Parameter("web.gzip", "boolean", False),
            Parameter("web.level", "integer", 6, low=1, high=9, condition=Condition("web.gzip", values=(True,))),
        ],
        constraints,
    )  # fmt: skip


# ---------------------------------------------------------------------- special values


@pytest.mark.parametrize("parameter", [IDLE, LIMIT, SHARE, STEPPED], ids=lambda parameter: parameter.name)
@given(unit=st.floats(0, 1))
def test_coordinates_and_values_belong_together(parameter: Parameter, unit: float) -> None:
    value = parameter.from_unit(unit)
    assert parameter.validate(value) == value
    assert parameter.from_unit(parameter.to_unit(value)) == value
    snapped = float(parameter.snap(np.array([unit]))[0])
    if parameter.kind == "integer":
        assert snapped == pytest.approx(parameter.to_unit(value), abs=1e-9)
    else:
        assert parameter.from_unit(snapped) == value


def test_a_special_value_has_a_cell_of_its_own_at_its_end() -> None:
    assert [LIMIT.from_unit(unit) for unit in (0.0, 0.149)] == [-1, -1]
    assert [LIMIT.from_unit(unit) for unit in (0.851, 1.0)] == [100_000, 100_000]
    assert (LIMIT.from_unit(0.15), LIMIT.from_unit(0.85)) == (10, 1000)
    drawn = [IDLE.from_unit(float(unit)) for unit in np.random.default_rng(1).random(4000)]
    assert 0.12 < drawn.count(0) / len(drawn) < 0.18
    assert all(value == 0 or 4 <= int(value) <= 256 for value in drawn)


def test_the_ends_of_the_range_stay_themselves() -> None:
    assert (SHARE.from_unit(SHARE.to_unit(0.1)), SHARE.from_unit(SHARE.to_unit(0.9))) == (0.1, 0.9)
    assert STEPPED.values() == (-1, 10, 30, 50, 70, 90, 95)
    assert STEPPED.cardinality == 7
    assert IDLE.allowed == "an integer from 4 to 256, or 0"
    with pytest.raises(InvalidValue, match="or 0"):
        IDLE.validate(2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"special": (5,)}, "lies between low and high"),
        ({"special": (0, 0)}, "each once"),
        ({"special": (0.5,)}, "numbers of kind integer"),
        ({"special": (True,)}, "numbers of kind integer"),
        ({"special": (-1, -2, -3, -4)}, "3 values"),
    ],
)
def test_special_values_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpace, match=message):
        Parameter("p", "integer", 4, low=4, high=8, **arguments)


def test_models_see_that_a_special_value_is_something_else() -> None:
    space = SearchSpace([IDLE])
    encoder = Encoder(space)
    off, least, most = encoder.encode(encoder.units([space.validate({"web.idle": value}) for value in (0, 4, 256)]))
    assert encoder.columns == (2,)
    assert float(np.sum((off - least) ** 2)) >= 1.0
    assert off[1] == 1.0
    assert least[1] == most[1] == 0.0
    assert least[0] < most[0]


# ---------------------------------------------------------------------- conditions


def test_what_is_inactive_stands_at_its_default() -> None:
    space = idle_space()
    wanted = {**space.default(), "web.timeout_s": 5.0, "web.close": "early", "web.grace_s": 7, "web.level": 9}
    assert space.validate(wanted) == space.default()
    on = space.validate({**wanted, "web.idle": 64, "web.gzip": True})
    assert (on["web.timeout_s"], on["web.close"], on["web.level"]) == (5.0, "early", 9)
    assert on["web.grace_s"] == 2, "its condition is on web.close, which is early"
    some = space.validate({**wanted, "web.idle": 32, "web.close": "late"})
    assert some["web.grace_s"] == 2, "web.close is inactive itself, though its default would do"
    assert space.inactive(some) == {"web.close", "web.grace_s", "web.level"}


@given(st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_arrays_and_configurations_agree_on_what_is_active(units: list[float]) -> None:
    space = idle_space()
    snapped = space.snap(np.array([units]))[0]
    configuration = space.from_unit(np.array(units))
    assert space.from_unit(snapped) == configuration
    assert space.canonical(configuration) == configuration
    for name in space.inactive(configuration):
        place = space.names.index(name)
        assert snapped[place] == pytest.approx(space[name].to_unit(space[name].default), abs=1e-9)


def test_steps_lead_to_canonical_configurations() -> None:
    space = idle_space()
    rng = np.random.default_rng(3)
    for _ in range(200):
        moved = perturbed(space, space.default(), range(len(space)), 0.3, rng)
        assert space.validate(moved) == moved


def test_listing_a_space_gives_each_meaning_once() -> None:
    space = SearchSpace(
        [
            Parameter("a", "boolean", False),
            Parameter("b", "integer", 1, low=1, high=3, condition=Condition("a", values=(True,))),
        ]
    )
    assert len(every(space)) == 4


def test_conditions_outlive_parameters_that_are_left_out() -> None:
    space = idle_space()
    assert space.subset(["web.timeout_s", "web.gzip"]).names == ("web.gzip",), (
        "keep-alive stays off, so it means nothing"
    )
    chain = SearchSpace(
        [
            Parameter("a", "boolean", True),
            Parameter("b", "boolean", True, condition=Condition("a", values=(True,))),
            Parameter("c", "integer", 1, low=1, high=3, condition=Condition("b", values=(True,))),
        ]
    )
    assert chain.subset(["a", "c"])["c"].condition == Condition("a", values=(True,))
    assert chain.subset(["c"])["c"].condition is None


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (Condition("z", low=1), "is no parameter"),
        (Condition("choice", low=1), "choice is categorical"),
        (Condition("choice", values=("w",)), "can never hold"),
        (Condition("p", low=1), "circle"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(condition: Condition, message: str) -> None:
    with pytest.raises(InvalidSpace, match=message):
        SearchSpace(
            [
                Parameter("p", "integer", 1, low=1, high=3, condition=condition),
                Parameter("choice", "categorical", "u", choices=("u", "v")),
            ]
        )
    with pytest.raises(InvalidSpace, match="values, low or high"):
        Condition("a")


# ---------------------------------------------------------------------- predicates


@pytest.mark.parametrize(
    ("text", "configuration", "holds"),
    [
        ("{a.b-c} * 2 <= {d}", {"a.b-c": 2, "d": 4}, True),
        ("{a.b-c} * 2 <= {d}", {"a.b-c": 2, "d": 3}, False),
        ("{d} != 'lru' or {a.b-c} >= 128", {"d": "lru", "a.b-c": 64}, False),
        ("{d} in ('x', 'y') and not {a.b-c}", {"d": "y", "a.b-c": False}, True),
        ("1 < {d} <= max(3, {a.b-c}, 2)", {"d": 3, "a.b-c": 1}, True),
        ("abs({d}) % 4 == 0 and -{d} // 2 < 0", {"d": 8}, True),
        ("1 / {d} < 5", {"d": 0}, False),
        ("{d} < 5", {"d": "text"}, False),
        ("{d} * 3 == 'xxx'", {"d": "x"}, False),
    ],
)
def test_predicates(text: str, configuration: dict[str, Any], holds: bool) -> None:
    assert Predicate(text).holds(Configuration(configuration)) is holds


@pytest.mark.parametrize(
    "text",
    ["", "1 < 2", "{a} <", "{a}.real > 1", "__import__('os')", "{a} ** 9", "[{a}]", "f({a})", "{a} if {b} else 1",
     "lambda: {a}", "{a} and x", "{a} + _7", "{a} < " + "1 + " * 300 + "1"],
)  # fmt: skip
def test_anything_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpace, match="constraint"):
        Predicate(text)


def test_a_space_knows_its_predicates() -> None:
    predicate = Predicate("{web.idle} <= 64 or {web.gzip}", "memory")
    space = idle_space(predicate, LinearConstraint({"web.idle": 1}, 200))
    assert not space.is_feasible({**space.default(), "web.idle": 65})
    assert space.is_feasible({**space.default(), "web.idle": 65, "web.gzip": True})
    again = SearchSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert again.constraints == space.constraints
    assert again["web.level"].condition == space["web.level"].condition
    part = space.subset(["web.idle"])
    assert not part.is_feasible({"web.idle": 65}), "web.gzip stands at its default"
    assert SearchSpace.from_dict(part.to_dict()) == part
    with pytest.raises(InvalidSpace, match=r"there is no parameter 'web\.none'"):
        idle_space(Predicate("{web.none} > 1"))
    with pytest.raises(InvalidSpace, match="the default configuration breaks"):
        idle_space(Predicate("{web.idle} >= 1"))
