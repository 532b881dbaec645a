"""A recommendation that a person would deploy: the few changes that a model of the trials misses.

A search moves many parameters at once, most of them by chance.  Backward elimination (Kohavi & John, Artificial
Intelligence 97 (1997), section 3) takes back one change after another, the one that the model misses least.  Changes
are those of ``changes``: with single parameters in place of tied ones, ten of them keep a fifth of the gain on the twin
of the social network, with tied ones all of it (experiments/small).  The model only proposes: a measurement decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.analysis.changes import Change, applied, changes, moderate, risk
from optimizer.analysis.value_model import ValueModel
from optimizer.models.surrogate import one_thread
from optimizer.space import Configuration, SearchSpace, Value
from optimizer.trial import Observation

MOST_CHANGES = 10  # what a person reads
RISKY_GAIN = 0.03  # predicted, in the logarithm: less cannot be shown by a few fresh pairs
WORTH = 0.02  # of the predicted gain: what all the changes that are taken back in the end may cost


@dataclass(frozen=True)
class KeptChange:
    """A change that the model misses.  ``log_ratio``: log(value with it / value without it), negative is better.

    ``deviation``: its posterior standard deviation.  ``risk``: one of ``RISKS``.
    """

    change: Change
    log_ratio: float
    deviation: float
    risk: str


@dataclass(frozen=True)
class SmallRecommendation:
    """The default with a few changes, those that matter most first.

    ``full``: the recommendation that it was made from, where risky changes that were not kept are moderate or back.
    ``loss``: predicted log(value / value of ``full``), with its posterior standard deviation ``loss_deviation``.
    """

    configuration: Configuration
    kept: tuple[KeptChange, ...]
    full: Configuration
    loss: float
    loss_deviation: float


def small_recommendation(
    space: SearchSpace,
    observations: Iterable[Observation],
    full: Configuration,
    *,
    most: int = MOST_CHANGES,
    most_risky: int = 1,
) -> SmallRecommendation | None:
    """Return the small recommendation; None where there is no model, or the model misses no change.

    ``most``: number of changes; ``most_risky``: number of risky ones among them, whose predicted gain is worth a risk.
    In place of others, a value that is not far above the default is tried.  Values must be above 0.
    """
    model = ValueModel.of(space, observations)
    candidates = changes(space, full)
    if model is None or not candidates:
        return None
    with one_thread():
        kept = _missed(space, model, candidates, most)
        risky = _worth_the_risk(space, model, kept)[:most_risky]
        allowed = [c for change in candidates if (c := _allowed(space, change, risky)) is not None]
        if allowed != list(candidates):
            kept = _missed(space, model, allowed, most)
            risky = [change for change in kept if change in risky]
        if not kept or not all(_can_go(space, kept, change) for change in risky):
            return None
        safe = _without_other_risks(space, full, candidates, risky)
        small = applied(space, kept)
        log_ratio, deviation = model.difference([_without(space, kept, change) for change in kept], small)
        [loss], [loss_deviation] = model.difference([small], safe)
    effects = [
        KeptChange(change, -float(mean), float(sd), risk(space, change))
        for change, mean, sd in zip(kept, log_ratio, deviation, strict=True)
    ]
    ordered = tuple(sorted(effects, key=lambda effect: effect.log_ratio))
    return SmallRecommendation(small, ordered, safe, float(loss), float(loss_deviation))


def _missed(space: SearchSpace, model: ValueModel, candidates: Sequence[Change], most: int) -> list[Change]:
    """Return at most ``most`` changes, those that the model misses most first; none where no set of them gains.

    Of the sets that the elimination passes: the smallest that loses at most ``WORTH`` of the largest predicted gain.
    """
    steps = [list(candidates), *_eliminated(space, model, candidates)]
    small = [step for step in steps if len(step) <= most and space.is_feasible(applied(space, step))]
    if not small:
        return []
    [default, *values] = model.expect([space.default(), *(applied(space, step) for step in small)])
    gains = default - np.array(values)
    if gains.max() <= 0:
        return []
    chosen = min((step for step, gain in zip(small, gains, strict=True) if gain >= (1 - WORTH) * gains.max()), key=len)
    missed = {change: sum(change in step for step in steps) for change in chosen}  # how long each one was left
    return sorted(chosen, key=lambda change: -missed[change])


def _eliminated(space: SearchSpace, model: ValueModel, candidates: Sequence[Change]) -> list[list[Change]]:
    """Return the changes that are left after each step of the elimination, until a single one is left.

    A step takes back one change, and a twentieth of them while there are more than 40: time grows with their square.
    """
    left, steps = list(candidates), []
    while len(left) > 1:
        tried = [applied(space, [other for other in left if other != change]) for change in left]
        allowed = [place for place, configuration in enumerate(tried) if space.is_feasible(configuration)]
        if not allowed:
            break
        expected = model.expect([tried[place] for place in allowed])
        least = [left[allowed[place]] for place in np.argsort(expected, kind="stable")[: max(1, len(left) // 20 - 1)]]
        rest = [change for change in left if change not in least]
        left = rest if space.is_feasible(applied(space, rest)) else [c for c in left if c != least[0]]
        steps.append(left)
    return steps


def _worth_the_risk(space: SearchSpace, model: ValueModel, kept: Sequence[Change]) -> list[Change]:
    """Return the risky changes with a gain that fresh pairs may show."""
    risky = [change for change in kept if risk(space, change) != "none" and _can_go(space, kept, change)]
    if not risky:
        return []
    loss, _ = model.difference([_without(space, kept, change) for change in risky], applied(space, kept))
    return [change for change, lost in zip(risky, loss, strict=True) if lost >= RISKY_GAIN]


def _can_go(space: SearchSpace, kept: Collection[Change], change: Change) -> bool:
    return space.is_feasible(_without(space, kept, change))


def _without(space: SearchSpace, kept: Collection[Change], change: Change) -> Configuration:
    return applied(space, (other for other in kept if other != change))


def _allowed(space: SearchSpace, change: Change, risky: Collection[Change]) -> Change | None:
    """Return the change where it is no risk, or one of ``risky``; else a moderate one, None where there is none."""
    return change if change in risky or risk(space, change) == "none" else moderate(space, change)


def _without_other_risks(
    space: SearchSpace, full: Configuration, candidates: Iterable[Change], kept: Collection[Change]
) -> Configuration:
    """Return ``full`` with its risky changes moderate or back at their defaults, where constraints allow that."""
    values: dict[str, Value] = {}
    for change in candidates:
        allowed = _allowed(space, change, kept)
        if allowed is None:
            values |= {name: space[name].default for name in change.names}
        elif allowed != change:
            values |= allowed.values
    safe = space.canonical(full.replace(values))
    return safe if space.is_feasible(safe) else full
