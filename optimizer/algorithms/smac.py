"""SMAC3's facade for hyperparameter optimization: a random forest, log expected improvement, local search.

Source: Lindauer et al., SMAC3, JMLR 23 (2022); Hutter, Hoos & Leyton-Brown, LION 5 (2011).
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any

from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.sampling import design_size
from optimizer.space import Configuration, Parameter
from optimizer.trial import Observation, ObservationState


class SMAC(LibraryOptimizer):
    """Adapter: SMAC gets each configuration once; the study decides about repetitions, not SMAC."""

    name = "smac"
    summary = "SMAC3: random forest, log expected improvement"
    source = "Lindauer et al. 2022 (JMLR 23); Hutter, Hoos & Leyton-Brown 2011 (LION 5)"
    suits = "to compare with what SMAC's users run; spaces with many choices"
    budgeting = "a Sobol design of 10, at most a third of the budget"
    needs_budget = True

    def _open(self, seed: int) -> None:
        smac, self._spaces = library("smac"), library("ConfigSpace")
        self._records = library("smac.runhistory.dataclasses")
        self._status = library("smac.runhistory.enumerations").StatusType
        self._exhausted: Any = library("smac.main.exceptions").ConfigurationSpaceExhaustedException
        directory = tempfile.mkdtemp(prefix="tailor-smac-")  # SMAC always writes its results
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self._described = self._spaces.ConfigurationSpace(seed=seed)
        defaults = self.drawn_of(self.space.default())
        self._described.add([self._hyperparameter(parameter, defaults) for parameter in self.space.parameters])
        budget = self.budget if self.budget is not None else 1  # the base class refuses None where needs_budget
        scenario = smac.Scenario(
            self._described, deterministic=True, n_trials=10 * budget, seed=seed, output_directory=directory
        )
        facade = smac.HyperparameterOptimizationFacade
        design = facade.get_initial_design(scenario, n_configs=min(10, design_size(len(self.space), budget)))
        search = facade.get_acquisition_maximizer(scenario)
        _ordered(search._local_search)
        self._smac: Any = facade(
            scenario,
            lambda config, seed=0: 0.0,
            initial_design=design,
            acquisition_maximizer=search,
            overwrite=True,
            logging_level=False,
        )

    def _hyperparameter(self, parameter: Parameter, defaults: Mapping[str, Any]) -> Any:
        """Return a parameter in SMAC's terms; ``defaults``: of all parameters, in these terms."""
        name, default = parameter.name, defaults[parameter.name]
        if not parameter.ordered:
            return self._spaces.Categorical(name, list(parameter.choices), default=default)
        if self.in_cells(parameter):
            return self._spaces.Float(name, (0.0, 1.0), default=default)
        kind = self._spaces.Integer if parameter.kind == "integer" else self._spaces.Float
        return kind(name, (parameter.low, parameter.high), default=default, log=parameter.scale == "log")

    def _candidate(self) -> tuple[Any, Configuration] | None:
        try:
            trial = self._smac.ask()
        except (self._exhausted, StopIteration):  # a small space is used up
            return None
        return trial, self.configuration_of(trial.config)

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if token is None:
            drawn = self.drawn_of(observation.configuration)
            token = self._records.TrialInfo(self._spaces.Configuration(self._described, drawn), seed=0)
        completed = observation.state is ObservationState.COMPLETED
        status = self._status.SUCCESS if completed else self._status.CRASHED
        self._smac.tell(token, self._records.TrialValue(cost=value, status=status), save=False)


def _ordered(local_search: Any) -> None:
    """Sort the starting points of SMAC's local searches by their coordinates.

    They come from a set, in an order by string hashes, which differ between processes.  Sorted, equal histories give
    equal asks.
    """
    chosen = local_search._get_init_points_from_previous_configs
    local_search._get_init_points_from_previous_configs = lambda *given: sorted(
        chosen(*given), key=lambda configuration: configuration.get_array().tolist()
    )
