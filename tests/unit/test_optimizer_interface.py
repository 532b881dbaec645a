"""Trials, the base class, sampling and the registry."""

from __future__ import annotations

import math
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from optimizer import registry
from optimizer.algorithms.dds import DDS
from optimizer.algorithms.random import Random
from optimizer.base import Optimizer
from optimizer.errors import (
    InvalidInput,
    InvalidObservation,
    InvalidOption,
    InvalidSuggestion,
    NameCollision,
    PluginBroken,
    SearchExhausted,
    UnknownOptimizer,
)
from optimizer.sampling import design_size, every, latin_hypercube, unseen
from optimizer.space import Configuration, LinearConstraint, Parameter, SearchSpace
from optimizer.testing.problems import mixed_space, tiny_space
from optimizer.trial import Observation, ObservationState

ONE = Configuration({"a": 1, "b": "x"})
COMPLETED, FAILED = ObservationState.COMPLETED, ObservationState.FAILED


# ---------------------------------------------------------------------- observations


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_completed_trial_needs_a_finite_value(value: float | None) -> None:
    with pytest.raises(InvalidObservation, match="finite value"):
        Observation(ONE, COMPLETED, value)


@pytest.mark.parametrize("state", [FAILED, ObservationState.INFEASIBLE, ObservationState.ABORTED])
def test_no_other_state_has_a_value(state: ObservationState) -> None:
    assert Observation(ONE, state).value is None
    with pytest.raises(InvalidObservation, match="has no value"):
        Observation(ONE, state, 1e9)
    with pytest.raises(InvalidObservation, match="has no value"):
        Observation(ONE, state, standard_error=1.0)


def test_other_contradictions_are_refused() -> None:
    with pytest.raises(InvalidObservation, match="standard error"):
        Observation(ONE, COMPLETED, 1.0, -1.0)
    with pytest.raises(InvalidObservation, match="from 0"):
        Observation(ONE, COMPLETED, 1.0, ask=-1)
    with pytest.raises(InvalidObservation, match="known: completed, failed, infeasible, aborted"):
        Observation(ONE, "lost")  # type: ignore[arg-type]  # what a careless caller may pass


# ---------------------------------------------------------------------- the base class


def test_options_are_checked_and_listed() -> None:
    assert DDS(tiny_space(), seed=0, budget=9).options == {"r": 0.2}
    with pytest.raises(InvalidOption, match="dds has no option 'radius'; known: r"):
        DDS(tiny_space(), seed=0, budget=9, radius=1)
    with pytest.raises(InvalidOption, match="r: found 7; allowed: a number from"):
        DDS(tiny_space(), seed=0, budget=9, r=7)
    with pytest.raises(InvalidInput, match="dds needs a budget"):
        DDS(tiny_space(), seed=0)


def test_a_start_that_breaks_a_constraint_is_refused() -> None:
    space = mixed_space()
    start = space.default().replace({"web.workers": 32, "cache.memory_mib": 2048})
    with pytest.raises(InvalidInput, match="breaks a constraint"):
        Random(space, seed=0, start=start)


def test_a_batch_at_the_end_of_the_space_is_shorter() -> None:
    optimizer = Random(tiny_space(), seed=0)
    assert len(optimizer.ask(4)) == 4
    assert len(optimizer.ask(4)) == 2
    with pytest.raises(SearchExhausted, match="every configuration"):
        optimizer.ask(4)


def test_scores_are_means_of_what_was_told_and_failed_trials_have_none() -> None:
    optimizer = Random(tiny_space(), seed=0)
    other = Configuration({"a": 2, "b": "x"})
    optimizer.tell([Observation(ONE, COMPLETED, 1.0), Observation(ONE, COMPLETED, 4.0), Observation(other, FAILED)])
    assert optimizer.best() == (ONE, 2.5, 0.0)
    optimizer.tell([Observation(other, COMPLETED, 2.0)])
    assert optimizer.scores() == [(other, 2.0, 0.0), (ONE, 2.5, 0.0)]


class Careless(Optimizer):
    name, summary, source = "careless", "suggests what it is told to", "this test"

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        return Configuration({"a": (1, 1, 99)[index], "b": "x"}), ""


class Rebel(Careless):
    name = "rebel"

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        return Configuration({"a": 3, "b": "x"}), ""


def test_suggestions_are_checked_so_that_a_plug_in_cannot_harm_a_study() -> None:
    optimizer = Careless(tiny_space(), seed=0)
    optimizer.ask()
    with pytest.raises(InvalidSuggestion, match="again at ask 1"):
        optimizer.ask()
    moved_on = Careless(tiny_space(), seed=0)
    moved_on.tell([Observation(ONE, COMPLETED, 1.0, ask=1)])
    with pytest.raises(InvalidSuggestion, match="left the space at ask 2"):
        moved_on.ask()
    space = SearchSpace(tiny_space().parameters, [LinearConstraint({"a": 1}, 2)])
    with pytest.raises(InvalidSuggestion, match="broke a constraint"):
        Rebel(space, seed=0).ask()


def test_streams_of_other_keys_differ() -> None:
    optimizer = Random(tiny_space(), seed=0)
    draws = {float(optimizer.stream(*key).random()) for key in ((0, 1), (0, 2), (1,), (1, 0), (0, 1, 0))}
    assert len(draws) == 5


# ---------------------------------------------------------------------- sampling


@pytest.mark.parametrize(
    ("dimensions", "budget", "size"),
    [(10, 15, 5), (100, 100, 33), (2, 100, 5), (20, 1, 1), (3, None, 5), (50, None, 10)],
)
def test_a_design_is_at_most_a_third_of_the_budget(dimensions: int, budget: int | None, size: int) -> None:
    assert design_size(dimensions, budget) == size


def test_a_latin_hypercube_has_one_point_in_each_stratum() -> None:
    space = SearchSpace([Parameter(f"x{j}", "real", 0.5, low=0, high=1) for j in range(4)])
    points = np.array([space.to_unit(point) for point in latin_hypercube(space, 8, np.random.default_rng(0))])
    for column in points.T:
        assert sorted(np.floor(column * 8).astype(int)) == list(range(8))


def test_the_last_configuration_of_a_large_countable_space_is_found() -> None:
    space = SearchSpace([Parameter(name, "integer", 1, low=1, high=100) for name in "ab"])
    everything = every(space)
    assert len(everything) == 10_000
    assert unseen(space, np.random.default_rng(0), set(everything[:-1])) == everything[-1]


def test_constraints_that_leave_nothing_to_draw_end_the_search() -> None:
    space = SearchSpace(
        [Parameter("x", "real", 0, low=0, high=1), Parameter("y", "real", 0, low=0, high=1)],
        [LinearConstraint({"x": 1, "y": 1}, 0)],
    )
    assert every(space) == []
    with pytest.raises(SearchExhausted, match="leave almost nothing"):
        unseen(space, np.random.default_rng(0), set())


def test_importing_the_library_imports_nothing_heavy() -> None:
    code = (
        "import sys, optimizer.registry, optimizer.testing, optimizer.algorithms.bayesian, optimizer.algorithms.dds;"
        "print([name for name in ('scipy', 'sklearn', 'skopt') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------- the registry


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, registry.GROUP)


def test_built_in_optimizers_come_through_the_entry_points() -> None:
    assert registry.load("dds") is DDS
    assert set(registry.load_all().working) >= {"random", "dds", "dds-grow", "bo-gp"}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownOptimizer, match=r"'dss' \(did you mean 'dds'\?\); known: ax, bo-gbrt, .*, random"):
        registry.load("dss")


def test_a_collision_is_an_error() -> None:
    entries = [entry("dds", "optimizer.algorithms.dds:DDS"), entry("dds", "elsewhere:DDS")]
    with pytest.raises(NameCollision, match="elsewhere:DDS of an unknown distribution"):
        registry.names(entries)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:X", "ModuleNotFoundError"),
        ("optimizer.algorithms.dds:Nope", "AttributeError"),
        ("optimizer.space:Configuration", "is not a subclass"),
        ("optimizer.algorithms.dds:perturbed", "is not a subclass"),
        ("optimizer.algorithms.dds:DDS", "calls itself 'dds'"),
    ],
)
def test_a_broken_plug_in_is_reported_and_hides_no_other(value: str, message: str) -> None:
    entries = [entry("bad", value), entry("random", "optimizer.algorithms.random:Random")]
    assert registry.names(entries) == ("bad", "random")
    plugins = registry.load_all(entries)
    assert plugins.working == {"random": Random}
    assert message in str(plugins.broken["bad"])
    with pytest.raises(PluginBroken, match="plug-in 'bad'"):
        registry.load("bad", entries)


def test_an_installed_plug_in_is_found_and_a_broken_one_names_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "tailor_example-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tailor-example\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(
        "[tailor.optimizers]\nexample = tailor_example:Example\nexploding = tailor_exploding:Example\n"
    )
    (tmp_path / "tailor_example.py").write_text(
        "from optimizer.algorithms.random import Random\nclass Example(Random):\n    name = 'example'\n"
    )
    (tmp_path / "tailor_exploding.py").write_text("raise ValueError('boom')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = registry.load_all()
    assert issubclass(plugins.working["example"], Random)
    assert "tailor-example 1.2 cannot be imported: ValueError: boom" in str(plugins.broken["exploding"])
    assert "dds" in plugins.working
