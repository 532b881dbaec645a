"""Bayesian optimization with a Gaussian process, boosted trees or a random forest: the paper's BO-GP, BO-GBRT, BO-RF.

The models and the acquisition functions are scikit-optimize's; the loop around them is ours, because its own
optimizer object keeps a state that depends on the order of calls, proposes integers twice, and cannot be replayed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from optimizer.base import Optimizer, Option
from optimizer.models.surrogate import (
    Array,
    BoostedTrees,
    Encoder,
    Forest,
    GaussianProcess,
    Surrogate,
    worst_for_failed,
)
from optimizer.sampling import design_size, latin_hypercube, unseen
from optimizer.space import Configuration, Value
from optimizer.space.cube import spread

_BEST = 5  # candidates refined, as many as scikit-optimize polishes
_ROUNDS = (0.1, 0.03, 0.01)  # standard deviations of the refining steps, in ranges
_NEIGHBOURS = 100  # per refined candidate and round


class _Bayesian(Optimizer):
    """Latin hypercube first, then the configuration with the best acquisition value.

    Improvement is counted from the lowest posterior mean at a measured configuration, not from the lowest value, which
    noise makes too good (Picheny, Wagner & Ginsbourger 2013, "plug-in").  Pending suggestions count as if they had the
    lowest value ("constant liar", Ginsbourger, Le Riche & Carraro 2010).
    """

    uses_failures = True
    options_known: ClassVar[Mapping[str, Option]] = {
        "acquisition": Option(
            "ei",
            "expected improvement, probability of improvement, or lower confidence bound",
            "categorical",
            choices=("ei", "pi", "lcb"),
        ),
        "xi": Option(0.01, "improvement that is not worth having, in standard deviations of the values", low=0, high=1),
        "kappa": Option(1.96, "standard deviations below the mean, for lcb", low=0, high=100),
        "candidates": Option(2000, "random points at which the acquisition is tried", "integer", low=100, high=100_000),
    }

    @abstractmethod
    def _model(self, x: Array, y: Array, seed: int) -> Surrogate:
        """Return the model fitted to encoded configurations x (n, width) with values y (n,)."""

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        seen = self.seen
        size = design_size(len(self.space), self.budget)
        if index < size - self._imported():
            design = latin_hypercube(self.space, size, self.stream(1))
            if design[index] not in seen and self.space.is_feasible(design[index]):
                return design[index], f"Latin hypercube, {index + 1} of {size}"
            return unseen(self.space, rng, seen), "uniform, in place of a point of the Latin hypercube"
        known = worst_for_failed(self.observations)
        if len({observation.configuration for observation, _ in known}) < 2:
            return unseen(self.space, rng, seen), "uniform: too little is known for a model"
        return self._most_promising(
            [observation.configuration for observation, _ in known], [value for _, value in known], rng
        )

    def _imported(self) -> int:
        """Return the number of imported configurations without the start: they replace points of the design."""
        return len(
            {observation.configuration for observation in self.observations if observation.ask is None} - {self.start}
        )

    def _most_promising(
        self, configurations: list[Configuration], values: list[float], rng: np.random.Generator
    ) -> tuple[Configuration, str]:
        pending = [suggestion.configuration for suggestion in self.pending]
        encoder = Encoder(self.space)
        units = encoder.units([*configurations, *pending])
        y = np.array([*values, *[min(values)] * len(pending)])
        model = self._model(encoder.encode(units), y, int(rng.integers(2**31)))
        incumbent = float(np.min(model.predict(encoder.encode(units))[0]))
        candidates, gain = self._maximise(encoder, model, incumbent, units[np.argsort(y, kind="stable")[:_BEST]], rng)
        seen = self.seen
        for row in np.argsort(-gain, kind="stable"):
            configuration = self.space.from_unit(candidates[row])
            if configuration not in seen and self.space.is_feasible(configuration):
                return configuration, f"best by {_ACQUISITIONS[str(self.options['acquisition'])]}"
        return unseen(self.space, rng, seen), "uniform: no candidate is new"

    def _maximise(
        self, encoder: Encoder, model: Surrogate, incumbent: float, good: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return candidates (n, d) on the unit cube, uniform and refined ones, and their acquisition values (n,)."""
        points = encoder.snap(spread(self.space, rng.random((_whole(self.options["candidates"]), len(self.space)))))
        points = np.concatenate([points, good])
        gain = self._acquisition(encoder.encode(points), model, incumbent)
        for step in _ROUNDS:
            centres = np.repeat(points[np.argsort(-gain, kind="stable")[:_BEST]], _NEIGHBOURS, axis=0)
            near = encoder.snap(_perturbed(centres, step, rng))
            points = np.concatenate([points, near])
            gain = np.concatenate([gain, self._acquisition(encoder.encode(near), model, incumbent)])
        return points, gain

    def _acquisition(self, x: Array, model: Surrogate, incumbent: float) -> Array:
        """Return the acquisition value of each encoded point (n, width), shape (n,); larger is better.

        EI(x) = s * (z * Phi(z) + phi(z)), z = (incumbent - xi - m) / s (Jones et al. 1998, equation 15);
        PI(x) = Phi(z) (Kushner 1964); LCB(x) = m - kappa * s, here negated (Cox & John 1992).
        """
        from skopt.acquisition import gaussian_ei, gaussian_lcb, gaussian_pi  # imported here: it takes a second

        kind, xi = self.options["acquisition"], float(self.options["xi"])
        if kind == "lcb":
            return -np.asarray(gaussian_lcb(x, model, kappa=float(self.options["kappa"])))
        return np.asarray((gaussian_ei if kind == "ei" else gaussian_pi)(x, model, y_opt=incumbent, xi=xi))


class BayesianGP(_Bayesian):
    """The model is a Gaussian process: Matern 5/2 with a length scale per column, its noise fitted."""

    name = "bo-gp"
    summary = "Bayesian optimization: Gaussian process"
    source = "Jones, Schonlau & Welch 1998 (J. Global Optimization 13); scikit-optimize's Gaussian process"
    suits = "up to some 20 parameters"
    budgeting = "a Latin hypercube of one point more than there are parameters, at least 5, at most a third of it"

    def _model(self, x: Array, y: Array, seed: int) -> Surrogate:
        return GaussianProcess(x, y, seed)


class BayesianGBRT(_Bayesian):
    """The model: boosted trees for three quantiles; half the distance of the outer two is the deviation."""

    name = "bo-gbrt"
    summary = "Bayesian optimization: gradient-boosted regression trees"
    source = "Friedman 2001 (Annals of Statistics 29(5)); quantile trees as scikit-optimize sets them"
    suits = "spaces with many choices and cliffs"
    budgeting = "a Latin hypercube of one point more than there are parameters, at least 5, at most a third of it"

    def _model(self, x: Array, y: Array, seed: int) -> Surrogate:
        return BoostedTrees(x, y, seed)


class BayesianRF(_Bayesian):
    """The model is a random forest; its deviation is the total between the trees and inside their leaves."""

    name = "bo-rf"
    summary = "Bayesian optimization: random forest"
    source = "Hutter, Hoos & Leyton-Brown 2011 (LION 5, SMAC); scikit-optimize's random forest"
    suits = "spaces with many choices and cliffs"
    budgeting = "a Latin hypercube of one point more than there are parameters, at least 5, at most a third of it"

    def _model(self, x: Array, y: Array, seed: int) -> Surrogate:
        return Forest(x, y, seed)


_ACQUISITIONS = {"ei": "expected improvement", "pi": "probability of improvement", "lcb": "lower confidence bound"}


def _whole(value: Value) -> int:
    return int(value)


def _perturbed(centres: Array, step: float, rng: np.random.Generator) -> Array:
    """Move one coordinate in three of each centre by a normal step; draw one in five of these uniformly instead.

    Integers and choices in the other coordinates stay; without the uniform draws choices would hardly change.
    """
    moved = np.clip(centres + step * rng.standard_normal(centres.shape), 0.0, 1.0)
    moved = np.where(rng.random(centres.shape) < 0.2, rng.random(centres.shape), moved)
    return np.where(rng.random(centres.shape) < 1 / 3, moved, centres)
