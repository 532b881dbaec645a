"""Bayesian optimization with a Gaussian process and expected improvement: the paper's BO-GP.

The model and the acquisition function are scikit-optimize's; the loop around them is ours, because its own
optimizer object keeps a state that depends on the order of calls, proposes integers twice, and cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from optimizer.base import Optimizer, Option
from optimizer.sampling import design_size, latin_hypercube, unseen
from optimizer.space import Configuration, Value
from optimizer.surrogate import Array, Encoder, GaussianProcess, worst_for_failed

_BEST = 5  # candidates refined, as many as scikit-optimize polishes
_ROUNDS = (0.1, 0.03, 0.01)  # standard deviations of the refining steps, in ranges
_NEIGHBOURS = 100  # per refined candidate and round


class BayesianGP(Optimizer):
    """Latin hypercube first, then the configuration with the largest expected improvement.

    Improvement is counted from the lowest posterior mean at a configuration that was run, not from the lowest value
    told, which noise makes too good (Picheny, Wagner & Ginsbourger 2013, "plug-in").  Suggestions not yet told about
    count as if they had returned the lowest value ("constant liar", Ginsbourger, Le Riche & Carraro 2010).
    """

    name = "bo-gp"
    summary = "Bayesian optimization: Gaussian process, expected improvement"
    source = "Jones, Schonlau & Welch 1998 (J. Global Optimization 13); scikit-optimize's Gaussian process"
    uses_failures = True
    options_known: ClassVar[Mapping[str, Option]] = {
        "xi": Option(0.01, "improvement that is not worth having, in standard deviations of the values", low=0, high=1),
        "candidates": Option(2000, "random points at which the acquisition is tried", "integer", low=100, high=100_000),
    }

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        size = design_size(len(self.space), self.budget)
        if index < size:
            design = latin_hypercube(self.space, size, self.stream(1))
            if design[index] not in seen and self.space.is_feasible(design[index]):
                return design[index], f"Latin hypercube, {index + 1} of {size}"
            return unseen(self.space, rng, seen), "uniform, in place of a point of the Latin hypercube"
        told = worst_for_failed(self.observations)
        if len({observation.configuration for observation, _ in told}) < 2:
            return unseen(self.space, rng, seen), "uniform: too little is known for a model"
        return self._most_promising(
            [observation.configuration for observation, _ in told], [value for _, value in told], rng
        )

    def _most_promising(
        self, configurations: list[Configuration], values: list[float], rng: np.random.Generator
    ) -> tuple[Configuration, str]:
        pending = [suggestion.configuration for suggestion in self.pending]
        encoder = Encoder(self.space)
        units = encoder.units([*configurations, *pending])
        y = np.array([*values, *[min(values)] * len(pending)])
        model = GaussianProcess(encoder.encode(units), y, int(rng.integers(2**31)))
        incumbent = float(np.min(model.predict(encoder.encode(units))[0]))
        candidates, gain = self._maximise(encoder, model, incumbent, units[np.argsort(y, kind="stable")[:_BEST]], rng)
        seen = self.seen
        for row in np.argsort(-gain, kind="stable"):
            configuration = self.space.from_unit(candidates[row])
            if configuration not in seen and self.space.is_feasible(configuration):
                return configuration, "largest expected improvement"
        return unseen(self.space, rng, seen), "uniform: no candidate is new"

    def _maximise(
        self, encoder: Encoder, model: GaussianProcess, incumbent: float, good: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Candidates (n, d) on the unit cube with their expected improvement (n,): a global look, then refinements."""
        xi = float(self.options["xi"])
        points = encoder.snap(rng.random((_whole(self.options["candidates"]), len(self.space))))
        points = np.concatenate([points, good])
        gain = _expected_improvement(encoder.encode(points), model, incumbent, xi)
        for step in _ROUNDS:
            centres = np.repeat(points[np.argsort(-gain, kind="stable")[:_BEST]], _NEIGHBOURS, axis=0)
            near = encoder.snap(_perturbed(centres, step, rng))
            points = np.concatenate([points, near])
            gain = np.concatenate([gain, _expected_improvement(encoder.encode(near), model, incumbent, xi)])
        return points, gain


def _whole(value: Value) -> int:
    return int(value)


def _perturbed(centres: Array, step: float, rng: np.random.Generator) -> Array:
    """Each centre moved by normal steps, in one coordinate in three; one of these in five is drawn anew.

    Moving few coordinates keeps the others' integers and choices; drawing anew lets choices change at all.
    """
    moved = np.clip(centres + step * rng.standard_normal(centres.shape), 0.0, 1.0)
    moved = np.where(rng.random(centres.shape) < 0.2, rng.random(centres.shape), moved)
    return np.where(rng.random(centres.shape) < 1 / 3, moved, centres)


def _expected_improvement(x: Array, model: GaussianProcess, incumbent: float, xi: float) -> Array:
    """EI(x) = s * (z * Phi(z) + phi(z)), z = (incumbent - xi - m) / s (Jones et al. 1998, equation 15), shape (n,)."""
    from skopt.acquisition import gaussian_ei  # imported late: scikit-learn is heavy

    return np.asarray(gaussian_ei(x, model, y_opt=incumbent, xi=xi))
