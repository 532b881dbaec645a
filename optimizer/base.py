"""The interface of every optimizer: ask for suggestions, tell observations.

An optimizer is a function of (space, options, start, seed, budget, history), where the history is the sequence of
its asks and tells.  So a study resumes by replaying them, nothing is pickled, and every ask draws from a random
generator of its own (seed and number of the ask), never from one that is handed on.

An algorithm implements ``_suggest``; the base class keeps the history and checks all input and output.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidInput, InvalidObservation, InvalidOption, InvalidSuggestion, InvalidValue
from optimizer.errors import SearchExhausted as SearchExhausted  # re-exported: part of the interface
from optimizer.models.simulator_prior import Modelled, PriorMean, SimulatorPrior
from optimizer.pareto import undominated
from optimizer.space import Configuration, Kind, Parameter, SearchSpace, Value
from optimizer.trial import Observation, ObservationState, Suggestion

PRIOR = "prior"
"""Attribute of a parameter: its prior weight in the search, from 0; 1 where it is not set."""

PATH_ORDER = "path_order"
"""Attribute of a parameter: the position of its group on the path, from the front end to the stores."""


@dataclass(frozen=True)
class Option:
    """One option of an algorithm: its default, its description and its allowed values (as for a Parameter)."""

    default: Value
    description: str
    kind: Kind = "real"
    low: float | None = None
    high: float | None = None
    choices: tuple[Value, ...] = ()

    def validate(self, name: str, value: object) -> Value:
        """Return the value in the option's kind.  Raises InvalidOption."""
        shape = Parameter(name, self.kind, self.default, low=self.low, high=self.high, choices=self.choices)
        try:
            return shape.validate(value)
        except InvalidValue as error:
            raise InvalidOption(f"option {error}") from error


class Scored(NamedTuple):
    """A configuration with the mean of the values told for it.

    ``violation``: the sum of the means of its measured constraints that lie above 0; 0 where all hold.
    """

    configuration: Configuration
    value: float
    violation: float = 0.0


class Optimizer(ABC):
    """Base class of optimizers.  They always minimise.

    ``start``: the first incumbent, a configuration that is suggested first unless its value has been told; None: the
    algorithm's own start-up design.  Every completed observation counts, imported ones too, so a caller who wants to
    start without the default does not tell the default.  ``budget``: the number of suggestions that will be asked for.
    ``modelled``: predictions of a model of the application for some configurations (see ``simulator_prior``); only an
    algorithm that ``uses_simulator_prior`` takes them.  Raises InvalidInput.
    """

    name: ClassVar[str]  # as in the entry-point group tailor.optimizers
    summary: ClassVar[str]  # one line
    source: ClassVar[str]  # the paper or library that it follows
    suits: ClassVar[str] = ""  # when to use it
    budgeting: ClassVar[str] = ""  # how it uses the budget
    options_known: ClassVar[Mapping[str, Option]] = {}

    needs_budget: ClassVar[bool] = False  # its moves depend on how many are left
    learns: ClassVar[bool] = True  # told values change what it suggests
    batch: ClassVar[bool] = True  # several asks before a tell give different, useful suggestions
    tell_order_matters: ClassVar[bool] = False  # between two asks
    uses_noise: ClassVar[bool] = False  # it weighs values by their standard errors
    uses_failures: ClassVar[bool] = False  # trials without a value change what it suggests
    uses_priors: ClassVar[bool] = False  # it searches more in the services where the traces show the time is spent
    uses_simulator_prior: ClassVar[bool] = False  # it learns from ``modelled``; others start at the best of it
    uses_costs: ClassVar[bool] = False  # it learns from the costs of trials by group (a service's CPU time)
    handles_constraints: ClassVar[bool] = False  # it learns measured constraints; others rank by Deb's rules
    handles_objectives: ClassVar[bool] = False  # it searches the Pareto set; others minimise ``value`` alone
    one_shot: ClassVar[bool] = False  # it solves at once, suggests, then raises SearchExhausted
    places: ClassVar[bool] = False  # it takes spaces of placement only (see ``assignment``)

    def __init__(
        self,
        space: SearchSpace,
        *,
        seed: int,
        budget: int | None = None,
        start: Configuration | None = None,
        modelled: Sequence[Modelled] = (),
        prior: PriorMean | None = None,
        **options: Value,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidInput(f"seed is {seed!r}; allowed: an integer from 0")
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
            raise InvalidInput(f"budget is {budget!r}; allowed: an integer from 1")
        if budget is None and self.needs_budget:
            raise InvalidInput(f"{self.name} needs a budget: the number of suggestions that it may make")
        self.space = space
        self.seed = seed
        self.budget = budget
        self.options = self._checked_options(options)
        self.start = None if start is None else space.validate(start)
        if self.start is not None and not space.is_feasible(self.start):
            raise InvalidInput(f"the start breaks a constraint of the space: {self.start.to_dict()}")
        if (modelled or prior is not None) and not self.uses_simulator_prior:
            raise InvalidInput(f"{self.name} does not learn from a model of the application; start it at its best")
        if modelled and prior is not None:
            raise InvalidInput("modelled and prior: found both; allowed: one prior mean")
        self._modelled_points = tuple(modelled)
        self._prior = prior
        self._asks = 0
        self._start_asked = False
        self._pending: dict[int, Configuration] = {}
        self._seen: set[Configuration] = set()
        self._observations: list[Observation] = []
        self._ordered: tuple[Observation, ...] | None = None  # this cache and the next hold until more is told
        self._ranked: list[Scored] | None = None

    @classmethod
    def _checked_options(cls, options: Mapping[str, object]) -> Mapping[str, Value]:
        known = ", ".join(sorted(cls.options_known)) or "none"
        for name in options:
            if name not in cls.options_known:
                raise InvalidOption(f"{cls.name} has no option {name!r}; known: {known}")
        return {
            name: option.validate(name, options.get(name, option.default)) for name, option in cls.options_known.items()
        }

    # ------------------------------------------------------------------ for callers

    def ask(self, n: int = 1) -> list[Suggestion]:
        """Return the next ``n`` suggestions, fewer if the space is used up.  Raises SearchExhausted if there is none.

        May be called again before anything is told.  No configuration is suggested twice, nor one already told.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InvalidInput(f"cannot ask for {n!r} suggestions; allowed: an integer from 1")
        suggestions: list[Suggestion] = []
        for _ in range(n):
            try:
                suggestions.append(self._ask_one())
            except SearchExhausted:
                if not suggestions:
                    raise
                break
        return suggestions

    def _ask_one(self) -> Suggestion:
        index = self._asks
        if self.start is not None and self.start not in self._seen:
            proposed, note = self.start, "start"
        else:
            proposed, note = self._suggest(index, self.stream(0, index))
        try:
            configuration = self.space.validate(proposed)
        except InvalidValue as error:
            raise InvalidSuggestion(f"{self.name} left the space at ask {index}: {error}") from error
        if configuration in self._seen:
            raise InvalidSuggestion(f"{self.name} suggested a configuration again at ask {index}")
        if not self.space.is_feasible(configuration):
            raise InvalidSuggestion(f"{self.name} broke a constraint of the space at ask {index}")
        self._asks = index + 1
        self._start_asked = self._start_asked or configuration == self.start
        self._pending[index] = configuration
        self._seen.add(configuration)
        return Suggestion(index, configuration, note)

    def tell(self, observations: Iterable[Observation]) -> None:
        """Take in results, in any order, of any configurations of the space; on an error none of them is taken.

        An observation that carries an ask number which this instance has not reached moves the count of asks past
        it: a history told as observations continues where it ended.  Raises InvalidValue, InvalidObservation.
        """
        accepted = []
        for observation in observations:
            if not isinstance(observation, Observation):
                raise InvalidObservation(f"expected an Observation, found {observation!r}")
            accepted.append((observation, self.space.validate(observation.configuration)))
        told = [*self._observations, *(observation for observation, _ in accepted)]
        objectives = {tuple(sorted(observation.others)) for observation in told if observation.value is not None}
        if len(objectives) > 1:
            raise InvalidObservation(
                f"observations of one study name the same further objectives, found {sorted(objectives)}"
            )
        for observation, configuration in accepted:
            checked = replace(observation, configuration=configuration)
            self._observations.append(checked)
            self._seen.add(configuration)
            self._settle(checked)
            if checked.ask is not None:
                self._asks = max(self._asks, checked.ask + 1)
                self._start_asked = self._start_asked or configuration == self.start
            self._ordered = self._ranked = None  # the algorithm may read both in _observed
            self._observed(checked)

    def _settle(self, observation: Observation) -> None:
        """Remove from the pending suggestions those with this result's number or configuration."""
        for ask, configuration in list(self._pending.items()):
            if ask == observation.ask or configuration == observation.configuration:
                del self._pending[ask]

    # ------------------------------------------------------------------ for algorithms to implement

    @abstractmethod
    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        """Return a feasible configuration that is not in ``seen``, and why, in a phrase.

        ``index`` counts the asks from 0; ``rng`` belongs to this ask alone.  Raises SearchExhausted.
        """

    def _observed(self, observation: Observation) -> None:  # noqa: B027 - a hook: most algorithms need none
        """Take in one observation, for algorithms that keep a state (a swarm, a library's own optimizer)."""

    # ------------------------------------------------------------------ for algorithms to read

    def stream(self, *key: int) -> np.random.Generator:
        """Return a random generator for this key; equal keys give equal numbers.  (0, i) belongs to ask i."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    @cached_property
    def simulator_prior(self) -> PriorMean | None:
        """The ``prior``, or a process through the ``modelled`` predictions; None where there is neither."""
        return SimulatorPrior(self.space, self._modelled_points) if self._modelled_points else self._prior

    @property
    def start_asks(self) -> int:
        """Number of asks that suggested ``start`` itself: 0 or 1."""
        return int(self._start_asked)

    @property
    def asks(self) -> int:
        """Number of suggestions so far, and so the number of the next one."""
        return self._asks

    @property
    def seen(self) -> frozenset[Configuration]:
        """Every configuration suggested or told."""
        return frozenset(self._seen)

    @property
    def pending(self) -> tuple[Suggestion, ...]:
        """Suggestions without a result yet, oldest first."""
        return tuple(Suggestion(ask, self._pending[ask]) for ask in sorted(self._pending))

    @property
    def observations(self) -> tuple[Observation, ...]:
        """All observations, in an order independent of that of the tells (unless ``tell_order_matters``)."""
        if self._ordered is None:
            told = self._observations if self.tell_order_matters else sorted(self._observations, key=_canonical)
            self._ordered = tuple(told)
        return self._ordered

    def scores(self) -> list[Scored]:
        """Return each completed configuration once, with the mean of its values, best first; ties by configuration.

        Those that keep the measured constraints come first, then the others by their violation (Deb, Computer Methods
        in Applied Mechanics and Engineering 186 (2000), section 3).
        """
        if self._ranked is None:
            told: dict[Configuration, list[Observation]] = {}
            for observation in self.observations:
                if observation.state is ObservationState.COMPLETED:
                    told.setdefault(observation.configuration, []).append(observation)
            scored = [
                Scored(configuration, _mean_value(observations), _violation(observations))
                for configuration, observations in told.items()
            ]
            self._ranked = sorted(scored, key=lambda score: (score.violation, score.value, score.configuration.key()))
        return list(self._ranked)

    def best(self) -> Scored | None:
        """Return the best completed configuration so far; None where nothing has a value."""
        scores = self.scores()
        return scores[0] if scores else None

    def recommend(self) -> Configuration | None:
        """Return the configuration to take if the search ended now; None where nothing has a value.

        The base class takes the lowest mean of the values; an algorithm with a model of the noise can do better.
        """
        best = self.best()
        return best.configuration if best is not None else None

    def pareto(self) -> list[Configuration]:
        """Return the Pareto set of the completed configurations that keep the constraints, lowest ``value`` first.

        Objectives are compared by their means over the observations, ``value`` among them.
        """
        objectives: dict[Configuration, list[tuple[float, ...]]] = {}
        for observation in self.observations:
            if observation.value is not None:
                row = (observation.value, *(observation.others[name] for name in sorted(observation.others)))
                objectives.setdefault(observation.configuration, []).append(row)
        kept = [scored.configuration for scored in self.scores() if scored.violation == 0]
        if not kept:
            return []
        best = undominated(np.array([np.mean(objectives[configuration], axis=0) for configuration in kept]))
        return [configuration for configuration, unbeaten in zip(kept, best, strict=True) if unbeaten]

    def own_priors(self) -> NDArray[np.float64]:
        """Return the attribute ``prior`` of each parameter, (d,); 1 where the author of the space set none."""
        return np.array([parameter.attributes.get(PRIOR, 1.0) for parameter in self.space.parameters])

    def priors(self) -> NDArray[np.float64] | None:
        """Return a weight for each parameter, (d,), with a mean of one; None where nothing is known.

        It is the weight of the parameter's group times the parameter's own (``own_priors``).  Groups have their weights
        from the latest observation with priors, of the best configuration so far if it has any: it can still be
        improved where its time is spent.  A group without a weight has the mean.
        """
        best = self.best()
        told = [observation for observation in self.observations if observation.priors]
        of_best = [
            observation for observation in told if best is not None and observation.configuration == best.configuration
        ] or told
        weights = of_best[-1].priors if of_best else {}
        known = [weights.get(parameter.group) for parameter in self.space.parameters]
        given = [weight for weight in known if weight is not None]
        mean = math.fsum(given) / len(given) if given else 0.0
        own = self.own_priors()
        if mean > 0:
            own = own * np.array([mean if weight is None else weight for weight in known])
        elif bool(np.all(own == own[0])):
            return None
        total = float(own.sum())
        return own * (len(own) / total) if total > 0 else None


def _mean_value(observations: list[Observation]) -> float:
    values = [observation.value for observation in observations if observation.value is not None]
    return math.fsum(values) / len(values)


def _violation(observations: list[Observation]) -> float:
    """Return the sum of the constraints' means that lie above 0."""
    names = sorted({name for observation in observations for name in observation.constraints})
    means = (math.fsum(values) / len(values) for name in names if (values := _measured(observations, name)))
    return math.fsum(max(0.0, mean) for mean in means)


def _measured(observations: list[Observation], constraint: str) -> list[float]:
    return [
        observation.constraints[constraint] for observation in observations if constraint in observation.constraints
    ]


def _canonical(observation: Observation) -> tuple[float, str, str, float, float]:
    return (
        math.inf if observation.ask is None else observation.ask,
        observation.configuration.key(),
        observation.state.value,
        math.inf if observation.value is None else observation.value,
        math.inf if observation.standard_error is None else observation.standard_error,
    )
