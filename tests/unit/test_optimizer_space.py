from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import InvalidSpace, InvalidValue
from optimizer.space import Configuration, LinearConstraint, Parameter, SearchSpace
from optimizer.testing.problems import mixed_space

finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.one_of(st.integers(), finite, st.booleans(), st.text(max_size=8))


# ---------------------------------------------------------------------- configurations


def test_kinds_are_part_of_equality() -> None:
    assert Configuration({"a": True}) != Configuration({"a": 1})
    assert Configuration({"a": 1}) != Configuration({"a": 1.0})
    assert Configuration({"a": 1}) == {"a": 1}
    assert Configuration({"a": 1}) != {"a": True}
    assert Configuration({"a": 0.0}) == Configuration({"a": -0.0})
    assert Configuration({"a": 1, "b": 2}) == Configuration({"b": 2, "a": 1})
    assert Configuration({"a": 1}) != 1


@given(st.dictionaries(st.text(min_size=1, max_size=6), values, max_size=5))
def test_equal_content_equal_key_hash_and_round_trips(content: dict[str, Any]) -> None:
    configuration = Configuration(content)
    shuffled = Configuration(dict(reversed(list(content.items()))))
    assert configuration == shuffled
    assert hash(configuration) == hash(shuffled)
    assert configuration.digest() == shuffled.digest()
    assert Configuration(json.loads(configuration.key())) == configuration
    assert pickle.loads(pickle.dumps(configuration)) == configuration
    assert copy.deepcopy(configuration) == configuration


def test_it_cannot_be_changed() -> None:
    configuration = Configuration({"a": 1})
    with pytest.raises(AttributeError):
        configuration._values = {}
    configuration.to_dict()["a"] = 2
    changed = configuration.replace({"a": 3})
    assert (configuration["a"], changed["a"]) == (1, 3)
    assert configuration.replace(a=4)["a"] == 4
    with pytest.raises(InvalidValue, match="b: found 3"):
        configuration.replace(b=3)


def test_the_digest_is_the_same_in_every_process() -> None:
    assert (
        Configuration({"web.workers": 4, "b": True}).digest()
        == (hashlib.sha256(b'{"b":true,"web.workers":4}').hexdigest()[:16])
    )


def test_numpy_scalars_become_plain_values() -> None:
    configuration = Configuration({"i": np.int64(3), "r": np.float64(0.5), "b": np.bool_(True), "s": np.str_("x")})
    assert [type(value) for value in configuration.values()] == [int, float, bool, str]


@pytest.mark.parametrize("value", [None, [1], math.nan, math.inf, 1j, b"x"])
def test_what_is_not_a_value_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="a: found"):
        Configuration({"a": value})


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "integer", "default": 1, "low": 0, "high": 10, "scale": "log"}, "log scale needs low above 0"),
        ({"kind": "real", "default": 0.5, "low": 0.0, "high": 1.0, "scale": "log"}, "log scale needs low above 0"),
        ({"kind": "integer", "default": 11, "low": 0, "high": 10}, "default 11 is not allowed"),
        ({"kind": "integer", "default": 1.5, "low": 0, "high": 10}, "default 1.5 is not allowed"),
        ({"kind": "integer", "default": True, "low": 0, "high": 10}, "default True is not allowed"),
        ({"kind": "integer", "default": 1, "low": 0.5, "high": 10}, "low is 0.5"),
        ({"kind": "integer", "default": 1, "low": 5, "high": 1}, "low 5 is above high 1"),
        ({"kind": "integer", "default": 1}, "need low and high"),
        ({"kind": "integer", "default": 1, "low": 0, "high": 9, "step": 0}, "step is 0"),
        ({"kind": "integer", "default": 1, "low": 0, "high": 9, "choices": (1, 2)}, "have no choices"),
        ({"kind": "real", "default": 1, "low": 0, "high": math.inf}, "high is inf"),
        ({"kind": "real", "default": 0, "low": 0, "high": 1, "step": 1e-9}, "makes more than"),
        ({"kind": "categorical", "default": "a"}, "needs choices"),
        ({"kind": "categorical", "default": "c", "choices": ("a", "b")}, "default 'c' is not allowed: one of 'a', 'b'"),
        ({"kind": "categorical", "default": "a", "choices": ("a", "a")}, "appears twice"),
        ({"kind": "categorical", "default": "a", "choices": ("a",), "low": 1}, "has no low"),
        ({"kind": "boolean", "default": 1}, "default 1 is not allowed"),
        ({"kind": "boolean", "default": True, "choices": ("on", "off")}, "has no choices"),
        ({"kind": "ordinal", "default": 1}, "allowed: integer, real"),
        ({"kind": "integer", "default": 1, "low": 1, "high": 3, "scale": "cubic"}, "allowed: linear, log"),
    ],
)
def test_definitions_that_make_no_sense_are_refused(arguments: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpace, match=message):
        Parameter(name="p", **arguments)


def test_values_take_the_kind_of_their_parameter() -> None:
    whole = Parameter("p", "integer", 4, low=1, high=8)
    assert (whole.validate(3.0), type(whole.validate(3.0))) == (3, int)
    real = Parameter("p", "real", 4, low=1, high=8)
    assert type(real.default) is float
    categorical = Parameter("p", "categorical", 1, choices=(1, True, "1"))
    assert categorical.validate(True) is True
    for parameter, wrong in ((whole, 3.5), (whole, True), (whole, "3"), (real, 9), (real, True), (categorical, 1.0)):
        with pytest.raises(InvalidValue, match="p: found"):
            parameter.validate(wrong)


def test_a_step_keeps_the_ends_and_the_default_and_accepts_what_lies_between() -> None:
    parameter = Parameter("requests", "integer", 20, low=1, high=100, step=20)
    assert parameter.values() == (1, 20, 21, 41, 61, 81, 100)
    assert parameter.cardinality == 7
    assert parameter.validate(50) == 50
    assert 0 <= parameter.to_unit(50) <= 1
    growth = Parameter("growth", "real", 1.25, low=1.01, high=2.0, step=0.25)
    assert growth.values() == (1.01, 1.25, 1.26, 1.51, 1.76, 2.0)


PARAMETERS = [
    Parameter("linear", "integer", 3, low=-5, high=40),
    Parameter("log", "integer", 64, low=1, high=65536, scale="log"),
    Parameter("stepped", "integer", 64, low=64, high=20000, step=1000),
    Parameter("stepped_log", "integer", 64, low=64, high=20000, step=1000, scale="log"),
    Parameter("real", "real", 0.5, low=-1.0, high=1.0),
    Parameter("real_log", "real", 0.5, low=1e-4, high=10.0, scale="log"),
    Parameter("real_step", "real", 1.25, low=1.01, high=3.0, step=0.25),
    Parameter("choice", "categorical", "b", choices=("a", "b", "c")),
    Parameter("switch", "boolean", False),
    Parameter("constant", "integer", 7, low=7, high=7),
    Parameter("constant_real", "real", 7, low=7, high=7),
    Parameter("constant_step", "integer", 7, low=7, high=7, step=2),
]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
@given(unit=st.floats(0, 1))
def test_coordinates_and_values_round_trip(parameter: Parameter, unit: float) -> None:
    value = parameter.from_unit(unit)
    assert parameter.validate(value) == value
    place = parameter.to_unit(value)
    assert 0.0 <= place <= 1.0
    assert parameter.from_unit(place) == value
    snapped = parameter.snap(np.array([unit]))[0]
    assert snapped == pytest.approx(place, abs=2e-6)
    if parameter.cardinality < math.inf:
        assert parameter.from_unit(float(snapped)) == value


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_every_value_can_be_reached_and_order_is_kept(parameter: Parameter) -> None:
    values = [parameter.from_unit(unit) for unit in np.linspace(0, 1, 20001).tolist()]
    listed = parameter.values()
    if listed is not None and parameter.scale == "linear":
        assert set(values) == set(listed)
    assert (values[0], values[-1]) == (
        (parameter.low, parameter.high) if parameter.ordered else (parameter.choices[0], parameter.choices[-1])
    )
    if parameter.ordered:
        numbers = [float(value) for value in values]
        assert numbers == sorted(numbers)
    assert parameter.from_unit(parameter.to_unit(parameter.default)) == parameter.default


def test_uniform_coordinates_draw_integers_uniformly() -> None:
    parameter = Parameter("p", "integer", 1, low=1, high=4)
    counts = np.bincount([int(parameter.from_unit(unit)) for unit in np.linspace(0, 1, 40001).tolist()])[1:]
    assert counts.min() >= 9_999


@pytest.mark.parametrize("unit", [-0.1, 1.1, math.nan])
def test_coordinates_outside_the_interval_are_refused(unit: float) -> None:
    with pytest.raises(InvalidValue, match="from 0 to 1"):
        PARAMETERS[0].from_unit(unit)


# ---------------------------------------------------------------------- spaces


def test_a_space_round_trips_through_json() -> None:
    space = SearchSpace([*PARAMETERS, Parameter("g", "boolean", True, group="web", attributes={"share": 0.4})])
    again = SearchSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert again.content_hash == space.content_hash
    assert again.default() == space.default()
    assert again["g"].attributes == {"share": 0.4}
    mixed = mixed_space()
    assert SearchSpace.from_dict(json.loads(json.dumps(mixed.to_dict()))).constraints == mixed.constraints
    with pytest.raises(InvalidSpace, match="a parameter has no colour"):
        SearchSpace.from_dict({"parameters": [{"name": "a", "kind": "boolean", "default": True, "colour": 1}]})


def test_groups_names_and_subsets() -> None:
    space = mixed_space()
    assert list(space.groups) == ["web", "cache", "db"]
    assert space.groups["db"] == ("db.timeout_s", "db.fixed")
    assert len(space) == 10
    part = space.subset(["cache.memory_mib", "db.fixed"])
    assert part.names == ("cache.memory_mib", "db.fixed")
    # 4 workers of 64 MiB each are spent by what stays at its default
    [left] = part.constraints
    assert isinstance(left, LinearConstraint)
    assert left.bound == 3000 - 64 * 4
    with pytest.raises(InvalidSpace, match="no such parameters: nope"):
        space.subset(["nope"])


@given(st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_points_of_the_cube_are_configurations_of_the_space(unit: list[float]) -> None:
    space = mixed_space()
    configuration = space.from_unit(unit)
    assert space.validate(configuration) == configuration
    assert space.from_unit(space.to_unit(configuration)) == configuration
    used = 64 * float(configuration["web.workers"]) + float(configuration["cache.memory_mib"])
    without_cache = configuration["cache.policy"] == "none" and float(configuration["web.workers"]) < 4
    assert space.is_feasible(configuration) == (used <= 3000 and not without_cache)


def test_configurations_of_another_space_are_refused_by_name() -> None:
    space = mixed_space()
    with pytest.raises(InvalidValue, match=r"web\.workers: found None; allowed: an integer from 1 to 32"):
        space.validate({name: value for name, value in space.default().items() if name != "web.workers"})
    with pytest.raises(InvalidValue, match="nope: found 1"):
        space.validate({**space.default(), "nope": 1})
    with pytest.raises(InvalidValue, match="shape"):
        space.from_unit([0.5])


def test_spaces_that_make_no_sense_are_refused() -> None:
    a = Parameter("a", "integer", 1, low=0, high=9)
    c = Parameter("c", "categorical", "x", choices=("x",))
    with pytest.raises(InvalidSpace, match="twice"):
        SearchSpace([a, a])
    with pytest.raises(InvalidSpace, match="at least one"):
        SearchSpace([])
    with pytest.raises(InvalidSpace, match="no parameter 'b'"):
        SearchSpace([a], [LinearConstraint({"b": 1}, 1)])
    with pytest.raises(InvalidSpace, match="is categorical"):
        SearchSpace([a, c], [LinearConstraint({"c": 1}, 1)])
    with pytest.raises(InvalidSpace, match="default configuration breaks"):
        SearchSpace([a], [LinearConstraint({"a": 1}, 0.5)])
    with pytest.raises(InvalidSpace, match="names no parameter"):
        LinearConstraint({}, 1)
    with pytest.raises(InvalidSpace, match="finite"):
        LinearConstraint({"a": math.nan}, 1)


def test_a_constraint_of_decimals_means_what_it_says() -> None:
    constraint = LinearConstraint({"a": 1, "b": 1}, 0.3)
    assert constraint.holds({"a": 0.1, "b": 0.2})
    assert not constraint.holds({"a": 0.1, "b": 0.2001})
    assert constraint.excess({"a": 0.3, "b": 0.2}) == pytest.approx(0.2)
