"""Ax with its default strategy: a space-filling start, then BoTorch's Gaussian process and noisy expected improvement.

Sources: Olson et al., Ax: a platform for adaptive experimentation, AutoML 2025; Balandat et al., BoTorch, NeurIPS 2020;
Ament et al., NeurIPS 2023 (the logarithm of noisy expected improvement).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from optimizer.base import Option
from optimizer.library_optimizer import LibraryOptimizer, library
from optimizer.space import Configuration, Parameter, Value
from optimizer.trial import Observation, ObservationState

_VALUE = "value"  # Ax's name of the objective


class Ax(LibraryOptimizer):
    """Adapter of Ax's client: means with their standard errors, measured limits as outcome constraints.

    Numbers keep their bounds and scales, choices that are numbers keep their order, a constant is left out, and one in
    cells is the unit interval divided into them.  Standard errors are told where every value has one; otherwise Ax
    estimates the noise.  Failed trials are told as failed, and Ax leaves them out, unless the option says otherwise.
    Constraints of the space are not told: a candidate that breaks one counts as failed.
    """

    name = "ax"
    summary = "Ax: Sobol points, then a Gaussian process and noisy expected improvement"
    source = "Olson et al. 2025 (AutoML); Balandat et al. 2020 (NeurIPS, BoTorch); the library Ax"
    suits = "to compare with what Ax's users run; a few dozen trials"
    budgeting = "five start-up trials, the start and imported ones among them, whatever the budget"
    uses_noise = True
    uses_failures = False
    handles_constraints = True
    handles_objectives = True
    draws = 5  # a candidate takes seconds
    options_known: ClassVar[Mapping[str, Option]] = {
        "failures": Option(
            "left out",
            "failed trials: left out, as Ax advises, or told with the worst value so far",
            "categorical",
            choices=("left out", "worst value"),
        ),
    }

    def _open(self, seed: int) -> None:
        with _quiet():
            api, configs = library("ax.api.client", "ax-platform"), library("ax.api.configs", "ax-platform")
        library("ax.utils.common.logger").set_ax_logger_levels(logging.ERROR)
        self._exhausted: Any = library("ax.exceptions.core").SearchSpaceExhausted
        self._unfitted: Any = library("botorch.exceptions").ModelFittingError
        self._searched = [parameter for parameter in self.space.parameters if parameter.cardinality > 1]
        self._others: list[str] = []  # names of the further objectives and of the limits, in the order of Ax's names
        self._limits: list[str] = []
        self._data: dict[int, Observation] = {}  # Ax's trial -> what it was told
        self._estimates = False  # whether Ax estimates the noise
        self._failed: set[str] = set()  # Ax's signatures of configurations that have failed
        self._client: Any = api.Client()
        if not self._searched:
            return
        self._client.configure_experiment(
            [
                _described(configs, f"x{index}", parameter, self.in_cells(parameter))
                for index, parameter in enumerate(self._searched)
            ]
        )
        self._configure()
        self._client.configure_generation_strategy(
            initialization_random_seed=seed,
            initialize_with_center=self.start is None,  # ``start`` is the first point where there is one
            allow_exceeding_initialization_budget=True,  # several asks before a tell
        )

    def _configure(self) -> None:
        """Tell Ax the objectives and the limits known so far."""
        objectives = [_VALUE, *(f"other{index}" for index in range(len(self._others)))]
        self._client.configure_optimization(
            ", ".join(f"-{name}" for name in objectives),
            [f"limit{index} <= 0" for index in range(len(self._limits))] or None,
        )

    def _candidate(self) -> tuple[Any, Configuration] | None:
        if not self._searched:
            return None
        try:
            [(trial, drawn)] = self._client.get_next_trials(1).items()
        except (self._exhausted, self._unfitted):
            return None
        values = dict(self.space.default())
        for index, parameter in enumerate(self._searched):
            values[parameter.name] = self._value(parameter, drawn[f"x{index}"])
        return trial, self.space.validate(values)

    def _value(self, parameter: Parameter, drawn: Any) -> Value:
        if parameter.ordered:
            low, high = (0.0, 1.0) if self.in_cells(parameter) else (parameter.low, parameter.high)
            return self.to_value(parameter, min(high, max(low, drawn)))  # the last digit of a logarithm
        return _choices(parameter)[drawn]

    def _inform(self, token: Any, observation: Observation, value: float) -> None:
        if not self._searched:
            return
        trial = self._attached(observation.configuration) if token is None else token
        if observation.state is not ObservationState.COMPLETED:
            if self.options["failures"] == "left out":
                self._fail(trial)
                return
            observation = self._worst()
        if self._learns_names(observation):
            self._configure()
        self._data[trial] = observation
        self._client.complete_trial(trial, self._outcomes(observation))
        if observation.standard_error is None and not self._estimates:
            self._estimates = True  # Ax takes standard errors of all values or of none
            for told, before in self._data.items():
                self._client.attach_data(told, self._outcomes(before))

    def _attached(self, configuration: Configuration) -> Any:
        drawn = {}
        for index, parameter in enumerate(self._searched):
            value = configuration[parameter.name]
            if parameter.ordered:
                drawn[f"x{index}"] = self.to_drawn(parameter, value)
            else:
                [drawn[f"x{index}"]] = (key for key, choice in _choices(parameter).items() if _same(choice, value))
        return self._client.attach_trial(drawn)

    def _fail(self, trial: Any) -> None:
        """Mark a trial as failed; where its configuration failed before, as abandoned, or Ax suggests it for ever."""
        signature = self._client._experiment.trials[trial].arm.signature
        if signature in self._failed:
            self._client.mark_trial_abandoned(trial)
        else:
            self._failed.add(signature)
            self._client.mark_trial_failed(trial)

    def _worst(self) -> Observation:
        """Return the observation with the largest value."""
        return max(self.observations, key=_value_of)  # one has a value before anything is told to the library

    def _learns_names(self, observation: Observation) -> bool:
        """Take in names of objectives and limits; return whether there are new ones."""
        others = [name for name in sorted(observation.others) if name not in self._others]
        limits = [name for name in sorted(observation.constraints) if name not in self._limits]
        self._others += others
        self._limits += limits
        return bool(others or limits)

    def _outcomes(self, observation: Observation) -> dict[str, tuple[float, float | None]]:
        """Return mean and standard error of each outcome, by Ax's names."""
        error = None if self._estimates else observation.standard_error
        others = {f"other{self._others.index(name)}": mean for name, mean in observation.others.items()}
        limits = {f"limit{self._limits.index(name)}": mean for name, mean in observation.constraints.items()}
        return {
            _VALUE: (_value_of(observation), error),
            **{name: (mean, None) for name, mean in {**others, **limits}.items()},
        }


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what Ax logs while it is imported."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)


def _described(configs: Any, name: str, parameter: Parameter, cells: bool) -> Any:
    """Return the parameter in Ax's terms."""
    if parameter.ordered:
        if cells:
            return configs.RangeParameterConfig(name, (0.0, 1.0), "float")
        kind = "int" if parameter.kind == "integer" else "float"
        return configs.RangeParameterConfig(name, (parameter.low, parameter.high), kind, scaling=parameter.scale)
    values = list(_choices(parameter))
    kind = {bool: "bool", int: "int", float: "float", str: "str"}[type(values[0])]
    return configs.ChoiceParameterConfig(name, values, kind, is_ordered=_are_numbers(parameter.choices))


def _choices(parameter: Parameter) -> dict[Any, Value]:
    """Return Ax's value of each choice: itself, or its position as text where the choices have several kinds."""
    choices = parameter.choices
    if len({type(choice) for choice in choices}) == 1:
        return {choice: choice for choice in choices}
    if _are_numbers(choices) and len({float(choice) for choice in choices}) == len(choices):
        return {float(choice): choice for choice in choices}
    return {str(index): choice for index, choice in enumerate(choices)}


def _are_numbers(choices: Sequence[Value]) -> bool:
    return all(isinstance(choice, int | float) for choice in choices) and bool not in map(type, choices)


def _value_of(observation: Observation) -> float:
    return -math.inf if observation.value is None else observation.value


def _same(left: Value, right: Value) -> bool:
    return type(left) is type(right) and left == right
