"""Backward elimination: which changes of a recommendation are needed, by a model of the observations.

A search moves many parameters at once, and most of these changes have no effect.  Backward elimination (Kohavi & John,
Artificial Intelligence 97 (1997), section 3) repeatedly resets one group of parameters (a service) to its defaults:
the one with the least predicted loss.  The model proposes; a measurement has to decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optimizer.analysis.value_model import ValueModel
from optimizer.models.surrogate import one_thread
from optimizer.space import Configuration, SearchSpace
from optimizer.trial import Observation

TOLERANCES = (0.05, 0.02, 0.0)  # predicted relative losses, for the smallest candidate first


@dataclass(frozen=True)
class Smaller:
    """A recommendation with fewer changes.  ``back``: the groups (or parameters) reset to their defaults.

    ``expected``: the predicted log ratio of its value to that of the full recommendation; positive is worse.
    """

    configuration: Configuration
    back: tuple[str, ...]
    expected: float


def smaller(
    space: SearchSpace, observations: Iterable[Observation], full: Configuration, *, most: int = 3
) -> list[Smaller]:
    """Return at most ``most`` candidates, the smallest first; none where there is no model or nothing to reset.

    Parts are groups, or single parameters where only one group is changed.  Values must be above 0.
    """
    parts = _parts(space, full)
    model = ValueModel.of(space, observations)
    if len(parts) < 2 or model is None:
        return []
    with one_thread():
        steps = _eliminated(space, model, full, parts)
    candidates: dict[Configuration, Smaller] = {}
    for tolerance in TOLERANCES:
        kept = [step for step in steps if step.expected <= math.log1p(tolerance)]
        if kept:
            candidates.setdefault(kept[-1].configuration, kept[-1])
    return list(candidates.values())[:most]


def _parts(space: SearchSpace, full: Configuration) -> dict[str, tuple[str, ...]]:
    """Return the parts by name: the parameters of each that differ from their defaults."""
    default = space.default()
    changed = [name for name in space.names if full[name] != default[name]]
    groups: dict[str, tuple[str, ...]] = {}
    for name in changed:
        groups[space[name].group] = (*groups.get(space[name].group, ()), name)
    return groups if len(groups) > 1 else {name: (name,) for name in changed}


def _eliminated(
    space: SearchSpace, model: ValueModel, full: Configuration, parts: dict[str, tuple[str, ...]]
) -> list[Smaller]:
    """Return the steps of the elimination, until a single part is left."""
    default, current, left = space.default(), full, dict(parts)
    [reference] = model.expect([full])
    steps: list[Smaller] = []
    back: tuple[str, ...] = ()
    while len(left) > 1:
        tried = {
            part: space.canonical(current.replace({name: default[name] for name in names}))
            for part, names in left.items()
        }
        allowed = {part: configuration for part, configuration in tried.items() if space.is_feasible(configuration)}
        if not allowed:
            break
        expected = model.expect(list(allowed.values()))
        place = int(np.argmin(expected))
        part = list(allowed)[place]
        current, back = allowed[part], (*back, part)
        del left[part]
        steps.append(Smaller(current, back, float(expected[place] - reference)))
    return steps
