"""The CPU time of services per request, learnt from trials that follow a known law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.algorithms.tailor import Tailor
from optimizer.errors import InvalidObservation
from optimizer.models.resource_model import ResourceModel
from optimizer.models.surrogate import Encoder
from optimizer.sampling import latin_hypercube
from optimizer.space import Configuration, Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

NOISE = 0.3  # of a value, in logarithms
SERVICES = [f"s{number}" for number in range(8)]
SPACE = SearchSpace(
    [
        parameter
        for name in SERVICES
        for parameter in (
            Parameter(f"{name}.threads", "integer", 4, low=1, high=8, scale="log", group=name),
            Parameter(f"{name}.pool", "integer", 0, low=4, high=64, scale="log", special=(0,), group=name),
            Parameter(f"{name}.policy", "categorical", "a", choices=("a", "b", "c"), group=name),
        )
    ]
)  # fmt: skip


def costs_of(configuration: Configuration, slowness: float = 1.0) -> dict[str, float]:
    """Threads cost the root of their number, policy c a fifth more, no pool a third more; some services are larger."""
    costs = {"outside": 50.0 * slowness}  # a group without parameters
    for number, name in enumerate(SERVICES):
        threads, pool = configuration[f"{name}.threads"], configuration[f"{name}.pool"]
        assert isinstance(threads, int)
        factor = (threads / 4) ** 0.5 * (1.2 if configuration[f"{name}.policy"] == "c" else 1.0)
        costs[name] = 100.0 * (1 + number) * factor * (4 / 3 if pool == 0 else 1.0) * slowness
    return costs


def test_the_law_is_found_from_few_trials() -> None:
    rng = np.random.default_rng(2)
    encoder = Encoder(SPACE)
    tried = latin_hypercube(SPACE, 8, rng)
    taken = []
    for configuration in tried:
        slowness = float(np.exp(rng.normal(0.0, 0.15)))
        taken.append(
            {
                name: cost * float(np.exp(rng.normal(0.0, 0.03)))
                for name, cost in costs_of(configuration, slowness).items()
            }
        )
    model = ResourceModel(SPACE, encoder.columns, encoder.encode(encoder.units(tried)), taken)
    others = latin_hypercube(SPACE, 50, rng)
    said = model.at(encoder.encode(encoder.units(others)))
    true = [math.log(sum(costs_of(configuration).values())) for configuration in others]
    assert np.corrcoef(said, true)[0, 1] > 0.95


def observed(configuration: Configuration, ask: int | None, *, with_costs: bool) -> Observation:
    """Latency goes with the sum of the costs; the noise, which belongs to the configuration, hides most of that."""
    noise = float(np.random.default_rng(int(configuration.digest(), 16)).normal(0.0, NOISE))
    costs = costs_of(configuration, math.exp(noise / 2))
    value = sum(costs_of(configuration).values()) / 100 * math.exp(noise)
    return Observation(
        configuration, ObservationState.COMPLETED, value, NOISE * value, ask, costs=costs if with_costs else {}
    )


def best_found(seed: int, *, with_costs: bool) -> float:
    """Return the true cost of the configuration that is recommended after 10 trials."""
    search = Tailor(SPACE, seed=seed, budget=10, start=SPACE.default())
    for _ in range(10):
        (suggestion,) = search.ask()
        search.tell([observed(suggestion.configuration, suggestion.ask, with_costs=with_costs)])
    recommended = search.recommend()
    assert recommended is not None
    return sum(costs_of(recommended).values())


def test_tailor_finds_more_where_it_knows_what_services_compute() -> None:
    with_, without = (
        np.mean([math.log(best_found(seed, with_costs=known)) for seed in range(6)]) for known in (True, False)
    )
    assert with_ < without


@pytest.mark.parametrize("cost", [0.0, -1.0, math.nan, math.inf])
def test_costs_are_above_zero(cost: float) -> None:
    with pytest.raises(InvalidObservation, match="a cost is finite and above 0"):
        Observation(SPACE.default(), ObservationState.COMPLETED, 1.0, costs={"s0": cost})
