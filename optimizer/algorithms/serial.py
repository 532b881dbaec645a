"""Serial tuning, one service after the other: the paper's baseline, with any other optimizer inside.

Source: Somashekar & Gandhi, EuroMLSys 2021, "Serial": tune the first service on the path, keep its best, go on to the
next; forward from the front end or reverse from the stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from optimizer import registry
from optimizer.base import PATH_ORDER, Optimizer, Option
from optimizer.errors import SearchExhausted
from optimizer.sampling import unseen
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation, ObservationState

_DRAWS = 50  # repeated or infeasible suggestions of the inner optimizer after which a group counts as used up


class Serial(Optimizer):
    """Divide the budget equally among the groups; groups after its end are not tuned.

    In a group's stage all other parameters have the values of the best configuration told before the stage.  The inner
    optimizer sees only the group's parameters and its share of the budget, and starts at that configuration.
    """

    name = "serial"
    summary = "one service after the other along the path, each with an optimizer of its own"
    source = "Somashekar & Gandhi 2021 (EuroMLSys), the baseline Serial"
    suits = "as the paper's baseline: what an engineer does by hand"
    budgeting = "divided equally among the services; those after its end are not tuned"
    needs_budget = True
    options_known: ClassVar[Mapping[str, Option]] = {
        "inner": Option(
            "bo-gp",
            "the optimizer of each stage",
            "categorical",
            choices=("bo-gp", "bo-gbrt", "bo-rf", "dds", "dds-grow", "ga", "lhs", "pso", "random", "sa", "tpe"),
        ),
        "direction": Option(
            "forward", "from the front end or back to it", "categorical", choices=("forward", "reverse")
        ),
        "per_group": Option(
            0, "suggestions for each group; 0: the budget divided by the groups", "integer", low=0, high=1000
        ),
    }

    def _suggest(self, index: int, rng: np.random.Generator) -> tuple[Configuration, str]:
        groups, each = self._groups(), self._each()
        searched = index - self.start_asks
        for stage in range(min(searched // each, len(groups) - 1), len(groups)):
            try:
                configuration = self._inner_suggestion(stage, groups[stage], each)
            except SearchExhausted:
                continue  # a small group can be used up before its share of the budget
            return configuration, f"service {stage + 1} of {len(groups)}: {groups[stage]}"
        return unseen(self.space, rng, self.seen), "uniform: every service is used up"

    def _groups(self) -> list[str]:
        """Return the groups in the order of the path, or in reverse."""
        place = {parameter.group: parameter.attributes.get(PATH_ORDER, 0.0) for parameter in self.space.parameters}
        groups = sorted(self.space.groups, key=lambda group: place[group])  # stable: else the order of the space
        return groups[::-1] if self.options["direction"] == "reverse" else groups

    def _each(self) -> int:
        budget = self.budget if self.budget is not None else 1  # the base class refuses None where needs_budget
        return int(self.options["per_group"]) or max(1, budget // len(self.space.groups))

    def _inner_suggestion(self, stage: int, group: str, each: int) -> Configuration:
        """Return the next suggestion of the inner optimizer, which is rebuilt from the observations of its stage."""
        first = stage * each + self.start_asks
        context = self._context(first)
        names = self.space.groups[group]
        inner_space = SearchSpace([replace(self.space[name], condition=None) for name in names])
        start = Configuration({name: context[name] for name in names})
        seed = int(self.stream(2, stage).integers(2**31))
        # One more than its share: the inner optimizer counts the start, which has a value already.
        inner = registry.load(str(self.options["inner"]))(inner_space, seed=seed, budget=each + 1, start=start)
        inner.tell(self._of_stage(context, names, first))
        seen = self.seen
        for _ in range(_DRAWS):
            [suggestion] = inner.ask()
            configuration = self.space.canonical(context.replace(suggestion.configuration))
            if configuration not in seen and self.space.is_feasible(configuration):
                return configuration
        raise SearchExhausted(f"{group}: {_DRAWS} suggestions were not new or broke a constraint")

    def _context(self, first: int) -> Configuration:
        """Return the best configuration told before ask ``first``, imported ones included."""
        before = [
            observation for observation in self.observations if observation.ask is None or observation.ask < first
        ]
        valued = [
            (
                not observation.keeps_limits,
                observation.value,
                observation.configuration.key(),
                observation.configuration,
            )
            for observation in before
            if observation.value is not None
        ]
        if valued:
            return min(valued)[3]
        return self.start if self.start is not None else self.space.default()

    def _of_stage(self, context: Configuration, names: tuple[str, ...], first: int) -> list[Observation]:
        """Return the observations of configurations that differ from the context only in the group's parameters."""
        chosen = set(names)
        others = [name for name in self.space.names if name not in chosen]
        projected = []
        for observation in self.observations:
            if observation.state is ObservationState.ABORTED or any(
                observation.configuration[name] != context[name] for name in others
            ):
                continue
            part = Configuration({name: observation.configuration[name] for name in names})
            ask = observation.ask - first if observation.ask is not None and observation.ask >= first else None
            projected.append(replace(observation, configuration=part, ask=ask))
        return projected
