"""The proof of a proposal: deployed once as it is and once with other values, what do the servers tell?

Every knob is proven (the server tells the other value), passed (its container shows it), ineffective (nothing
changed: then it is left alone), or refused (the service does not start with it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from framework.model import Told
from framework.model.agreement import agrees
from optimizer.space import Configuration, Parameter, SearchSpace, Value

STEPS = 40  # values of a range that are looked at
Grade = Literal["proven", "passed", "ineffective", "refused", "not tried"]


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter: the value that it has today, the other one that was tried, and what came of it."""

    name: str
    default: Value
    other: Value | None
    grade: Grade
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The results of the first deployments.

    ``baseline``: service.parameter -> the value that the server has today, where it is not what the files say.
    ``requests``, ``failed``: of a few seconds of load on the entry; ``problem``: why there were none.  ``spans``: of
    those requests, None without tracing.  ``seconds``: until the application was ready.
    """

    knobs: tuple[Knob, ...] = ()
    baseline: Mapping[str, Value] = field(default_factory=dict)
    requests: int = 0
    failed: int = 0
    problem: str = ""
    spans: int | None = None
    seconds: float = 0.0

    @property
    def left_alone(self) -> tuple[str, ...]:
        """The parameters that a study leaves alone: they change nothing, or their service does not start."""
        return tuple(knob.name for knob in self.knobs if knob.grade in ("ineffective", "refused"))


def baseline_of(space: SearchSpace, told: Mapping[str, Told]) -> dict[str, Value]:
    """Return the values that servers have today and that are not the space's defaults."""
    default = space.default()
    return {
        name: seen.value
        for name, seen in told.items()
        if name in default
        and seen.value is not None
        and not agrees(default[name], seen.value)
        and type(seen.value) is type(default[name])
    }


def others_of(space: SearchSpace) -> Configuration:
    """Return a configuration in which every parameter has another value than its default, where it has a meaning."""
    return space.canonical({p.name: other_value(p) for p in space.tuned})


def rounds_of(space: SearchSpace) -> list[Configuration]:
    """Return configurations in one of which each parameter has another value than its default.

    The first has every other value that has a meaning beside the rest, each further one those that had none, among the
    values at which their conditions hold.  A parameter that has no other value is in none.
    """
    default = space.default()
    rounds = [others_of(space)]
    left = [p for p in space.tuned if rounds[0][p.name] == default[p.name] != other_value(p)]
    while left:
        values: dict[str, Value] = {}
        for parameter in left:
            wider = {**values, **conditions_met(space, parameter), parameter.name: other_value(parameter)}
            if space.canonical({**default, **wider}).items() >= wider.items():
                values = wider
        if not values:
            break
        rounds.append(space.canonical({**default, **values}))
        left = [p for p in left if rounds[-1][p.name] == default[p.name]]
    return rounds


def conditions_met(space: SearchSpace, parameter: Parameter) -> dict[str, Value]:
    """Return the values that make a parameter active where the defaults do not."""
    met: dict[str, Value] = {}
    while parameter.condition is not None:
        condition, parameter = parameter.condition, space[parameter.condition.on]
        if not condition.holds(parameter.default):
            candidates = [*condition.values, condition.low, condition.high]
            met[parameter.name] = next(value for value in candidates if value is not None)
    return met


def other_value(parameter: Parameter) -> Value:
    """Return a value near the default: twice it, or half of it; the next choice."""
    default = parameter.default
    if parameter.choices:
        at = parameter.choices.index(default) if default in parameter.choices else -1
        return parameter.choices[(at + 1) % len(parameter.choices)]
    if isinstance(default, bool):
        return not default
    if isinstance(default, str):
        return default
    values = {parameter.from_unit(step / STEPS) for step in range(STEPS + 1)} - {default}
    numbers = [value for value in values if isinstance(value, int | float)]
    return min(numbers, key=lambda value: (abs(value - 2 * default), value), default=default)


def graded(default: Configuration, other: Configuration, told: Mapping[str, Told]) -> list[Knob]:
    """Return each parameter that was tried, with its grade."""
    knobs = []
    for name, value in other.items():
        if value == default[name]:
            knobs.append(Knob(name, default[name], None, "not tried", "it means nothing beside the others' values"))
            continue
        seen = told.get(name)
        if seen is None:
            knobs.append(Knob(name, default[name], value, "not tried", "its service was not asked"))
        elif seen.value is not None:
            proven = agrees(value, seen.value)
            reason = "" if proven else f"the server tells {seen.value}"
            knobs.append(Knob(name, default[name], value, "proven" if proven else "ineffective", reason))
        else:
            grade: Grade = "passed" if seen.seen else "ineffective"
            knobs.append(Knob(name, default[name], value, grade, seen.reason))
    return knobs
