"""The conformance kit finds what it promises to find: one broken optimizer for each check."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import pytest

from optimizer.algorithms.random import Random
from optimizer.base import Optimizer, Option
from optimizer.errors import InvalidSuggestion, SearchExhausted
from optimizer.sampling import unseen
from optimizer.space import Configuration, Value
from optimizer.testing import ConformanceFailure, conformance
from optimizer.trial import Observation, Suggestion

Proposal = tuple[Configuration, str]


class Sound(Optimizer):
    """Random search that draws once more for every value below 0.5 that was told: it learns, in its way."""

    name, summary, source = "sound", "for the kit's own tests", "this file"

    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        rng.random(sum(value < 0.5 for _, value, _ in self.scores()))
        return unseen(self.space, rng, self.seen), ""


class Silent(Sound):
    source = " "


class Illegal(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        return self.space.default().replace({self.space.names[0]: 10_000}), ""


class Repeats(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        return self.space.default(), ""


class GivesUp(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        if index == 3:
            raise SearchExhausted("tired")
        return super()._suggest(index, rng)


class PerProcess(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        rng.random(os.getpid() % 1009)
        return super()._suggest(index, rng)


class GlobalRandom(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        rng.random(int(np.random.randint(1000)))
        return super()._suggest(index, rng)


class Shared(Sound):
    calls = itertools.count()

    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        rng.random(next(self.calls))
        return super()._suggest(index, rng)


class Cornered(Sound):
    """Draws without regard to equations, so that most draws are moved to a bound."""

    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        while True:
            drawn = self.space.from_unit(rng.random(len(self.space)))
            if drawn not in self.seen and self.space.is_feasible(drawn):
                return drawn, ""


class Impatient(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        if len(self.pending) > 4:
            raise SearchExhausted("tell me something first")
        return super()._suggest(index, rng)


class Forgetful(Sound):
    """Remembers its own suggestions only."""

    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        told = [observation.configuration for observation in self.observations if observation.ask is None]
        if told:
            return told[0], ""
        return super()._suggest(index, rng)


class NeedsValues(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        if self.observations and not self.scores():
            raise SearchExhausted("nothing has a value")
        return super()._suggest(index, rng)


class IgnoresStart(Sound):
    def __init__(
        self, space: object, *, seed: int, budget: int | None = None, start: object = None, **options: Value
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, **options)  # type: ignore[arg-type]  # the kit passes spaces


class Meddles(Sound):
    def tell(self, observations: object) -> None:
        assert isinstance(observations, list)
        super().tell(list(observations))
        observations.clear()


class TakesAnything(Sound):
    @classmethod
    def _checked_options(cls, options: object) -> dict[str, Value]:
        return {}


class OrderMatters(Sound):
    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]  # passed through
        self.last = 0.0

    def _observed(self, observation: Observation) -> None:
        self.last = observation.value or 0.0

    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        rng.random(int(1000 * self.last) % 97)
        return super()._suggest(index, rng)


class Deaf(Random):
    learns = True


class OneSeed(Sound):
    def _suggest(self, index: int, rng: np.random.Generator) -> Proposal:
        return super()._suggest(index, np.random.default_rng(index))


class Renumbers(Sound):
    def ask(self, n: int = 1) -> list[Suggestion]:
        return [Suggestion(suggestion.ask + 1, suggestion.configuration) for suggestion in super().ask(n)]


class ClaimsFailures(Sound):
    uses_failures = True


class ClaimsNoise(Sound):
    uses_noise = True


class ClaimsConstraints(Sound):
    handles_constraints = True


class ClaimsObjectives(Sound):
    handles_objectives = True


class KeepsNoLimit(Sound):
    def pareto(self) -> list[Configuration]:
        return [observation.configuration for observation in self.observations]


class BadDefault(Sound):
    options_known: ClassVar[Mapping[str, Option]] = {"r": Option(0.5, " ", low=0, high=1)}


BROKEN = [
    (Silent, "declares_itself"),
    (BadDefault, "declares_itself"),
    (Illegal, "stays_in_a_mixed_space"),
    (Repeats, "stays_in_a_mixed_space"),
    (Renumbers, "stays_in_a_mixed_space"),
    (Cornered, "keeps_equations"),
    (GivesUp, "ends_with_the_space"),
    (PerProcess, "reproducible_in_another_process"),
    (GlobalRandom, "leaves_global_random_state_alone"),
    (Shared, "replays_from_history"),
    (GivesUp, "many_asks_before_a_tell"),
    (Impatient, "many_asks_before_a_tell"),
    (Forgetful, "tells_of_configurations_never_suggested"),
    (NeedsValues, "survives_trials_without_a_value"),
    (IgnoresStart, "starts_where_it_is_told"),
    (Meddles, "mutates_nothing"),
    (TakesAnything, "checks_what_comes_in"),
    (OrderMatters, "order_of_tells_is_irrelevant"),
    (Deaf, "learns"),
    (OneSeed, "seeds_differ"),
    (ClaimsFailures, "uses_failures"),
    (ClaimsNoise, "uses_noise"),
    (KeepsNoLimit, "survives_constraints_and_objectives"),
    (ClaimsConstraints, "handles_constraints"),
    (ClaimsObjectives, "handles_objectives"),
]


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_optimizer_fails_its_check(broken: type[Optimizer], name: str) -> None:
    (check,) = (check for check in conformance(broken) if check.name == name)
    # InvalidSuggestion: the base class already stops an optimizer that leaves the space or repeats itself
    with pytest.raises((ConformanceFailure, InvalidSuggestion)):
        check()


def test_every_check_has_an_optimizer_that_fails_it() -> None:
    class Claims(Sound):
        uses_failures = uses_noise = handles_constraints = handles_objectives = True

    shown = {name for _, name in BROKEN}
    # A history told as observations is kept by the base class alone; no override can break just that.
    assert {check.name for check in conformance(Claims)} - shown == {"continues_a_history_told_as_observations"}


@pytest.mark.parametrize("check", conformance(Sound), ids=str)
def test_a_sound_optimizer_passes(check: Callable[[], None]) -> None:
    check()
