"""The order of the windows of a measurement of energy: rounds, each with every phase, in an order drawn by the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.model.energy import Phase

ORDER_STREAM = 37  # of the random numbers that order the windows


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a round: a baseline, or a deployment that is measured idle, if ``idle``, and then at a rate, if any."""

    round: int
    baseline: bool = False
    idle: bool = False
    rate_rps: float | None = None


def steps(rounds: int, rates_rps: Sequence[float], phases: Sequence[Phase], seed: int) -> list[Step]:
    """Return the steps of all rounds.

    In each round, rates come in a random order, and the baseline first or last, so that a drift of the machine is not
    taken for a difference between phases.  The first deployment of a round is measured idle too.
    """
    rng = np.random.default_rng([seed, ORDER_STREAM])
    every: list[Step] = []
    for round_ in range(rounds):
        rates = [float(rate) for rate in rng.permutation(rates_rps)] if "run" in phases else []
        first = bool(rng.integers(2))
        deployed: list[float | None] = [*rates] or ([None] if "idle" in phases else [])
        parts = [
            Step(round_, idle="idle" in phases and place == 0, rate_rps=rate) for place, rate in enumerate(deployed)
        ]
        baseline = [Step(round_, baseline=True)] if "baseline" in phases else []
        every += [*baseline, *parts] if first else [*parts, *baseline]
    return every
