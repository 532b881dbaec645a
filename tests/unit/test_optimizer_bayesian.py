"""The surrogate's parts, and BO-GP's use of them."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.algorithms.bayesian import BayesianGP
from optimizer.models.surrogate import Encoder, GaussianProcess, standardised, worst_for_failed
from optimizer.space import Configuration, Parameter, SearchSpace, Value
from optimizer.testing.problems import mixed_space
from optimizer.trial import Observation, ObservationState

COMPLETED, FAILED = ObservationState.COMPLETED, ObservationState.FAILED
LINE = SearchSpace([Parameter("x", "real", 0.5, low=0, high=1), Parameter("y", "real", 0.5, low=0, high=1)])


def bowl(configuration: Configuration) -> float:
    return (float(configuration["x"]) - 0.7) ** 2 + 0.2 * (float(configuration["y"]) - 0.2) ** 2


def test_choices_are_one_apart_and_ordered_parameters_keep_their_coordinate() -> None:
    space = SearchSpace(
        [
            Parameter("choice", "categorical", "a", choices=("a", "b", "c")),
            Parameter("switch", "boolean", True),
            Parameter("number", "integer", 1, low=1, high=4),
        ]
    )
    encoder = Encoder(space)
    rows: list[dict[str, Value]] = [{"choice": choice, "switch": choice == "a", "number": 2} for choice in "abc"]
    vectors = encoder.encode(encoder.units([space.validate(row) for row in rows]))
    assert vectors.shape == (3, encoder.width) == (3, 5)
    assert np.linalg.norm(vectors[1] - vectors[2]) == pytest.approx(1.0)
    assert vectors[:, 3].tolist() == [1.0, 0.0, 0.0]
    assert vectors[:, 4].tolist() == [0.375] * 3


def test_the_model_sees_the_values_that_are_run() -> None:
    space = mixed_space()
    encoder = Encoder(space)
    units = np.random.default_rng(0).random((200, len(space)))
    run = encoder.units([space.from_unit(unit) for unit in units])
    np.testing.assert_allclose(encoder.snap(units), run, atol=2e-6)


def test_failed_trials_get_the_worst_value_told_and_aborted_ones_none() -> None:
    first, second, third, fourth = (LINE.from_unit([u, u]) for u in (0.1, 0.2, 0.3, 0.4))
    observations = [
        Observation(first, COMPLETED, 3.0),
        Observation(second, FAILED),
        Observation(third, COMPLETED, 7.0),
        Observation(fourth, ObservationState.ABORTED),
    ]
    assert [value for _, value in worst_for_failed(observations)] == [3.0, 7.0, 7.0]
    assert worst_for_failed(observations[1:2]) == []
    assert observations[1].value is None


def test_the_process_interpolates_in_any_unit() -> None:
    x = np.linspace(0, 1, 12)[:, None]
    y = 1000 + 50 * np.sin(6 * x[:, 0])
    model = GaussianProcess(x, y, seed=0)
    mean, deviation = model.predict(x)
    np.testing.assert_allclose(mean, standardised(y), atol=0.05)
    assert np.all(deviation < 0.1)
    flat = GaussianProcess(x, np.full(12, 5.0), seed=0)
    assert np.all(np.isfinite(flat.predict(x)[0]))


def test_it_finds_the_bottom_of_a_bowl() -> None:
    optimizer = BayesianGP(LINE, seed=0, budget=18)
    for _ in range(18):
        (suggestion,) = optimizer.ask()
        optimizer.tell([Observation(suggestion.configuration, COMPLETED, bowl(suggestion.configuration))])
    best = optimizer.best()
    assert best is not None
    assert best.value < 0.001


def test_pending_suggestions_push_the_next_ones_away() -> None:
    optimizer = BayesianGP(LINE, seed=0, budget=30)
    for suggestion in optimizer.ask(8):
        optimizer.tell(
            [Observation(suggestion.configuration, COMPLETED, bowl(suggestion.configuration), ask=suggestion.ask)]
        )
    batch = optimizer.ask(3)
    points = np.array([LINE.to_unit(suggestion.configuration) for suggestion in batch])
    apart = [np.linalg.norm(points[i] - points[j]) for i in range(3) for j in range(i)]
    assert min(apart) > 0.01


def test_nothing_completed_means_uniform_draws() -> None:
    optimizer = BayesianGP(LINE, seed=0, budget=9)
    optimizer.tell(
        [Observation(suggestion.configuration, FAILED, ask=suggestion.ask) for suggestion in optimizer.ask(3)]
    )
    assert optimizer.ask()[0].note == "uniform: too little is known for a model"


def test_the_design_is_a_third_of_the_budget_and_says_so() -> None:
    notes = [suggestion.note for suggestion in BayesianGP(LINE, seed=0, budget=15).ask(6)]
    assert notes[:5] == [f"Latin hypercube, {j} of 5" for j in range(1, 6)]
    assert not notes[5].startswith("Latin")


def test_results_from_elsewhere_stand_for_points_of_the_design() -> None:
    search = BayesianGP(LINE, seed=1, budget=15, start=LINE.default())
    known = [LINE.default(), *(LINE.from_unit([u, 1.0 - u]) for u in (0.1, 0.4, 0.6))]
    search.tell(Observation(configuration, COMPLETED, bowl(configuration)) for configuration in known)
    notes = [suggestion.note for suggestion in search.ask(3)]
    assert ["hypercube" in note for note in notes] == [True, True, False], notes
