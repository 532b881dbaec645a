"""A genetic algorithm: selection by tournament, uniform crossover, mutation, replacement of the worst.

It is steady-state: each child is measured at once and replaces the worst of the population.  A budget of 15 would hold
only two or three generations of a useful size.

Sources: Whitley, The GENITOR algorithm, ICGA 1989 [W89]; uniform crossover: Syswerda, ICGA 1989 [S89]; tournaments:
Goldberg & Deb, FOGA 1991 [GD91].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from optimizer.base import Optimizer, Option, Scored
from optimizer.sampling import design_size, latin_hypercube, mutated, unseen
from optimizer.space import Configuration

_CHILDREN = 100  # repeated or infeasible children after which a uniform draw is suggested


class Genetic(Optimizer):
    """The population: the best configurations told, as many as the start-up design has points.

    ``start`` belongs to it like any other told configuration.  Trials without a value do not reproduce.
    """

    name = "ga"
    summary = "genetic algorithm: tournament selection, uniform crossover, mutation, steady state"
    source = "Whitley 1989 (GENITOR, ICGA); Syswerda 1989 (uniform crossover, ICGA); Goldberg & Deb 1991 (FOGA)"
    suits = "long studies over spaces with many choices"
    budgeting = "a first population of one more than there are parameters, at least 5, at most a third of the budget"
    options_known: ClassVar[Mapping[str, Option]] = {
        "tournament": Option(2, "parents are the best of this many draws", "integer", low=1, high=10),
        "crossover": Option(0.9, "probability that a child has two parents", low=0, high=1),
        "step": Option(0.15, "standard deviation of a mutation, in ranges of the parameter", low=0.001, high=1),
    }

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        size = design_size(len(self.space), self.budget)
        population = self.scores()[: max(2, size)]
        if index < size or len(population) < 2:
            design = latin_hypercube(self.space, size, self.stream(1))
            if index < size and design[index] not in seen and self.space.is_feasible(design[index]):
                return design[index], f"first population, {index + 1} of {size}"
            return unseen(self.space, rng, seen), "first population, uniform"
        for attempt in range(_CHILDREN):
            child, parents = self._child(population, rng)
            # Repetitions are frequent on coarse spaces: mutate more with each attempt.
            child = mutated(self.space, child, (1 + attempt) / len(self.space), float(self.options["step"]), rng)
            if child not in seen and self.space.is_feasible(child):
                return child, f"a mutated child of {parents}"
        return unseen(self.space, rng, seen), "uniform: the population has no new children"

    def _child(self, population: list[Scored], rng: np.random.Generator) -> tuple[Configuration, str]:
        """Return a child: two tournaments [GD91], each parameter from either parent with equal probability [S89]."""
        mother = self._tournament(population, rng)
        if rng.random() >= float(self.options["crossover"]):
            return mother, "one parent"
        father = self._tournament(population, rng)
        take = rng.random(len(self.space)) < 0.5
        values = ((name, (father if take[j] else mother)[name]) for j, name in enumerate(self.space.names))
        return self.space.canonical(Configuration(values)), "two parents"

    def _tournament(self, population: list[Scored], rng: np.random.Generator) -> Configuration:
        drawn = rng.integers(len(population), size=int(self.options["tournament"]))
        return population[int(drawn.min())].configuration  # the population is sorted, best first
