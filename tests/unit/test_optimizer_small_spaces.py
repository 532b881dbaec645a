"""Small spaces (few parameters, or few values of each): the start fills them, and effects of parameters add up."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from optimizer.algorithms.tailor import Tailor
from optimizer.models.additive import AdditiveProcess, Layout
from optimizer.models.surrogate import Encoder
from optimizer.sampling import latin_hypercube, uniform, values_are_few
from optimizer.space import Parameter, SearchSpace

SWITCHES = SearchSpace(Parameter(f"p{number}", "boolean", False) for number in range(16))


def integers(count: int, values: int) -> SearchSpace:
    return SearchSpace(Parameter(f"p{number}", "integer", 0, low=0, high=values - 1) for number in range(count))


@pytest.mark.parametrize(
    ("space", "few"),
    [
        (SWITCHES, True),
        (integers(12, 8), True),
        (integers(12, 9), False),
        (integers(6, 1000), True),
        (integers(7, 1000), False),
        (SearchSpace(Parameter(f"p{number}", "real", 0.5, low=0.0, high=1.0) for number in range(7)), False),
        (SearchSpace([*SWITCHES.parameters, Parameter("x", "real", 0.5, low=0.0, high=1.0)]), True),
    ],
)
def test_few_values(space: SearchSpace, few: bool) -> None:
    assert values_are_few(space) == few


def test_the_start_fills_a_small_space() -> None:
    optimizer = Tailor(SWITCHES, seed=1, budget=15)
    asked = [optimizer.ask()[0].configuration for _ in range(5)]
    on = np.array([[configuration[name] for name in SWITCHES.names] for configuration in asked])
    assert set(on.sum(axis=0)) <= {2, 3}, "each parameter is on in half of the points, one more or less"
    assert len(set(asked)) == 5


def test_effects_of_single_parameters_are_known_far_away() -> None:
    """Measured at 20 points of 65,536; without parts for single parameters the model knows little elsewhere."""
    rng = np.random.default_rng(2)
    effects = np.array([1.0, -0.8, 0.6, -0.4, 0.3, 0.2, *np.zeros(10)])
    encoder = Encoder(SWITCHES)
    known = encoder.encode(encoder.units(latin_hypercube(SWITCHES, 20, rng)))
    new = encoder.encode(encoder.units([uniform(SWITCHES, rng) for _ in range(300)]))
    y = known @ effects + 0.2 * rng.standard_normal(20)
    agreement = {}
    for alone in (False, True):
        layout = Layout.of(SWITCHES, encoder.columns, np.ones(16), alone=alone)
        process = AdditiveProcess(layout, known, (y - y.mean()) / y.std(), np.full(20, 0.04 / y.var()))
        agreement[alone] = float(spearmanr(process.predict(new)[0], new @ effects).statistic)
    assert agreement[True] > 0.8 > agreement[False] + 0.05
