"""Tuning of a policy on the plant: its numbers are a search space like any other.

A configuration's value is the work that BE lost against the oracle, as a share, plus what missing the target costs.
Days are those of given seeds, the same for all configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial

from framework.errors import FieldError
from framework.guard.bench import Case, Outcome, run, run_oracle
from framework.guard.plant.days import DAYS
from framework.guard.plant.kinds import LC_KINDS, MIXES
from framework.guard.policy import POLICIES, Policy
from optimizer import registry
from optimizer.space import Parameter, SearchSpace
from optimizer.trial import Observation, ObservationState

ALLOWED = 0.001  # share of the time in which the target may be missed at no cost
COST = 100.0  # of one percent more of the time, in percent of the oracle's work
FACTOR = 3.0  # a number may become so many times smaller or larger than it is
UNTUNED = ("period_s", "disk_share")  # fixed by the policy; without an effect on the plant, which has no disk
SHARES = ("aim", "headroom", "network_share", "high_bandwidth", "spare", "bandwidth_limit")  # below 1


@dataclass(frozen=True, slots=True)
class Tried:
    """A configuration of a policy: share of the time in which the target was missed, share of the oracle's work."""

    options: Mapping[str, float]
    violation: float
    work: float

    @property
    def value(self) -> float:
        """The number that is minimised."""
        return 1 - self.work + COST * max(0.0, self.violation - ALLOWED)


def space_of(policy: str) -> SearchSpace:
    """Return the space of a policy's numbers, around their defaults.  Raises UnknownName, FieldError."""
    parameters = []
    for field in fields(POLICIES.get(policy)):
        default = field.default
        if isinstance(default, float) and default > 0 and field.name not in UNTUNED:
            high = min(0.99, FACTOR * default) if field.name in SHARES or default < 1 else FACTOR * default
            parameters.append(Parameter(field.name, "real", default, low=default / FACTOR, high=high, scale="log"))
    if not parameters:
        raise FieldError("policy", policy, "a policy with numbers to tune")
    return SearchSpace(parameters)


def days(seeds: Sequence[int]) -> Iterator[Case]:
    """Return every service, day and mix of jobs with these seeds."""
    for seed in seeds:
        for lc in LC_KINDS:
            for day in DAYS:
                for mix in MIXES:
                    yield Case(lc, day, mix, seed)


def tuned(
    policy: str, trials: int, cases: Sequence[Case], watch: Callable[[Tried], None], optimizer: str = "tailor",
    seed: int = 1, workers: int = 1,
) -> list[Tried]:  # fmt: skip
    """Search for better numbers of a policy; returns all that was tried, its own numbers first.

    ``workers``: processes that run days.  Raises UnknownName, FieldError.
    """
    space = space_of(policy)
    search = registry.load(optimizer)(space, start=space.default(), seed=seed, budget=trials)
    tried = list[Tried]()
    with ProcessPoolExecutor(workers) as pool:
        most = [outcome.work for outcome in pool.map(run_oracle, cases)]
        while len(tried) < trials:
            [suggestion] = search.ask()
            options = {name: float(str(value)) for name, value in suggestion.configuration.items()}
            made: Policy = POLICIES.get(policy)(**options)
            tried.append(_sum(options, list(pool.map(partial(run, made), cases)), most))
            watch(tried[-1])
            told = Observation(
                suggestion.configuration, ObservationState.COMPLETED, tried[-1].value, ask=suggestion.ask
            )
            search.tell([told])
    return tried


def _sum(options: Mapping[str, float], outcomes: Sequence[Outcome], most: Sequence[float]) -> Tried:
    violation = sum(outcome.violation for outcome in outcomes) / len(outcomes)
    return Tried(options, violation, sum(outcome.work for outcome in outcomes) / sum(most))
