"""The check of the conformance kit on a space with equations and derived parameters."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from optimizer.testing.failure import keys_of, require
from optimizer.testing.problems import BUDGET, SEED, Maker, conversation, observation_of


def keeps_equations(make: Maker) -> None:
    """Check that suggestions keep equations and derived values, are not drawn to a bound, and can be told elsewhere."""
    space = make.divided()
    optimizer, other = make(space), make(space, seed=SEED + 1)
    suggestions = list(islice(conversation(optimizer, space), BUDGET))
    require(len(suggestions) == BUDGET or make.optimizer_class.one_shot, f"only {len(suggestions)} suggestions")
    for suggestion in suggestions:
        checked = space.validate(suggestion.configuration)
        require(checked == suggestion.configuration, f"ask {suggestion.ask} has other values than follow")
        require(space.is_feasible(checked), f"ask {suggestion.ask} breaks a constraint of the space")
    if not make.optimizer_class.one_shot:
        # Where draws are moved to the nearest solution, the parameter that takes up the rest ends at its lowest values.
        lowest = sum(float(suggestion.configuration["cache9.share"]) <= 2 for suggestion in suggestions)
        require(lowest < BUDGET - 1, f"{lowest} of {BUDGET} suggestions leave cache9.share next to nothing")
    other.tell([replace(observation_of(space, suggestion), ask=None) for suggestion in suggestions])
    keys = keys_of(suggestions) + keys_of(list(islice(conversation(other, space), 2)))
    require(len(set(keys)) == len(keys), "a configuration was suggested that had been told")
