"""Problems of the conformance kit: small spaces, values, and the conversation of a study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from optimizer.base import Optimizer
from optimizer.errors import SearchExhausted
from optimizer.space import (
    Capacity,
    Condition,
    Configuration,
    Derived,
    LinearConstraint,
    LinearEquality,
    Parameter,
    Predicate,
    SearchSpace,
    Value,
)
from optimizer.trial import Observation, ObservationState, Suggestion

BUDGET = 15  # each algorithm's in the paper; `learns` is defined for it
SEED = 7


@dataclass(frozen=True)
class Maker:
    """A factory of new instances of the optimizer under test, and of spaces for them."""

    optimizer_class: type[Optimizer]
    options: dict[str, Any]

    def __call__(
        self, space: SearchSpace, *, seed: int = SEED, budget: int | None = BUDGET, start: Configuration | None = None
    ) -> Optimizer:
        return self.optimizer_class(space, seed=seed, budget=budget, start=start, **self.options)

    def mixed(self) -> SearchSpace:
        """Return a space with all features of a space; for a placement solver, a placement space."""
        return placement_space(6) if self.optimizer_class.places else mixed_space()

    def divided(self) -> SearchSpace:
        """Return a space with equations and derived parameters."""
        return divided_space()

    def tiny(self) -> SearchSpace:
        """Return a space of at most six configurations over a and b."""
        return placement_space(2) if self.optimizer_class.places else tiny_space()

    def other_start(self, space: SearchSpace) -> Configuration:
        """Return a configuration of ``mixed`` that is not its default."""
        if self.optimizer_class.places:
            return space.default().replace({"a": "y", "b": "x"})
        return space.default().replace({"web.workers": 9})


def mixed_space() -> SearchSpace:
    """Return a space with every kind of parameter, a constant, a special value, a condition and two constraints."""
    return SearchSpace(
        [
            Parameter("web.workers", "integer", 4, low=1, high=32, group="web"),
            Parameter("web.backlog", "integer", 512, low=16, high=65536, scale="log", group="web"),
            Parameter("web.nodelay", "boolean", True, group="web"),
            Parameter("web.idle", "integer", 0, low=1, high=256, scale="log", special=(0,), group="web"),
            Parameter(
                "web.idle_s", "real", 60.0, low=1.0, high=600.0, scale="log", group="web",
                condition=Condition("web.idle", low=1),
            ),
            Parameter("cache.memory_mib", "integer", 64, low=64, high=2048, step=256, group="cache"),
            Parameter("cache.growth", "real", 1.25, low=1.01, high=3.0, group="cache"),
            Parameter("cache.policy", "categorical", "lru", choices=("lru", "lfu", "random", "none"), group="cache"),
            Parameter("db.timeout_s", "real", 1.0, low=0.001, high=10.0, scale="log", group="db"),
            Parameter("db.fixed", "integer", 3, low=3, high=3, group="db"),
        ],
        [
            LinearConstraint({"web.workers": 64, "cache.memory_mib": 1}, 3000, "memory"),
            Predicate("{cache.policy} != 'none' or {web.workers} >= 4", "without a cache"),
        ],
    )  # fmt: skip


def divided_space() -> SearchSpace:
    """Return a space with two equations, of reals and of steps, a derived parameter, and one derived from that.

    Of 1000 uniform draws of the searched parameters on their own, fewer than ten leave the solved ones a value.
    """
    shares = [Parameter(f"cache{number}.share", "integer", 10, low=0, high=100, group="cache") for number in range(10)]
    return SearchSpace(
        [
            *shares,
            Parameter("web.cpus", "real", 1.0, low=0.25, high=3.0, group="web"),
            Parameter("app.cpus", "real", 2.0, low=0.25, high=3.0, scale="log", group="app"),
            Parameter("db.cpus", "real", 1.0, low=0.25, high=3.0, group="db"),
            Parameter("app.memory_mib", "integer", 1024, low=256, high=4096, step=256, group="app"),
            Parameter("db.policy", "categorical", "lru", choices=("lru", "lfu"), group="db"),
        ],
        [
            LinearEquality({share.name: 1 for share in shares}, 100, "all of the cache"),
            LinearEquality({"web.cpus": 1, "app.cpus": 1, "db.cpus": 1}, 4, "cores"),
            Predicate("{app.heap_mib} >= 300", "the least heap"),
        ],
        [
            Derived(Parameter("app.young_mib", "integer", 128, low=64, high=4096), "floor({app.heap_mib} / 3)"),
            Derived(Parameter("app.heap_mib", "integer", 512, low=128, high=3000), "0.75 * {app.memory_mib}"),
        ],
    )


def tiny_space() -> SearchSpace:
    """Return a space of six configurations."""
    return SearchSpace(
        [Parameter("a", "integer", 1, low=1, high=3), Parameter("b", "categorical", "x", choices=("x", "y"))]
    )


def placement_space(services: int) -> SearchSpace:
    """Return the placement of services a, b, ... in the domains x and y; each has room for two thirds of them."""
    names = "abcdefgh"[:services]
    parameters = [
        Parameter(
            name, "categorical", "xy"[number % 2], choices=("x", "y"), group=name,
            attributes={
                "score": 1.0 + number, "latency": 9.0 - number, "sensitivity.core": 1.0 + number % 3,
                "pressure.core": 1.0 + number % 2, "pressure.cache": 0.5,
            },
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    return SearchSpace(
        parameters, [Capacity(dict.fromkeys(names, 1.0), place, services * 2 / 3, "cpu") for place in "xy"]
    )


def value_of(space: SearchSpace, configuration: Configuration) -> float:
    """Return the value of a smooth bowl on the unit cube with axes of different importance, from 0 to about 2."""
    unit = space.to_unit(configuration)
    return float(np.sum((unit - 0.3) ** 2 * np.linspace(1.0, 0.2, unit.size)))


def observation_of(
    space: SearchSpace, suggestion: Suggestion, sign: float = 1.0, state: ObservationState = ObservationState.COMPLETED
) -> Observation:
    """Return the result of a trial of the suggestion."""
    completed = state is ObservationState.COMPLETED
    return Observation(
        suggestion.configuration,
        state,
        sign * value_of(space, suggestion.configuration) if completed else None,
        0.01 if completed else None,
        suggestion.ask,
        reason="" if completed else "by the conformance kit",
    )


def conversation(optimizer: Optimizer, space: SearchSpace, sign: float = 1.0) -> Iterator[Suggestion]:
    """Yield suggestions: ask, tell, ask, tell, until SearchExhausted."""
    while True:
        try:
            (suggestion,) = optimizer.ask()
        except SearchExhausted:
            return
        yield suggestion
        optimizer.tell([observation_of(space, suggestion, sign)])


def script(make: Maker) -> list[dict[str, Value]]:
    """Return the suggestions of a fixed conversation, for a comparison between two processes."""
    space = make.mixed()
    optimizer = make(space)
    return [suggestion.configuration.to_dict() for suggestion in islice(conversation(optimizer, space), 10)]
