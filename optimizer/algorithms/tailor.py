"""Tailor's own optimizer: an additive Gaussian process inside a region around the best configuration.

Parameters of one name in many services (threads, heaps, pools) are moved as one at first, and modelled as tied.

Sources: trust region: Eriksson, Pearce, Gardner, Turner & Poloczek, NeurIPS 2019 (TuRBO) [E19]; the model:
``additive``; expected improvement from the lowest posterior mean: Picheny, Wagner & Ginsbourger 2013 [P13]; pending
suggestions: Ginsbourger, Le Riche & Carraro 2010, "kriging believer" [G10]; measured constraints: Gardner, Kusner, Xu,
Weinberger & Cunningham, ICML 2014 [G14]; several objectives: Knowles, IEEE Transactions on Evolutionary Computation
10(1) (2006), ParEGO [K06]; the prior mean: a model of the application (``simulator_prior``) or CPU costs
(``resource_model``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from optimizer.base import Optimizer, Option, Scored
from optimizer.candidates import Neighbourhood
from optimizer.models.additive import AdditiveProcess, Array, Layout
from optimizer.models.resource_model import MIN_TRIALS, ResourceModel
from optimizer.models.simulator_prior import PriorMean, fitted_rho
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.models.tied_parameters import tied_parameters
from optimizer.sampling import grouped_design, latin_hypercube, middle, unseen, values_are_few
from optimizer.space import Configuration
from optimizer.space.cube import spread
from optimizer.trial import ObservationState

_MOST_CENTRES = 8  # candidates at which the second round starts
_SMALLEST_REGION = 0.05  # in ranges of the parameters
_DOUBT = 0.05  # variance of a trial's success or failure about its expectation
_UNINFORMATIVE = 1e9  # variance of a point without information
_ALTERNATING = 2  # best configurations of a prior mean that alternate with the start-up design
_REACH = 0.3  # of the start-up design: the part of the way from the best so far to points that fill the space


class Tailor(Optimizer):
    """Additive process in a trust region.  Values that are all above 0 are modelled as logarithms.

    Parameters of one name in several services are moved by the same amount at the start (choices one by one), because
    the effect of a single one is smaller than the noise.  The model has a part for each set of them and for each
    service.

    Where trials have costs (a service's CPU time per request), their predicted sum is the prior mean of the process, as
    far as the values follow it.

    In a small space (few parameters, or few values of each) the start-up design fills the space, and every parameter
    has a part of the model: the effects of single parameters add up far from the points that are known.

    A second process of the same length scales models the probability of success, and each measured constraint has a
    process of its own.  Several objectives are combined to a weighted sum, with new weights at each ask.
    """

    name = "tailor"
    summary = "additive Gaussian process in a region around the best configuration"
    source = "Tailor's own, after Eriksson et al. 2019 (TuRBO), Hvarfner et al. 2024, Kandasamy et al. 2015"
    suits = "many mixed parameters, few noisy trials"
    budgeting = "five points before the model (ten in a small space), tied parameters together, at most a third of it"
    uses_failures = True
    uses_noise = True
    uses_priors = True
    uses_simulator_prior = True
    uses_costs = True
    handles_constraints = True
    handles_objectives = True
    options_known: ClassVar[Mapping[str, Option]] = {
        "candidates": Option(
            600, "configurations at which the model is asked, per round", "integer", low=50, high=20_000
        ),
        "region": Option(0.4, "first size of the region, in ranges of the parameters", low=0.01, high=1),
        "design": Option(
            5, "suggestions before the model is used, twice as many in a small space", "integer", low=1, high=100
        ),
        "believed": Option(
            3, "suggestions of an application model, in place of the design", "integer", low=1, high=100
        ),
    }

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        scores = self.scores()
        search_asks = index - self.start_asks - self._wasted
        if search_asks < self._design() or len(scores) < 2:
            return self._start_up(search_asks, rng)
        with one_thread():
            return self._modelled(scores, rng)

    def recommend(self) -> Configuration | None:
        """Return the configuration that was measured, keeps the constraints, and has the lowest posterior mean."""
        scores = self.scores()
        if len(scores) < 3:
            return super().recommend()
        with one_thread():
            return _Model(self, scores).centre

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of this search; it caches the coordinates of told configurations."""
        return Encoder(self.space)

    @cached_property
    def ordered(self) -> NDArray[np.bool_]:
        """Whether each parameter has values between two others, (d,)."""
        return np.array([parameter.ordered for parameter in self.space.parameters])

    @property
    def _best_modelled(self) -> list[Configuration]:
        """The best configurations of the model of the application, to be tried first."""
        prior = self.simulator_prior
        if prior is None:
            return []
        return prior.best(int(self.options["believed"]) if prior.replaces_design else _ALTERNATING)

    @property
    def _trusts_model(self) -> bool:
        """Whether there is a model, and its best measured configuration, if any, is better than the default."""
        value = {scored.configuration: scored.value for scored in self.scores()}
        level = value.get(self.space.default())
        told = [value[configuration] for configuration in self._best_modelled if configuration in value]
        return self.simulator_prior is not None and not (told and level is not None and min(told) >= level)

    @property
    def _wasted(self) -> int:
        """Number of suggestions of a model that is not trusted any more: the design begins after them."""
        return 0 if self._trusts_model else sum(configuration in self.seen for configuration in self._best_modelled)

    @cached_property
    def few_values(self) -> bool:
        """Whether the space is small: its start-up design fills it, and each parameter has a part of the model."""
        return values_are_few(self.space)

    def _design(self) -> int:
        prior = self.simulator_prior
        replaced = prior is not None and prior.replaces_design and self._trusts_model
        wanted = int(self.options["believed" if replaced else "design"])
        if self.few_values and not replaced:
            wanted *= 2
        return wanted if self.budget is None else max(1, min(wanted, self.budget // 3))

    def _start_up(self, number: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        """Return a point of the start-up design.

        In a small space its points fill the space.  In others they are on the way from the best so far to such points:
        all parameters move, so that the design shows which services matter, but not so far that most points are bad.
        The best configurations of a model of the application come first, while ``_trusts_model``; those of a prior mean
        that does not replace the design alternate with it.
        """
        size, prior = self._design(), self.simulator_prior
        if prior is not None and self._trusts_model:
            good = self._best_modelled
            place, of_design = (number, 0) if prior.replaces_design else divmod(number, 2)
            if not of_design and place < len(good) and self._is_new(good[place]):
                return good[place], f"among the best of the model, {place + 1} of {len(good)}"
            if not prior.replaces_design:
                number = max(0, number - sum(configuration in self.seen for configuration in good))
        if number < size:
            point = self._design_point(number, size)
            if self._is_new(point):
                return point, f"start-up design, {number + 1} of {size}"
        return unseen(self.space, rng, self.seen), "uniform, in place of a point of the start-up design"

    def _is_new(self, configuration: Configuration) -> bool:
        return configuration not in self.seen and self.space.is_feasible(configuration)

    def _design_point(self, number: int, size: int) -> Configuration:
        if self.few_values:
            return latin_hypercube(self.space, size, self.stream(1))[number]
        return middle(self.space) if number == 0 else self._part_of_the_way(self._design_points(size)[number], number)

    def _design_points(self, size: int) -> list[Configuration]:
        """Return the points that the design moves towards: tied parameters have one value in each."""
        return grouped_design(self.space, tied_parameters(self.space, self.encoder.columns), size, self.stream(1))

    def _part_of_the_way(self, point: Configuration, number: int) -> Configuration:
        """Return a configuration between the best so far and ``point``; a choice is taken with probability 0.3."""
        scores = self.scores()
        here = self.space.to_unit(scores[0].configuration if scores else self.space.default())
        there = self.space.to_unit(point)
        taken = self.stream(2, number).random(len(self.space)) < _REACH
        between = np.where(self.ordered, here + _REACH * (there - here), np.where(taken, there, here))
        return self.space.from_unit(between)

    def _modelled(self, scores: list[Scored], rng: np.random.Generator) -> tuple[Configuration, str]:
        model = _Model(self, scores, rng)
        centre = model.centre
        size = self._region()
        seen = self.seen
        count = int(self.options["candidates"])  # near the best, and as many in the whole space
        points = model.near([self.space.to_unit(centre)], size, count, rng)
        points = np.concatenate([points, model.encoder.snap(spread(self.space, rng.random((count, len(self.space)))))])
        if self.simulator_prior is not None:
            modelled = [self.space.to_unit(configuration) for configuration in self.simulator_prior.best(_MOST_CENTRES)]
            points = np.concatenate([points, model.near(modelled, size, count // 2, rng)])
        gain = model.gain(points)
        best = points[np.argsort(-gain, kind="stable")[:_MOST_CENTRES]]
        refined = model.near(list(best), 0.5 * size, count // 2, rng)
        points, gain = np.concatenate([points, refined]), np.concatenate([gain, model.gain(refined)])
        for row in np.argsort(-gain, kind="stable"):
            configuration = self.space.from_unit(points[row])
            if configuration not in seen and self.space.is_feasible(configuration):
                changed = sum(configuration[name] != centre[name] for name in self.space.names)
                return configuration, f"largest expected improvement; changes {changed} parameters of the best"
        return unseen(self.space, rng, seen), "uniform: no candidate is new"

    def _region(self) -> float:
        """Return the size of the region [E19]: doubled after 3 improvements in a row, halved after sqrt(d) failures.

        They are counted in the order of the asks, so that the size is a function of the history.
        """
        size = float(self.options["region"])
        patience = max(3, min(10, round(math.sqrt(len(self.space)))))
        wins = losses = 0
        known = [
            observation for observation in self.observations if observation.ask is None and observation.keeps_limits
        ]
        lowest = min((observation.value for observation in known if observation.value is not None), default=math.inf)
        for observation in self.observations:
            if observation.ask is None:
                continue
            better = observation.value is not None and observation.keeps_limits and observation.value < lowest
            if better and observation.value is not None:
                lowest = observation.value
            wins, losses = (wins + 1, 0) if better else (0, losses + 1)
            if wins == 3:
                size, wins = min(1.0, 2.0 * size), 0
            elif losses == patience:
                size, losses = max(_SMALLEST_REGION, 0.5 * size), 0
        return size


class _Model:
    """The model of all observations; it is rebuilt at each ask.

    ``rng``: for the weights of several objectives; None: only the value counts.
    """

    def __init__(self, optimizer: Tailor, scores: list[Scored], rng: np.random.Generator | None = None) -> None:
        self.space = optimizer.space
        self.encoder = optimizer.encoder
        # Priors from traces only guide the search.  In the model (more variance, shorter length scales) they made the
        # results 5 % worse (experiments/bench/optimizers, "Where time goes").
        weights = optimizer.priors()
        weights = np.ones(len(self.space)) if weights is None else np.maximum(weights, 0.05)
        own = optimizer.own_priors()
        own = np.maximum(own / (own.mean() or 1.0), 0.05)
        self.layout = Layout.of(self.space, self.encoder.columns, own, alone=optimizer.few_values)
        # Of limits only the place matters where they are reached; parts of single parameters made it less certain.
        self._layout_of_limits = Layout.of(self.space, self.encoder.columns, own)
        configurations = [scored.configuration for scored in scores]
        self.units = self.encoder.units(configurations)
        y, noise = _values(optimizer, scores)
        others = _others(optimizer, scores)
        self.prior: PriorMean | ResourceModel | None = None
        if all(scored.value > 0 for scored in scores):
            self.prior = optimizer.simulator_prior or self._costs(optimizer)
        if rng is not None and others.size:
            y, noise = _weighted(np.column_stack([y, others]), rng), np.zeros(len(y))
            self.prior = None  # it predicts the value alone
        self._fit(y, noise, [suggestion.configuration for suggestion in optimizer.pending])
        kept = np.array([scored.violation == 0 for scored in scores])
        self.lowest = float(self.means[kept].min()) if kept.any() else None
        # Where nothing keeps the constraints yet: the smallest violation, which is first in the scores.
        place = int(np.argmin(np.where(kept, self.means, np.inf))) if kept.any() else 0
        self.centre = scores[place].configuration
        tied = [tied.members for tied in self.layout.sets]
        self.near = Neighbourhood(self.encoder, ~optimizer.ordered, self.process.relevance * weights, tied).near
        self._limits(optimizer, scores)
        self._failures(optimizer, configurations)

    def _costs(self, optimizer: Tailor) -> ResourceModel | None:
        observations = [observation for observation in optimizer.observations if observation.costs]
        if len(observations) < MIN_TRIALS:
            return None
        x = self.encoder.encode(self.encoder.units([observation.configuration for observation in observations]))
        return ResourceModel(self.space, self.encoder.columns, x, [observation.costs for observation in observations])

    def _fit(self, y: Array, noise: Array, pending: list[Configuration]) -> None:
        spread = float(np.std(y)) or 1.0
        scaled = np.minimum((y - float(np.mean(y))) / spread, 2.5)  # a disaster counts no more than a bad value
        x = self.encoder.encode(self.units)
        if self.prior is not None:
            prior_mean = self.prior.at(x)
            self.rho = fitted_rho(prior_mean, y, self.prior.expected_rho) / spread
            self.prior_level = float(prior_mean.mean())
        residuals = scaled - self._prior_mean(x)
        self.process = AdditiveProcess(self.layout, x, residuals, noise / spread**2)
        self.means = self._prior_mean(x) + self.process.means
        if pending:  # [G10]: as if they had returned their predicted values
            waiting = self.encoder.encode(self.encoder.units(pending))
            expected, _ = self.process.predict(waiting)
            self.process = self.process.with_more(waiting, expected)

    def _prior_mean(self, x: Array) -> Array:
        """Return the prior mean of the scaled values at encoded x, (m,); 0 without a prior."""
        return np.zeros(len(x)) if self.prior is None else self.rho * (self.prior.at(x) - self.prior_level)

    def _predicted(self, x: Array) -> tuple[Array, Array, Array]:
        """Return mean and standard deviation of the values, and the probability of success, each (m,)."""
        if self.success is None:
            mean, deviation = self.process.predict(x)
            return self._prior_mean(x) + mean, deviation, np.ones(len(x))
        mean, deviation, failing = self.process.predict_both(self.success, x)
        return self._prior_mean(x) + mean, deviation, np.clip(1.0 + failing, 0.05, 1.0)

    def _failures(self, optimizer: Tailor, configurations: list[Configuration]) -> None:
        """Fit a process for success (0) and failure (-1) with the hyperparameters of the values' process.

        Both predict from the same points, so pending suggestions are points of it too, without information.
        """
        bad = [
            observation.configuration
            for observation in optimizer.observations
            if observation.state in (ObservationState.FAILED, ObservationState.INFEASIBLE)
        ]
        self.success: AdditiveProcess | None = None
        if bad:
            good, waiting = np.zeros(len(configurations)), np.zeros(len(optimizer.pending))
            y = np.concatenate([good, waiting, np.full(len(bad), -1.0)])
            noise = np.concatenate([good + _DOUBT, waiting + _UNINFORMATIVE, np.full(len(bad), _DOUBT)])
            self.success = self.process.widened(self.encoder.encode(self.encoder.units(bad)), y, noise)

    def _limits(self, optimizer: Tailor, scores: list[Scored]) -> None:
        """Fit a process for each measured constraint, with the limit on its scale ([G14] section 3)."""
        self.limits: list[tuple[AdditiveProcess, float]] = []
        told: dict[Configuration, list[Mapping[str, float]]] = {}
        for observation in optimizer.observations:
            if observation.value is not None:
                told.setdefault(observation.configuration, []).append(observation.constraints)
        x = self.encoder.encode(self.units)
        for name in sorted({name for observed in told.values() for constraints in observed for name in constraints}):
            rows = [
                [constraints[name] for constraints in told[scored.configuration] if name in constraints]
                for scored in scores
            ]
            known = np.array([bool(row) for row in rows])
            y = np.array([float(np.mean(row)) for row in rows if row])
            spread = float(np.std(y))
            if spread > 0 and len(y) > 1:
                scaled = np.clip((y - float(np.mean(y))) / spread, -2.5, 2.5)
                process = AdditiveProcess(self._layout_of_limits, x[known], scaled, np.zeros(len(y)))
                self.limits.append((process, -float(np.mean(y)) / spread))

    def gain(self, units: Array) -> Array:
        """Return expected improvement times the probability of success and of keeping the limits at units (m, d), (m,).

        Where nothing keeps the limits yet, it is that probability alone ([G14] section 3.2).
        """
        from scipy.special import ndtr

        x = self.encoder.encode(units)
        mean, deviation, gain = self._predicted(x)
        if self.lowest is not None:
            z = (self.lowest - mean) / deviation
            gain = gain * deviation * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))
        for process, limit in self.limits:
            mean, deviation = process.predict(x)
            gain = gain * ndtr((limit - mean) / deviation)
        return np.asarray(gain)


def _values(optimizer: Optimizer, scores: list[Scored]) -> tuple[Array, Array]:
    """Return the modelled value of each configuration and the variance of its error, both (n,)."""
    variances: dict[Configuration, list[float]] = {}
    for observation in optimizer.observations:
        if observation.value is not None:
            variances.setdefault(observation.configuration, []).append((observation.standard_error or 0.0) ** 2)
    y = np.array([scored.value for scored in scores])
    by_configuration = [variances[scored.configuration] for scored in scores]
    noise = np.array([math.fsum(errors) / len(errors) ** 2 for errors in by_configuration])
    if y.min() > 0:
        return np.log(y), noise / y**2  # delta method
    return y, noise


def _others(optimizer: Optimizer, scores: list[Scored]) -> Array:
    """Return the means of each configuration's further objectives, (n, k); logarithms where all are above 0."""
    told: dict[Configuration, list[Mapping[str, float]]] = {}
    for observation in optimizer.observations:
        if observation.value is not None:
            told.setdefault(observation.configuration, []).append(observation.others)
    names = sorted({name for observed in told.values() for others in observed for name in others})
    columns = []
    for name in names:
        means = np.array([float(np.mean([others[name] for others in told[scored.configuration]])) for scored in scores])
        columns.append(np.log(means) if means.min() > 0 else means)
    return np.column_stack(columns) if columns else np.empty((len(scores), 0))


def _weighted(rows: Array, rng: np.random.Generator) -> Array:
    """Return the augmented Tchebycheff sum of the objectives (n, k) with random weights ([K06] equation 2), (n,)."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = (rows - low) / np.where(high > low, high - low, 1.0)
    weighted = scaled * rng.dirichlet(np.ones(rows.shape[1]))
    return np.asarray(weighted.max(axis=1) + 0.05 * weighted.sum(axis=1))
