"""A small recommendation: tied parameters are one change, few changes stay, risky ones are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.analysis.changes import CLOSE, RISK, RISKS, Change, applied, changes, moderate, risk
from optimizer.analysis.small_recommendation import SmallRecommendation, small_recommendation
from optimizer.analysis.value_model import ValueModel
from optimizer.models.additive import JITTER
from optimizer.space import Condition, Configuration, LinearConstraint, Parameter, SearchSpace, Value
from optimizer.trial import Observation, ObservationState

SERVICES = tuple(f"s{number}" for number in range(8))


def made(*more: Parameter, risks: Mapping[str, str] | None = None) -> SearchSpace:
    """Return eight services with threads, a heap and a policy each; ``risks``: of each of these names."""

    def attributes(name: str) -> dict[str, float]:
        return {RISK: float(RISKS.index(risks[name]))} if risks and name in risks else {}

    parameters = []
    for s in SERVICES:
        threads, heap, policy = attributes("threads"), attributes("heap"), attributes("policy")
        parameters += [
            Parameter(f"{s}.threads", "integer", 8, low=1, high=64, scale="log", group=s, attributes=threads),
            Parameter(f"{s}.heap", "integer", 100, low=10, high=1000, scale="log", group=s, attributes=heap),
            Parameter(f"{s}.policy", "categorical", "a", choices=("a", "b", "c"), group=s, attributes=policy),
        ]
    return SearchSpace([*parameters, *more])


SPACE = made()


def value(configuration: Mapping[str, Value]) -> float:
    """Fewer threads are better everywhere, a larger heap in one service; nothing else matters."""
    threads = sum(math.log(int(configuration[f"{s}.threads"]) / 8) for s in SERVICES)
    return 10.0 * math.exp(0.05 * threads - 0.15 * math.log(int(configuration["s0.heap"]) / 100))


def told(space: SearchSpace, count: int = 40, noise: float = 0.02) -> list[Observation]:
    """Observe points that move tied threads by one amount, as the start-up design does, and all else at random."""
    rng = np.random.default_rng(3)
    points = [space.default()]
    for _ in range(count):
        unit = rng.random(len(space))
        threads = [number for number, name in enumerate(space.names) if name.endswith(".threads")]
        unit[threads] = rng.random()
        points.append(space.from_unit(unit))
    return [
        Observation(p, ObservationState.COMPLETED, value(p) * math.exp(noise * rng.standard_normal()), value(p) * noise)
        for p in points
    ]


def full(space: SearchSpace) -> Configuration:
    threads = {f"{s}.threads": 2 for s in SERVICES}
    heaps = {f"{s}.heap": 900 - 100 * number for number, s in enumerate(SERVICES)}
    return space.canonical(space.default().replace({**threads, **heaps, "s3.policy": "b", "s5.policy": "c"}))


def small_of(space: SearchSpace, **options: int) -> SmallRecommendation:
    small = small_recommendation(space, told(space), full(space), **options)
    assert small is not None
    return small


def test_tied_parameters_of_one_value_are_one_change() -> None:
    wanted = SPACE.default().replace({f"{s}.threads": 2 for s in SERVICES} | {"s1.policy": "b", "s4.policy": "b"})
    assert changes(SPACE, wanted) == (
        Change(tuple(f"{s}.threads" for s in SERVICES), 2),
        Change(("s1.policy", "s4.policy"), "b"),
    )


def test_values_that_differ_much_or_in_direction_are_changes_of_their_own() -> None:
    wanted = SPACE.default().replace({"s0.heap": 400, "s1.heap": 410, "s2.heap": 900, "s3.heap": 50})
    by_name = {change.names: change.value for change in changes(SPACE, wanted)}
    assert by_name == {("s0.heap", "s1.heap"): 410, ("s2.heap",): 900, ("s3.heap",): 50}
    assert applied(SPACE, changes(SPACE, wanted)) == wanted.replace({"s0.heap": 410})


def test_a_value_that_a_member_may_not_have_is_not_given_to_it() -> None:
    space = made(Parameter("s9.heap", "integer", 100, low=90, high=405, scale="log", group="s9"))
    wanted = space.default().replace({"s0.heap": 410, "s1.heap": 412, "s9.heap": 400})
    for change in changes(space, wanted):
        for name, given_value in change.values.items():
            assert space[name].validate(given_value) == given_value


@given(st.lists(st.floats(0, 1), min_size=len(SPACE), max_size=len(SPACE)))
def test_changes_are_those_of_the_configuration(unit: list[float]) -> None:
    """Each changed parameter is in exactly one change, and its value moves by less than the width of a change."""
    wanted, default = SPACE.from_unit(unit), SPACE.default()
    parts = changes(SPACE, wanted)
    names = [name for change in parts for name in change.names]
    assert sorted(names) == sorted(name for name in SPACE.names if wanted[name] != default[name])
    rounded = applied(SPACE, parts)
    assert np.abs(SPACE.to_unit(rounded) - SPACE.to_unit(wanted)).max() <= CLOSE + 1e-9
    assert all(rounded[name] != default[name] for name in names)
    assert changes(SPACE, wanted, close=0.0) != parts or rounded == wanted


def test_what_matters_stays_and_the_rest_goes() -> None:
    small = small_of(SPACE)
    assert small.kept[0].change == Change(tuple(f"{s}.threads" for s in SERVICES), 2)
    assert {name for kept in small.kept for name in kept.change.names} >= {"s0.heap"}
    assert len(small.kept) <= 4 < len(changes(SPACE, full(SPACE)))
    assert value(small.configuration) == pytest.approx(value(full(SPACE)), rel=0.05)
    expected = 0.05 * 8 * math.log(2 / 8)
    assert abs(small.kept[0].log_ratio - expected) < 3 * small.kept[0].deviation + 0.1
    assert small.full == full(SPACE)
    assert abs(small.loss) < 3 * small.loss_deviation
    assert all(0 < kept.deviation < 1 for kept in small.kept)


def test_there_are_at_most_as_many_as_asked_for() -> None:
    assert [len(small_of(SPACE, most=most).kept) for most in (1, 2)] == [1, 2]


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert small_recommendation(SPACE, told(SPACE, 3), full(SPACE)) is None
    assert small_recommendation(SPACE, told(SPACE), SPACE.default()) is None
    worse = SPACE.default().replace({f"{s}.threads": 64 for s in SERVICES})
    assert small_recommendation(SPACE, told(SPACE), worse) is None


def test_conditions_and_constraints_are_kept() -> None:
    """The limit of s9 is only known with its cache, and s9.a may only be small where s9.b is large."""
    more = (
        Parameter("s9.cache", "integer", 0, low=1, high=9, special=(0,), group="s9"),
        Parameter("s9.limit", "integer", 5, low=1, high=9, group="s9", condition=Condition("s9.cache", low=1)),
        Parameter("s9.a", "real", 0.5, low=0, high=1, group="s9"),
        Parameter("s9.b", "real", 0.5, low=0, high=1, group="s9"),
    )
    space = made(*more)
    space = SearchSpace(space.parameters, [LinearConstraint({"s9.a": -1.0, "s9.b": -1.0}, -0.8)])
    wanted = full(space).replace({"s9.cache": 4, "s9.limit": 9, "s9.a": 0.1, "s9.b": 0.9})
    observations = [o for o in told(space) if space.is_feasible(o.configuration)]
    small = small_recommendation(space, observations, wanted)
    assert small is not None
    assert space.is_feasible(small.configuration)
    assert small.configuration == space.canonical(small.configuration)


def test_a_risk_is_what_the_parameter_says_and_memory_only_far_above_the_default() -> None:
    space = made(risks={"heap": "memory", "policy": "data"})
    assert risk(space, Change(("s0.heap",), 400)) == "none"
    assert risk(space, Change(("s0.heap",), 401)) == "memory"
    assert risk(space, Change(("s0.heap",), 10)) == "none"
    assert risk(space, Change(("s0.policy",), "b")) == "data"
    assert risk(space, Change(("s0.threads",), 64)) == "none"


def test_a_moderate_change_is_as_large_as_it_may_be_without_a_risk() -> None:
    space = made(risks={"heap": "memory", "policy": "data"})
    less = moderate(space, Change(("s0.heap", "s1.heap"), 900))
    assert less is not None
    assert less.names == ("s0.heap", "s1.heap")
    assert 380 <= int(less.value) <= 400
    assert risk(space, less) == "none"
    assert moderate(space, Change(("s0.policy",), "b")) is None
    assert moderate(space, Change(("s0.heap",), 300)) is None, "it is no risk"
    unlimited = Parameter("m.m", "integer", 0, low=64, high=999, special=(0,), attributes={RISK: 2.0}, group="m")
    assert moderate(SearchSpace([unlimited]), Change(("m.m",), 640)) is None


def test_risky_changes_are_few_or_none() -> None:
    space = made(risks={"heap": "memory", "threads": "data"})
    small = small_of(space, most_risky=1)
    assert [kept.risk for kept in small.kept].count("data") == 1
    assert sum(kept.risk != "none" for kept in small.kept) == 1
    assert small.full["s0.heap"] in range(380, 401), "900 was far above the default of 100"
    assert small.full["s6.heap"] == 300
    assert small.full["s0.threads"] == 2
    none = small_recommendation(space, told(space), full(space), most_risky=0)
    assert none is None or all(kept.risk == "none" for kept in none.kept)


def test_the_deviation_of_a_difference_is_that_of_the_joint_posterior() -> None:
    """Against the covariance that follows from what is left of the one's variance after the other is observed."""
    model = ValueModel.of(SPACE, told(SPACE))
    assert model is not None
    point, other = full(SPACE), SPACE.default().replace({"s0.heap": 500})
    mean, deviation = model.difference([point, other], other)
    assert mean[0] == pytest.approx(float(np.diff(model.expect([other, point]))[0]))
    assert (mean[1], deviation[1]) == (pytest.approx(0.0, abs=1e-9), pytest.approx(0.0, abs=1e-4))
    x = model.encoder.encode(model.encoder.units([point, other]))
    _, before = model.process.predict(x)
    known = model.process.with_more(x[1:], np.zeros(1))
    _, after = known.predict(x[:1])
    observed = before[1] ** 2 + model.process._extra + JITTER
    covariance = math.sqrt((before[0] ** 2 - after[0] ** 2) * observed)
    expected = [math.sqrt(before[0] ** 2 + before[1] ** 2 - 2 * sign * covariance) for sign in (1, -1)]
    assert any(deviation[0] == pytest.approx(model.spread * e, rel=1e-3) for e in expected)
