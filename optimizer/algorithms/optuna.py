"""Optuna's samplers: the tree-structured Parzen estimator, the Gaussian process and CMA-ES with margin.

They have Optuna's own settings, but a start-up design is at most a third of the budget.

Sources: Akiba et al., KDD 2019 (Optuna); Watanabe, arXiv:2304.11127 (its TPE); Hamano et al., GECCO 2022 (margin).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.sampling import design_size
from optimizer.space import Configuration, Parameter
from optimizer.trial import Observation, ObservationState

_STARTUP = 10  # random trials at the start of Optuna's TPE and GP


class _Optuna(LibraryOptimizer):
    """Adapter: parameters keep their kinds, bounds and scales; one in cells is the unit interval divided into them.

    Failed trials are told as failed, and Optuna leaves them out.  The study has one direction; when an observation has
    further objectives, a new study with their number of directions replaces it.
    """

    uses_failures = False

    def _open(self, seed: int) -> None:
        optuna = library("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna = optuna
        self._distributions = {
            parameter.name: _distribution(optuna, parameter, self.in_cells(parameter))
            for parameter in self.space.parameters
        }
        self._seed = seed
        self._others: tuple[str, ...] = ()  # names of the further objectives
        self._study = optuna.create_study(sampler=self._sampler(optuna, seed))

    @abstractmethod
    def _sampler(self, optuna: Any, seed: int) -> Any:
        """Return Optuna's sampler."""

    def _startup(self) -> int:
        """Return the number of random trials at the start."""
        return _STARTUP if self.budget is None else min(_STARTUP, design_size(len(self.space), self.budget))

    def _candidate(self) -> tuple[Any, Configuration]:
        trial: Any = self._study.ask(self._distributions)
        return trial, self.configuration_of(trial.params)

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        completed = observation.state is ObservationState.COMPLETED
        if self.handles_objectives and completed and tuple(sorted(observation.others)) != self._others:
            self._with_objectives(tuple(sorted(observation.others)))
        if token is not None and token.study is not self._study:
            token = None
        state = self._optuna.trial.TrialState
        values = self._values(observation, value) if completed else None
        limits = observation.constraints if self.handles_constraints else {}
        if token is not None:
            for name, excess in limits.items():
                token.set_constraint(name, excess)
            self._study.tell(token, values, state.COMPLETE if completed else state.FAIL)
        elif completed:
            params = self.drawn_of(observation.configuration)
            known = {"params": params, "distributions": self._distributions, "constraints": limits}
            self._study.add_trial(self._optuna.trial.create_trial(values=values, **known))

    def _values(self, observation: Observation, value: float) -> list[float]:
        """Return the objective values for Optuna: the observed one where it handles constraints itself."""
        known = observation.value if self.handles_constraints and observation.value is not None else value
        return [known, *(observation.others[name] for name in self._others)]

    def _with_objectives(self, names: tuple[str, ...]) -> None:
        """Begin a new study with these further objectives; old trials have fewer values and cannot be added to it."""
        self._others = names
        directions = ["minimize"] * (1 + len(names))
        self._study = self._optuna.create_study(directions=directions, sampler=self._sampler(self._optuna, self._seed))


class OptunaTPE(_Optuna):
    """TPE, multivariate, as Optuna advises for parameters that depend on each other."""

    name = "optuna-tpe"
    summary = "Optuna's tree-structured Parzen estimator"
    source = "Watanabe 2023 (arXiv:2304.11127); Optuna's TPESampler"
    suits = "to compare with what Optuna users run"
    budgeting = "10 random start-up trials, at most a third of the budget"
    handles_constraints = True
    handles_objectives = True

    def _sampler(self, optuna: Any, seed: int) -> Any:
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=self._startup(), multivariate=True)


class OptunaGP(_Optuna):
    """Gaussian process; needs torch.

    An integer of more than 16 values is a real number here, since Optuna tries its values one at a time.  With two such
    integers among ten parameters, 15 asks took twelve minutes that way (on a busy machine), and 19 s as real numbers.
    """

    name = "optuna-gp"
    summary = "Optuna's Gaussian process sampler"
    source = "Optuna's GPSampler (log expected improvement: Ament et al. 2023, NeurIPS)"
    suits = "to compare with what Optuna users run"
    budgeting = "10 random start-up trials, at most a third of the budget"
    handles_constraints = True
    handles_objectives = True
    widest_grid = 16  # Optuna tries up to 16 values all at once

    def _open(self, seed: int) -> None:
        library("torch")
        super()._open(seed)

    def _sampler(self, optuna: Any, seed: int) -> Any:
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=self._startup(), deterministic_objective=False)


class OptunaCMA(_Optuna):
    """CMA-ES; generations shrink where the budget would hold fewer than three; choices are drawn at random."""

    name = "optuna-cmaes"
    summary = "Optuna's CMA-ES, with margin for integers"
    source = "Hamano et al. 2022 (GECCO), CMA-ES with margin; Optuna's CmaEsSampler"
    suits = "long studies of numbers without choices"
    budgeting = "generations of at most a third of the budget, at least 4"

    def _open(self, seed: int) -> None:
        library("cmaes")
        super()._open(seed)

    def _sampler(self, optuna: Any, seed: int) -> Any:
        size = max(4, design_size(len(self.space), self.budget))
        return optuna.samplers.CmaEsSampler(
            seed=seed, n_startup_trials=1, popsize=size, with_margin=True, warn_independent_sampling=False
        )


def _distribution(optuna: Any, parameter: Parameter, cells: bool) -> Any:
    kinds = optuna.distributions
    if not parameter.ordered:
        return kinds.CategoricalDistribution(list(parameter.choices))
    if cells:
        return kinds.FloatDistribution(0.0, 1.0)
    log = parameter.scale == "log"
    if parameter.kind == "integer":
        return kinds.IntDistribution(parameter.low, parameter.high, log=log)
    return kinds.FloatDistribution(parameter.low, parameter.high, log=log)
