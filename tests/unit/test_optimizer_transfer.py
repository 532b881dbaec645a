"""Effects of parameters that are learnt in one application and used in another that shares types of servers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.algorithms.dds import DDS
from optimizer.algorithms.tailor import Tailor
from optimizer.errors import InvalidInput
from optimizer.models.effects import Effect, EffectPoint, Measured, learnt_effects, parameter_names
from optimizer.models.simulator_prior import Modelled, PriorMean, fitted_rho
from optimizer.models.surrogate import Encoder
from optimizer.models.tied_parameters import ALONE
from optimizer.models.transfer_prior import TransferPrior
from optimizer.sampling import latin_hypercube
from optimizer.space import Condition, Configuration, Parameter, Predicate, SearchSpace, Value
from optimizer.trial import Observation, ObservationState

Truth = Callable[[Mapping[str, Value]], float]


def server(name: str, high: int = 64) -> list[Parameter]:
    """Return the parameters of a database: three of them matter."""
    return [
        Parameter(f"{name}.buffers", "integer", 8, low=1, high=high, scale="log", group=name),
        Parameter(f"{name}.workers", "integer", 4, low=1, high=16, special=(0,), group=name),
        Parameter(f"{name}.policy", "categorical", "a", choices=("a", "b", "c"), group=name),
        Parameter(f"{name}.jit", "boolean", True, group=name),
        Parameter(f"{name}.unused", "real", 0.5, low=0.0, high=1.0, group=name),
    ]


def application(databases: Sequence[str], others: int, high: int = 64) -> tuple[SearchSpace, dict[str, str]]:
    """Return a space with databases and other servers, and the types of all."""
    rest = [
        Parameter(f"own{number}.x{place}", "real", 0.5, low=0.0, high=1.0, group=f"own{number}")
        for number in range(others)
        for place in range(4)
    ]
    parameters = [parameter for name in databases for parameter in server(name, high)]
    types = dict.fromkeys(databases, "database") | {f"own{number}": f"kind{number}" for number in range(others)}
    return SearchSpace(parameters + rest), types


def truth_of(databases: Sequence[str]) -> Truth:
    """Return the logarithm of the latency of such an application."""

    def truth(values: Mapping[str, Value]) -> float:
        total = 0.0
        for name in databases:
            buffers, workers = float(values[f"{name}.buffers"]), float(values[f"{name}.workers"])
            total += 0.1 * (math.log(buffers / 40.0)) ** 2 + 0.02 * abs(workers - 11) + (0.3 if workers == 0 else 0.0)
            total += {"a": 0.2, "b": 0.0, "c": 0.3}[str(values[f"{name}.policy"])]
        return total / len(databases)

    return truth


HERE, TYPES_HERE = application(["users", "posts"], others=3)
THERE, TYPES_THERE = application(["orders", "stock", "prices"], others=1)
TRUTH_HERE, TRUTH_THERE = truth_of(["users", "posts"]), truth_of(["orders", "stock", "prices"])


def results(count: int = 30, sign: float = 1.0, noise: float = 0.02) -> list[Measured]:
    """Return measured configurations of the other application, the default first."""
    rng = np.random.default_rng(4)
    points = [THERE.default(), *latin_hypercube(THERE, count, rng)]
    level = TRUTH_THERE(THERE.default())
    values = [sign * (TRUTH_THERE(point) - level) + noise * float(rng.standard_normal()) for point in points]
    return [Measured(point.to_dict(), value, noise) for point, value in zip(points, values, strict=True)]


def learnt(**more: float) -> tuple[Effect, ...]:
    return learnt_effects(THERE, TYPES_THERE, results(**more))  # type: ignore[arg-type]  # of the same names


def effect_of(effects: Sequence[Effect], name: str) -> Effect:
    [effect] = [effect for effect in effects if (effect.server, effect.parameter) == ("database", name)]
    return effect


def test_effects_are_those_of_all_servers_of_a_type() -> None:
    effects = learnt(count=120)
    assert {effect.server for effect in effects} == {"database", "kind0"}
    policy = {point.value: point for point in effect_of(effects, "policy").levels}
    assert policy["a"].log_ratio == policy["a"].deviation == 0.0, "the default"
    assert policy["b"].log_ratio == pytest.approx(-0.2, abs=0.1)
    assert policy["b"].log_ratio < -2 * policy["b"].deviation
    buffers = effect_of(effects, "buffers")
    for value in (2, 16, 40, 64):
        expected = 0.1 * (math.log(value / 40.0) ** 2 - math.log(8 / 40.0) ** 2)
        point = buffers.at(value)
        assert point is not None
        assert point.log_ratio == pytest.approx(expected, abs=max(0.1, 3 * point.deviation))
    off = effect_of(effects, "workers").at(0)
    assert off is not None
    assert off.log_ratio > 0.1, "a special value has an effect of its own"
    unused = [abs(point.log_ratio) for point in effect_of(effects, "unused").curve]
    assert max(unused) < 0.1


def test_the_best_configuration_there_is_a_median_and_a_vote() -> None:
    effects = learnt(count=60)
    best = min(results(count=60), key=lambda result: result.log_ratio or 0.0).values
    values = [best[f"{name}.buffers"] for name in ("orders", "stock", "prices")]
    assert effect_of(effects, "buffers").best in values
    assert effect_of(effects, "policy").best in ("a", "b")


def test_a_failure_counts_as_worse_than_the_worst() -> None:
    good = results(count=40, noise=0.01)
    failed = [
        Measured(result.values, None) if float(result.values["orders.unused"]) > 0.6 else result for result in good
    ]
    failing = effect_of(learnt_effects(THERE, TYPES_THERE, failed), "unused").at(1.0)
    passing = effect_of(learnt_effects(THERE, TYPES_THERE, good), "unused").at(1.0)
    assert failing is not None
    assert passing is not None
    assert failing.log_ratio > passing.log_ratio + 0.02


def test_too_few_results_and_groups_without_a_type() -> None:
    with pytest.raises(InvalidInput, match="found 7 configurations with a value; allowed: at least 8"):
        learnt_effects(THERE, TYPES_THERE, results(count=6))
    again = [*results(count=6), *results(count=6)]
    with pytest.raises(InvalidInput, match="found 7"):
        learnt_effects(THERE, TYPES_THERE, again)
    assert learnt_effects(THERE, {}, results(count=10)) == ()


def test_places_are_not_carried_over() -> None:
    place = Parameter("users.place", "categorical", "0", choices=("0", "1"), group="users", attributes={ALONE: 1.0})
    space = SearchSpace([*server("users"), place])
    assert parameter_names(space, {"users": "database"}) == {
        "database": {"buffers", "workers", "policy", "jit", "unused"}
    }
    points = [Measured(point.to_dict(), 0.1, 0.1) for point in latin_hypercube(space, 12, np.random.default_rng(1))]
    effects = learnt_effects(space, {"users": "database"}, points)
    assert "place" not in {effect.parameter for effect in effects}
    known = Effect("database", "place", "linear", (), (EffectPoint("0", 0.0, 0.0), EffectPoint("1", -1.0, 0.1)), "1")
    assert TransferPrior(space, {"users": "database"}, [known]).best(3) == []


def test_an_effect_at_any_value() -> None:
    curve = (EffectPoint(1, 0.0, 0.0), EffectPoint(100, -1.0, 0.2))
    effect = Effect("d", "p", "log", curve, (EffectPoint(0, 0.5, 0.1),), 100)
    between = effect.at(10)
    assert between is not None
    assert between.log_ratio == pytest.approx(-0.5)
    assert between.deviation == pytest.approx(0.1)
    assert effect.at(1000) == EffectPoint(1000, -1.0, 0.2), "that of the nearest end"
    assert effect.at(0) == EffectPoint(0, 0.5, 0.1)
    assert effect.at(-1) is None
    assert effect.at("x") is None
    assert effect.at(False) is None, "not the special value 0"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_prior_mean_is_the_sum_of_the_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    effects = [
        Effect("database", "buffers", "log", tuple(points(rng, (1, 8, 64))), (), 64),
        Effect("database", "workers", "linear", tuple(points(rng, (1, 4, 16))), tuple(points(rng, (0,))), 0),
        Effect("database", "policy", "linear", (), tuple(points(rng, ("a", "b", "c"))), "b"),
        Effect("database", "jit", "linear", (), tuple(points(rng, (False, True))), False),
        Effect("database", "unused", "linear", tuple(points(rng, (0.0, 1.0))), (), 0.25),
    ]
    prior = TransferPrior(HERE, TYPES_HERE, effects)
    encoder = Encoder(HERE)
    configurations = [HERE.default(), *latin_hypercube(HERE, 8, rng), *prior.best(8)]
    said = prior.at(encoder.encode(encoder.units(configurations)))
    assert said[0] == pytest.approx(0.0, abs=1e-12)
    for configuration, log_ratio in zip(configurations, said, strict=True):
        expected = sum(
            (value.log_ratio - default.log_ratio) / 2
            for effect in effects
            for name in ("users", "posts")
            if (value := effect.at(configuration[f"{name}.{effect.parameter}"])) is not None
            and (default := effect.at(HERE[f"{name}.{effect.parameter}"].default)) is not None
        )
        assert log_ratio == pytest.approx(expected, abs=0.02), "linear between nodes"
    for configuration in prior.best(8):
        assert prior.gain(configuration)[0] == pytest.approx(said[configurations.index(configuration)], abs=0.02)


def points(rng: np.random.Generator, values: Sequence[Value]) -> list[EffectPoint]:
    return [EffectPoint(value, float(rng.normal()), float(rng.uniform(0.0, 0.5))) for value in values]


def test_servers_have_equal_parts_of_an_effect() -> None:
    effect = Effect("database", "policy", "linear", (), (EffectPoint("a", 0.0, 0.0), EffectPoint("b", -1.0, 0.1)), "b")
    prior = TransferPrior(HERE, TYPES_HERE, [effect])
    assert prior.gain(HERE.default().replace({"users.policy": "b"}))[0] == pytest.approx(-0.5)
    assert prior.gain(HERE.default().replace({"users.policy": "b", "posts.policy": "b"}))[0] == pytest.approx(-1.0)


def test_measurements_have_to_confirm_it() -> None:
    rng = np.random.default_rng(3)
    predicted = rng.standard_normal(10)
    noise = rng.standard_normal(10)
    assert fitted_rho(predicted, predicted, 0.0) == pytest.approx(1.0, abs=0.05)
    assert fitted_rho(predicted, -predicted, 0.0) == 0.0
    assert fitted_rho(predicted, 0.1 * predicted + noise, 0.0) < fitted_rho(predicted, 0.1 * predicted + noise)
    assert fitted_rho(predicted[:1], predicted[:1], 0.0) == 0.0, "nothing is known yet"


def test_sources_count_by_their_precision() -> None:
    def source(change: float, deviation: float) -> Effect:
        return Effect(
            "database", "policy", "linear", (), (EffectPoint("a", 0.0, 0.0), EffectPoint("b", change, deviation)), "b"
        )

    moved = HERE.default().replace({"users.policy": "b", "posts.policy": "b"})
    alone, doubt = TransferPrior(HERE, TYPES_HERE, [source(-0.3, 0.05)]).gain(moved)
    assert alone == pytest.approx(-0.3)
    both, less = TransferPrior(HERE, TYPES_HERE, [source(-0.3, 0.05), source(0.3, 5.0)]).gain(moved)
    assert both == pytest.approx(-0.3, abs=0.01)
    assert less <= doubt


def test_the_best_keep_constraints_and_conditions() -> None:
    parameters = [
        Parameter("d.size", "integer", 8, low=1, high=64, group="d"),
        Parameter("d.more", "integer", 8, low=1, high=64, group="d"),
        Parameter("d.on", "boolean", False, group="d"),
        Parameter("d.depth", "integer", 1, low=1, high=9, group="d", condition=Condition("d.on", (True,))),
    ]
    space = SearchSpace(parameters, [Predicate("{d.size} + {d.more} <= 80")])
    ordered = (EffectPoint(1, 1.0, 0.1), EffectPoint(64, -1.0, 0.1))
    effects = [Effect("database", name, "linear", ordered, (), 64) for name in ("size", "more", "depth")]
    best = TransferPrior(space, {"d": "database"}, effects).best(8)
    assert best
    assert len(set(best)) == len(best)
    for configuration in best:
        assert space.is_feasible(configuration)
        assert configuration["d.depth"] == 1, "it means nothing while d.on is off"
        assert configuration != space.default()


def test_the_prior_takes_the_optimizers_place_of_a_model() -> None:
    prior = TransferPrior(HERE, TYPES_HERE, learnt())
    two: PriorMean = prior
    with pytest.raises(InvalidInput, match="found both"):
        Tailor(HERE, seed=1, prior=two, modelled=[Modelled(HERE.default(), 0.0), Modelled(HERE.default(), 0.1)])
    with pytest.raises(InvalidInput, match="dds does not learn"):
        DDS(HERE, seed=1, budget=5, prior=two)


def searched(seed: int, prior: TransferPrior | None, budget: int = 15) -> tuple[list[float], list[Configuration]]:
    """Return the true logarithm of the recommendation after each trial, and the configurations tried."""
    optimizer = Tailor(HERE, seed=seed, budget=budget, start=HERE.default(), prior=prior)
    rng = np.random.default_rng([seed, 8])

    def measured(configuration: Configuration, ask: int | None) -> Observation:
        value = math.exp(TRUTH_HERE(configuration) + 0.03 * float(rng.standard_normal()))
        return Observation(configuration, ObservationState.COMPLETED, value, 0.03 * value, ask)

    optimizer.tell([measured(HERE.default(), None)])
    values, tried = [], []
    for _ in range(budget):
        [suggestion] = optimizer.ask()
        tried.append(suggestion.configuration)
        optimizer.tell([measured(suggestion.configuration, suggestion.ask)])
        values.append(TRUTH_HERE(optimizer.recommend() or HERE.default()))
    return values, tried


def test_a_good_source_saves_a_third_of_the_trials() -> None:
    prior = TransferPrior(HERE, TYPES_HERE, learnt())
    alone = [searched(seed, None)[0] for seed in range(4)]
    helped = [searched(seed, prior)[0] for seed in range(4)]
    assert np.mean([values[9] for values in helped]) < np.mean([values[14] for values in alone])
    assert np.mean([values[0] for values in helped]) < np.mean([values[0] for values in alone])


def test_a_source_that_is_wrong_costs_its_own_trials() -> None:
    wrong = TransferPrior(HERE, TYPES_HERE, learnt(sign=-1.0))
    design = searched(1, None)[1]
    tried = searched(1, wrong)[1]
    assert tried[0] == wrong.best(1)[0]
    assert tried[1] == design[0], "after it the start-up design begins"
    assert wrong.best(2)[1] not in tried[:6]


def test_a_good_source_alternates_with_the_design() -> None:
    prior = TransferPrior(HERE, TYPES_HERE, learnt())
    first, second = prior.best(2)
    tried = searched(1, prior)[1]
    assert tried[0] == first
    assert tried[1] == searched(1, None)[1][0]
    assert tried[2] == second
