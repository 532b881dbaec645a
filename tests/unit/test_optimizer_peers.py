"""Adapters of other libraries' optimizers, shipped and raced ones: they tell these libraries all that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.bench.optimizers import turbo
from experiments.bench.optimizers.hebo_peer import HEBO
from experiments.bench.optimizers.peers import NGOpt, NGOptCube
from experiments.bench.optimizers.turbo import FIRST, Cube, TuRBO, known_errors
from optimizer.algorithms.ax import Ax, _choices
from optimizer.algorithms.optuna import OptunaCMA
from optimizer.algorithms.smac import SMAC
from optimizer.base import Optimizer
from optimizer.errors import LibraryMissing
from optimizer.space import Configuration, Parameter, SearchSpace, Value
from optimizer.testing.problems import mixed_space, value_of
from optimizer.trial import Observation, ObservationState

COMPLETED, FAILED = ObservationState.COMPLETED, ObservationState.FAILED
SPACE = mixed_space()
LINE = SearchSpace([Parameter("x", "real", 0.5, low=0, high=1), Parameter("n", "integer", 4, low=1, high=8)])


def made(kind: type[Optimizer], *, space: SearchSpace = LINE, budget: int = 12, **options: Any) -> Any:
    """Return an optimizer; skip the test where its library is not installed."""
    try:
        return kind(space, seed=1, budget=budget, start=space.default(), **options)
    except LibraryMissing as missing:
        pytest.skip(str(missing))


def run(
    search: Optimizer,
    count: int,
    error: Callable[[int], float | None] = lambda index: 0.01,
    state: Callable[[int], ObservationState] = lambda index: COMPLETED,
) -> list[Configuration]:
    """Return the configurations of ``count`` asks; ``error`` and ``state`` of the number of the ask."""
    asked = []
    for index in range(count):
        [suggestion] = search.ask()
        asked.append(suggestion.configuration)
        value = value_of(search.space, suggestion.configuration)
        told = Observation(suggestion.configuration, COMPLETED, value, error(index), suggestion.ask)
        if state(index) is not COMPLETED:
            told = replace(told, state=state(index), value=None, standard_error=None)
        search.tell([told])
    return asked


# ---------------------------------------------------------------------- the library's own settings


@pytest.mark.parametrize(("budget", "points"), [(50, 12), (15, 3), (2, 1), (1000, 20)])
def test_smac_begins_with_a_quarter_of_the_budget_at_most(budget: int, points: int) -> None:
    search = SMAC(LINE, seed=1, budget=budget)
    assert len(search._smac._initial_design.select_configurations()) == points


@pytest.mark.parametrize(("budget", "size"), [(50, 10), (15, 5), (6, 4), (None, 10)])
def test_generations_of_cma_es_are_optunas_own_or_a_third_of_the_budget(budget: int | None, size: int) -> None:
    assert OptunaCMA(SPACE, seed=1, budget=budget)._study.sampler._popsize == size


# ---------------------------------------------------------------------- Ax


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        (("a", "b"), ["a", "b"]),
        ((1, 2, 8), [1, 2, 8]),
        ((1, 2.5), [1.0, 2.5]),
        ((1, 1.0), ["0", "1"]),  # two choices, one number
        (("auto", 1, True), ["0", "1", "2"]),
    ],
)
def test_choices_have_one_kind_for_ax(choices: tuple[Value, ...], told: list[Any]) -> None:
    mapping = _choices(Parameter("p", "categorical", choices[0], choices=choices))
    assert [(type(key), key) for key in mapping] == [(type(key), key) for key in told]
    assert [(type(choice), choice) for choice in mapping.values()] == [(type(choice), choice) for choice in choices]


def test_ax_is_told_standard_errors_of_all_values_or_of_none() -> None:
    search = made(Ax)
    run(search, 3)
    search.ask()
    assert not search._client._experiment.lookup_data().df["sem"].isna().any()
    run(search, 1, error=lambda index: None)
    run(search, 2)  # it fits its model to all six
    assert search._client._experiment.lookup_data().df["sem"].isna().all()


def test_ax_is_told_the_start_as_its_first_trial_and_has_no_centre() -> None:
    search = made(Ax)
    search.tell([Observation(LINE.default(), COMPLETED, 1.0, 0.1)])
    [suggestion] = search.ask()
    trials = search._client._experiment.trials
    assert next(iter(trials.values())).arm.parameters == {"x0": 0.5, "x1": 4}
    assert [node.name for node in search._client._generation_strategy._nodes] == ["Sobol", "MBM"]
    assert suggestion.configuration != LINE.default()


@pytest.mark.parametrize(("failures", "failed", "told"), [("left out", 2, 3), ("worst value", 0, 5)])
def test_failed_trials_are_left_out_by_ax_or_have_the_worst_value(failures: str, failed: int, told: int) -> None:
    search = made(Ax, failures=failures)
    run(search, 5, state=lambda index: FAILED if index in (1, 3) else COMPLETED)
    search.ask()
    trials = search._client._experiment.trials.values()
    assert sum(trial.status.is_failed for trial in trials) == failed
    means = search._client._experiment.lookup_data().df["mean"]
    assert len(means) == told
    assert failures == "left out" or sum(means == max(means)) >= 2


def test_ax_leaves_constants_out() -> None:
    constant = Parameter("c", "categorical", "only", choices=("only",))
    search = made(Ax, space=SearchSpace([*LINE.parameters, constant]))
    assert {configuration["c"] for configuration in run(search, 3)} == {"only"}
    assert list(search._client._experiment.search_space.parameters) == ["x0", "x1"]


def test_torchs_random_state_is_its_users() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    search = made(Ax)
    run(search, 2)
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------------------- TuRBO


@given(st.lists(st.floats(0, 1), min_size=len(SPACE), max_size=len(SPACE)))
def test_a_configuration_is_that_of_its_own_point(unit: list[float]) -> None:
    cube = Cube(SPACE)
    configuration = SPACE.from_unit(unit)
    point = cube.encode(configuration)
    assert point.shape == (cube.width,) == (len(SPACE) + 3,)  # four choices in place of one number
    assert point.min() >= 0
    assert point.max() <= 1
    again = cube.decode(point)
    for parameter in SPACE.parameters:  # reals are rounded to a millionth of their range
        assert parameter.to_unit(again[parameter.name]) == pytest.approx(
            parameter.to_unit(configuration[parameter.name]), abs=2e-6
        )


def test_a_failed_trial_does_not_hide_the_standard_errors_of_the_others() -> None:
    first, second = (Observation(LINE.default(), COMPLETED, 2.0, error) for error in (0.1, 0.3))
    unknown, failed = replace(first, standard_error=None), Observation(LINE.default(), FAILED)
    errors = known_errors([first, failed, second])
    assert errors is not None
    assert errors.tolist() == [0.1, 0.3, 0.3]
    assert known_errors([first, unknown]) is None
    assert known_errors([failed]) is None


def test_the_trust_region_grows_after_successes_and_shrinks_after_failures() -> None:
    search = made(TuRBO, budget=30)
    search._best = 10.0
    for value in (9.0, 9.0, 9.0):
        search._resize(value)
    assert search._length == 2 * FIRST
    for value in (9.0, 9.0, 9.995, 9.0, 9.0):  # the third is no success: the gain is too small
        search._resize(value)
    assert search._length == 2 * FIRST
    for _ in range(4):
        search._resize(11.0)
    assert search._length == FIRST


def test_turbo_begins_again_where_its_region_has_become_too_short() -> None:
    search = made(TuRBO, budget=12)
    run(search, 5)
    search.ask()
    search._length = 0.0
    search._inform(None, Observation(LINE.default(), COMPLETED, 2.0), 2.0)
    assert (search._regions, search._length, search._values) == (2, FIRST, [])
    run(search, 2)


# ---------------------------------------------------------------------- nevergrad, HEBO


def test_no_module_beside_the_runner_hides_a_library() -> None:
    """A script's folder is the first place where Python looks."""
    libraries = {"ax", "botorch", "cmaes", "hebo", "hyperopt", "nevergrad", "optuna", "pymoo", "skopt", "smac", "torch"}
    beside = {path.stem for path in Path(turbo.__file__).parent.glob("*.py")}
    assert "turbo" in beside
    assert not beside & libraries


@pytest.mark.parametrize("kind", [NGOpt, NGOptCube, HEBO])
def test_raced_peers_stay_in_a_mixed_space_and_do_not_repeat_themselves(kind: type[Optimizer]) -> None:
    search = made(kind, space=SPACE, budget=6)
    asked = run(search, 6)
    assert len(set(asked)) == 6
    assert all(SPACE.validate(configuration) == configuration for configuration in asked)
    assert [search.space.is_feasible(configuration) for configuration in asked] == [True] * 6


def test_nevergrad_is_told_kinds_scales_and_the_start() -> None:
    start = SPACE.default()
    described = made(NGOpt, space=SPACE)._described
    kinds = {name: type(parameter).__name__ for name, parameter in described._content.items()}
    assert kinds["web.nodelay"] == kinds["cache.policy"] == "Choice"
    assert kinds["db.timeout_s"] == kinds["web.backlog"] == "Log"
    assert kinds["web.workers"] == "Scalar"
    for name in ("web.nodelay", "cache.policy", "web.workers", "web.backlog"):
        assert described.value[name] == start[name]
        assert type(described.value[name]) is type(start[name])
