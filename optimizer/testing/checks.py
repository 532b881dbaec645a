"""The checks of the conformance kit: one function for each promise of the optimizer interface."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from optimizer.base import Optimizer
from optimizer.errors import InvalidInput, SearchExhausted
from optimizer.space import Configuration, SearchSpace
from optimizer.testing.equations import keeps_equations
from optimizer.testing.failure import ConformanceFailure as ConformanceFailure
from optimizer.testing.failure import keys_of, require
from optimizer.testing.problems import BUDGET, SEED, Maker, conversation, observation_of, script, value_of
from optimizer.trial import Observation, ObservationState, Suggestion


def _ask(make: Maker, optimizer: Optimizer, count: int) -> list[Suggestion]:
    """Return ``count`` suggestions in a space with many left; only a one-shot solver may give fewer."""
    try:
        suggestions = optimizer.ask(count)
    except SearchExhausted as error:
        require(make.optimizer_class.one_shot, f"SearchExhausted in a space that is far from used up: {error}")
        return []
    require(
        make.optimizer_class.one_shot or len(suggestions) == count, f"ask({count}) gave {len(suggestions)} suggestions"
    )
    return suggestions


def declares_itself(make: Maker) -> None:
    """Check that name, summary and source are stated, and that every option accepts its own default."""
    for attribute in ("name", "summary", "source"):
        text = getattr(make.optimizer_class, attribute, None)
        require(isinstance(text, str) and bool(text.strip()), f"the class attribute {attribute!r} must say something")
    for name, option in make.optimizer_class.options_known.items():
        require(bool(option.description.strip()), f"option {name!r} needs a description")
        option.validate(name, option.default)


def stays_in_a_mixed_space(make: Maker) -> None:
    """Check that suggestions are of the space, feasible, numbered from 0, and never repeated."""
    space = make.mixed()
    suggestions = list(islice(conversation(make(space), space), BUDGET))
    require(bool(suggestions), "nothing was suggested")
    for index, suggestion in enumerate(suggestions):
        checked = space.validate(suggestion.configuration)
        require(checked == suggestion.configuration, f"ask {index} has values of another kind than their parameters")
        require(space.is_feasible(checked), f"ask {index} breaks a constraint of the space")
        require(suggestion.ask == index, f"suggestion {index} calls itself ask {suggestion.ask}")
    require(len(set(keys_of(suggestions))) == len(suggestions), "a configuration was suggested twice")


def ends_with_the_space(make: Maker) -> None:
    """Check that a space of six gives each once, then SearchExhausted (a one-shot solver may stop earlier)."""
    space = make.tiny()
    optimizer = make(space)
    keys = keys_of(list(islice(conversation(optimizer, space), 7)))
    require(len(keys) == len(set(keys)) <= 6, "a space of six configurations gave more, or one twice")
    if not make.optimizer_class.one_shot:
        require(len(keys) == 6, f"SearchExhausted came after {len(keys)} of 6 configurations")
    try:
        optimizer.ask()
    except SearchExhausted:
        return
    raise ConformanceFailure("an exhausted space must raise SearchExhausted each time it is asked")


def reproducible_in_another_process(make: Maker) -> None:
    """Check that the same seed and history give the same asks in a second Python process with other string hashes."""
    here = script(make)
    name = f"{make.optimizer_class.__module__}:{make.optimizer_class.__qualname__}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONHASHSEED": "12345",
    }
    done = subprocess.run(
        [sys.executable, "-m", "optimizer.testing", name, json.dumps(make.options)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    require(done.returncode == 0, f"a second process could not run {name}:\n{done.stderr}")
    require(json.loads(done.stdout) == here, "a second process got other suggestions from the same seed and history")


def leaves_global_random_state_alone(make: Maker) -> None:
    """Check that suggestions neither depend on the global random generators nor change them."""
    script(make)  # the import of a library may draw numbers; an ask may not
    kept = (random.getstate(), np.random.get_state())
    try:
        runs = []
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)
            untouched = (random.getstate(), str(np.random.get_state()))
            runs.append(script(make))
            used = (random.getstate(), str(np.random.get_state())) != untouched
            require(not used, "the global random state was used")
        require(runs[0] == runs[1], "suggestions depend on the global random state")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def replays_from_history(make: Maker) -> None:
    """Check that a fresh instance that is given the recorded asks and tells makes the same asks."""
    space = make.mixed()
    first, second = make(space), make(space)
    records: list[tuple[list[Suggestion], list[Observation]]] = []
    for size in (1, 3, 2, 1, 2, 1):
        suggestions = _ask(make, first, size)
        observations = [observation_of(space, suggestion) for suggestion in suggestions]
        first.tell(observations)
        records.append((suggestions, observations))
    for suggestions, observations in records:
        again = second.ask(len(suggestions)) if suggestions else []
        require(again == suggestions, f"the replay diverged among {suggestions}")
        second.tell(observations)


def continues_a_history_told_as_observations(make: Maker) -> None:
    """Check that a fresh instance that is told a history goes on with its numbers and repeats nothing of it."""
    space = make.mixed()
    suggestions = list(islice(conversation(make(space), space), 6))
    fresh = make(space)
    fresh.tell([observation_of(space, suggestion) for suggestion in suggestions])
    require(fresh.asks == len(suggestions), f"the next ask is {fresh.asks} after a history of {len(suggestions)}")
    more = list(islice(conversation(fresh, space), 3))
    require(
        not set(keys_of(more)) & set(keys_of(suggestions)), "a configuration of the told history was suggested again"
    )


def many_asks_before_a_tell(make: Maker) -> None:
    """Check that eight asks without a tell differ, and that the search goes on when all are told, in reverse."""
    space = make.mixed()
    optimizer = make(space)
    suggestions = _ask(make, optimizer, 5) + _ask(make, optimizer, 3)
    require(len(set(keys_of(suggestions))) == len(suggestions), "asks before a tell gave one configuration twice")
    require(len(optimizer.pending) == len(suggestions), "`pending` must list what was suggested and not told")
    optimizer.tell([observation_of(space, suggestion) for suggestion in reversed(suggestions)])
    require(not optimizer.pending, "`pending` must be empty once everything is told")
    more = list(islice(conversation(optimizer, space), 3))
    require(not set(keys_of(more)) & set(keys_of(suggestions)), "a configuration was suggested again")


def tells_of_configurations_never_suggested(make: Maker) -> None:
    """Check that the default and imported results may be told at any time and are not suggested afterwards."""
    space = make.mixed()
    rng = np.random.default_rng(0)
    drawn = (space.from_unit(rng.random(len(space))) for _ in range(100))
    imports = [space.default(), *islice(filter(space.is_feasible, drawn), 8)]
    keys = [configuration.key() for configuration in imports]
    told = [
        Observation(configuration, ObservationState.COMPLETED, value_of(space, configuration))
        for configuration in imports
    ]
    optimizer = make(space)
    optimizer.tell(told[:5])
    suggestions = list(islice(conversation(optimizer, space), 7))
    optimizer.tell(told[5:])
    suggestions += islice(conversation(optimizer, space), 3)
    require(not set(keys_of(suggestions[:7])) & set(keys[:5]), "a told configuration was suggested")
    require(not set(keys_of(suggestions[7:])) & set(keys), "a told configuration was suggested")


def survives_trials_without_a_value(make: Maker) -> None:
    """Check that trials without a value, some of them or all, are survived for a whole budget."""
    space = make.mixed()
    states = list(ObservationState)
    for mixture in (states, states[1:]):
        optimizer = make(space)
        for index in range(BUDGET):
            suggestions = _ask(make, optimizer, 1)
            optimizer.tell(
                [observation_of(space, suggestion, state=mixture[index % len(mixture)]) for suggestion in suggestions]
            )


def starts_where_it_is_told(make: Maker) -> None:
    """Check that an unmeasured ``start`` comes first, and that one whose value has been told does not come again."""
    space = make.mixed()
    start = make.other_start(space)
    fresh = make(space, start=start)
    require(fresh.ask()[0].configuration == start, "an unmeasured start must be the first suggestion")
    told = make(space, start=start)
    told.tell([Observation(start, ObservationState.COMPLETED, value_of(space, start))])
    suggestions = list(islice(conversation(told, space), 4))
    require(start.key() not in keys_of(suggestions), "a start that has been told must not be suggested")


def mutates_nothing(make: Maker) -> None:
    """Check that space, start, options and observations are unchanged."""
    space = make.mixed()
    start = space.default()
    hashed, options = space.content_hash, copy.deepcopy(make.options)
    optimizer = make(space, start=start)
    observations: list[Observation] = []
    for suggestion in islice(conversation(optimizer, space), 4):
        observations.append(observation_of(space, suggestion))
    before = [(observation, copy.deepcopy(observation.constraints)) for observation in observations]
    optimizer.tell(observations)
    require(
        before == [(observation, observation.constraints) for observation in observations],
        "tell changed what it was given",
    )
    require(SearchSpace(space.parameters, space.constraints).content_hash == hashed, "the space was changed")
    require(start == space.default() and options == make.options, "the start or the options were changed")


def checks_what_comes_in(make: Maker) -> None:
    """Check that unknown options, senseless budgets and seeds, and foreign configurations are refused and named."""
    space = make.tiny()
    cls = make.optimizer_class
    _refuses(lambda: cls(space, seed=1, budget=BUDGET, no_such_option=1), "an unknown option", "no_such_option")
    _refuses(lambda: make(space, seed=-1), "a negative seed", "seed")
    _refuses(lambda: make(space, budget=0), "a budget of 0", "budget")
    if cls.needs_budget:
        _refuses(lambda: make(space, budget=None), "a missing budget", "budget")
    optimizer = make(space)
    _refuses(lambda: optimizer.ask(0), "ask(0)", "0")
    wrong = Configuration({"a": 99, "b": "x"})
    good = Observation(space.default(), ObservationState.COMPLETED, 1.0)
    bad = Observation(wrong, ObservationState.COMPLETED, 1.0)
    _refuses(lambda: optimizer.tell([good, bad]), "a configuration outside the space", "99")
    require(not optimizer.observations, "a tell that is refused must leave nothing behind")


def _refuses(action: Callable[[], object], what: str, mentions: str) -> None:
    try:
        action()
    except InvalidInput as error:
        require(mentions in str(error), f"the refusal of {what} must mention {mentions!r}: {error}")
        return
    raise ConformanceFailure(f"{what} must be refused with InvalidInput")


def order_of_tells_is_irrelevant(make: Maker) -> None:
    """Check that the order of tells between two asks does not matter (unless ``tell_order_matters``)."""
    space = make.mixed()
    forward, backward = make(space), make(space)
    for _ in range(3):
        suggestions, again = _ask(make, forward, 4), _ask(make, backward, 4)
        require(suggestions == again, f"the order of tells changed the suggestions: {suggestions} or {again}")
        observations = [observation_of(space, suggestion) for suggestion in suggestions]
        forward.tell(observations)
        for observation in reversed(observations):
            backward.tell([observation])


def learns(make: Maker) -> None:
    """Check that negating the told values changes one of the first nine of 15 asks (unless ``learns`` is False)."""
    space = make.mixed()
    good = keys_of(list(islice(conversation(make(space), space), 9)))
    bad = keys_of(list(islice(conversation(make(space), space, sign=-1.0), 9)))
    require(good != bad, "nine asks did not depend on the values told: the start-up design is too long for 15")


def seeds_differ(make: Maker) -> None:
    """Check that another seed gives other suggestions."""
    space = make.mixed()
    first = keys_of(list(islice(conversation(make(space), space), 6)))
    second = keys_of(list(islice(conversation(make(space, seed=SEED + 1), space), 6)))
    require(first != second, "two seeds gave the same suggestions")


def uses_failures(make: Maker) -> None:
    """Check that failed and aborted trials of equal configurations lead to different suggestions."""
    space = make.mixed()
    outcomes = []
    for state in (ObservationState.FAILED, ObservationState.ABORTED):
        optimizer = make(space)
        suggestions = []
        for index in range(BUDGET):
            (suggestion,) = optimizer.ask()
            suggestions.append(suggestion)
            told = state if index % 2 else ObservationState.COMPLETED
            optimizer.tell([observation_of(space, suggestion, state=told)])
        outcomes.append(keys_of(suggestions))
    require(outcomes[0] != outcomes[1], "failed trials change nothing, though `uses_failures` is declared")


def survives_constraints_and_objectives(make: Maker) -> None:
    """Check that broken constraints, all of them or some, and further objectives are survived for a whole budget."""
    space = make.mixed()
    for excess in (1.0, -1.0):
        optimizer = make(space)
        for index in range(BUDGET):
            suggestions = _ask(make, optimizer, 1)
            told = [observation_of(space, suggestion) for suggestion in suggestions]
            limits = {"cpu": excess if index % 2 else 1.0}
            optimizer.tell(
                [replace(observation, constraints=limits, others={"cost": float(index)}) for observation in told]
            )
        require(excess < 0 or not optimizer.pareto(), "the Pareto set holds what breaks a limit")


def _with_measured(make: Maker, measured: Callable[[Configuration], dict[str, float]], as_limit: bool) -> list[str]:
    """Return the keys of a budget of suggestions whose observations have ``measured`` in addition to the value."""
    space = make.mixed()
    optimizer = make(space)
    suggestions = []
    for _ in range(BUDGET):
        (suggestion,) = optimizer.ask()
        suggestions.append(suggestion)
        values = measured(suggestion.configuration)
        told = observation_of(space, suggestion)
        optimizer.tell([replace(told, constraints=values) if as_limit else replace(told, others=values)])
    return keys_of(suggestions)


def handles_constraints(make: Maker) -> None:
    """Check that limits that different configurations break lead to different suggestions."""
    few = _with_measured(make, lambda configuration: {"cpu": float(configuration["web.workers"]) / 16 - 1}, True)
    many = _with_measured(make, lambda configuration: {"cpu": 1 - float(configuration["web.workers"]) / 16}, True)
    require(few != many, "measured constraints change nothing, though `handles_constraints` is declared")


def handles_objectives(make: Maker) -> None:
    """Check that another second objective leads to other suggestions."""
    up = _with_measured(make, lambda configuration: {"cost": float(configuration["web.workers"])}, False)
    down = _with_measured(make, lambda configuration: {"cost": -float(configuration["web.workers"])}, False)
    require(up != down, "further objectives change nothing, though `handles_objectives` is declared")


def uses_noise(make: Maker) -> None:
    """Check that standard errors change the suggestions."""
    space = make.mixed()
    outcomes = []
    for error in (0.001, 1.0):
        optimizer = make(space)
        suggestions = []
        for index in range(BUDGET):
            (suggestion,) = optimizer.ask()
            suggestions.append(suggestion)
            told = observation_of(space, suggestion)
            optimizer.tell([replace(told, standard_error=error if index % 2 else 0.01)])
        outcomes.append(keys_of(suggestions))
    require(outcomes[0] != outcomes[1], "standard errors change nothing, though `uses_noise` is declared")


def checks_for(optimizer_class: type[Optimizer]) -> list[Callable[[Maker], None]]:
    """Return the checks for the capabilities that the class declares."""
    chosen: list[Callable[[Maker], None]] = [
        declares_itself,
        stays_in_a_mixed_space,
        ends_with_the_space,
        reproducible_in_another_process,
        leaves_global_random_state_alone,
        replays_from_history,
        continues_a_history_told_as_observations,
        many_asks_before_a_tell,
        tells_of_configurations_never_suggested,
        survives_trials_without_a_value,
        survives_constraints_and_objectives,
        starts_where_it_is_told,
        mutates_nothing,
        checks_what_comes_in,
    ]
    if not optimizer_class.places:
        chosen.append(keeps_equations)
    if not optimizer_class.tell_order_matters:
        chosen.append(order_of_tells_is_irrelevant)
    if not optimizer_class.one_shot:
        chosen.append(seeds_differ)
        if optimizer_class.learns:
            chosen.append(learns)
        if optimizer_class.uses_failures:
            chosen.append(uses_failures)
        if optimizer_class.uses_noise:
            chosen.append(uses_noise)
        if optimizer_class.handles_constraints:
            chosen.append(handles_constraints)
        if optimizer_class.handles_objectives:
            chosen.append(handles_objectives)
    return chosen
