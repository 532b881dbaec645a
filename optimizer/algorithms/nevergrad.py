"""Particle swarm optimization from nevergrad.

Sources: Kennedy & Eberhart, ICNN 1995 (PSO); Zambrano-Bigiarini, Clerc & Rojas, CEC 2013 (its standard of 2011).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from optimizer.base import Option
from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.sampling import design_size
from optimizer.space import Configuration
from optimizer.space.cube import from_cube, to_cube
from optimizer.trial import Observation


class Nevergrad(LibraryOptimizer):
    """Base class for adapters of nevergrad's algorithms.

    The space is an array with one number per parameter; a candidate is the configuration in whose cell it lies.
    """

    bounded: ClassVar[bool]  # nevergrad keeps to [0, 1] by reflection; otherwise the arctangent maps all numbers to it

    def _open(self, seed: int) -> None:
        nevergrad = library("nevergrad")
        bounds = {"lower": 0.0, "upper": 1.0} if self.bounded else {}
        self._cube: Any = nevergrad.p.Array(shape=(len(self.space),), **bounds)
        # Otherwise it would draw its seed from the global generator.
        self._cube.random_state = np.random.RandomState(seed)
        self._library = self._made(nevergrad)

    @abstractmethod
    def _made(self, nevergrad: ModuleType) -> Any:
        """Return nevergrad's optimizer over the cube."""

    def _candidate(self) -> tuple[Any, Configuration] | None:
        candidate = self._library.ask()
        unit = candidate.value if self.bounded else 0.5 + np.arctan(candidate.value) / np.pi
        return candidate, from_cube(self.space, np.clip(unit, 0.0, 1.0))

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if token is None:
            unit = to_cube(self.space, observation.configuration)
            token = self._cube.spawn_child(new_value=unit if self.bounded else np.tan(np.pi * (unit - 0.5)))
        self._library.tell(token, value)


class ParticleSwarm(Nevergrad):
    """Particles that move towards their own best position and the swarm's.

    nevergrad's swarm has 40 particles whatever the budget; here it is at most a third of the budget, at least three.
    """

    name = "pso"
    bounded = False  # the swarm has its own map, so that it moves on the unit cube itself
    summary = "particle swarm optimization"
    source = "Kennedy & Eberhart 1995 (ICNN); Zambrano-Bigiarini et al. 2013 (CEC); nevergrad's implementation"
    suits = "several trials at a time"
    budgeting = "a swarm of one more than there are parameters, at least 5, at most a third of the budget"
    options_known: ClassVar[Mapping[str, Option]] = {
        "particles": Option(0, "size of the swarm; 0: derived from the budget", "integer", low=0, high=1000),
        "omega": Option(0.7213, "inertia: what remains of a particle's speed", low=0, high=2),
        "phip": Option(1.1931, "pull of the particle's own best position", low=0, high=5),
        "phig": Option(1.1931, "pull of the swarm's best position", low=0, high=5),
    }

    def _made(self, nevergrad: ModuleType) -> Any:
        size = int(self.options["particles"]) or max(3, design_size(len(self.space), self.budget))
        weights = {name: float(self.options[name]) for name in ("omega", "phip", "phig")}
        swarm = nevergrad.optimizers.ConfPSO(transform="arctan", popsize=size, **weights)
        return swarm(self._cube, budget=self.budget, num_workers=1)
