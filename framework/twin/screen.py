"""Thousands of configurations on the twin before the first real trial: what a study starts from.

A Latin hypercube over the space, then rounds around the best.  All see the same requests, so that small differences
show; the best are asked again with other requests, since the lowest of many is low by luck too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from framework.model import Application, ServiceType
from framework.model.twin import Twin
from framework.twin.replication import replication
from framework.twin.translate import compiled
from optimizer.models.simulator_prior import Modelled
from optimizer.sampling import latin_hypercube, mutated
from optimizer.space import Configuration, SearchSpace

DESIGN = 800
ROUNDS, PER_ROUND, PARENTS = 4, 300, 20
KEPT_BEST, KEPT_DESIGN = 64, 160  # what the optimizer is told: a process through more points takes too long
REQUESTS = 1_500  # simulated for each configuration: p95 has a standard error of a few percent
AGAIN = 3  # runs of the best with other requests
WORST = math.log(20.0)  # beyond it a configuration is bad, and how bad does not matter


def screened(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    space: SearchSpace,
    rate_rps: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    design: int = DESIGN,
    per_round: int = PER_ROUND,
) -> list[Modelled]:
    """The best that the twin knows and a part of the design, each with the logarithm of p95 over the default's.

    A default under which requests fail has no p95: the highest that was found stands for it.  Nothing where none was.
    """
    rng = np.random.default_rng([seed, 11])
    seconds = min(30.0, max(2.0, REQUESTS / rate_rps))
    total = design + ROUNDS * per_round + AGAIN * KEPT_BEST
    done = 0
    found: dict[Configuration, float] = {}

    def p95(configuration: Configuration, number: int) -> float:
        program, _ = compiled(twin, application, types, configuration)
        return replication(program, rate_rps, seconds, number).p95_ms

    def ask(configurations: Sequence[Configuration], number: int) -> list[float]:
        nonlocal done
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            values = []
            for value in pool.map(lambda one: p95(one, number), configurations):
                values.append(value)
                done += 1
                progress(done, total)
        return values

    def keep(configurations: Sequence[Configuration]) -> None:
        fresh = [one for one in dict.fromkeys(configurations) if one not in found and space.is_feasible(one)]
        for one, value in zip(fresh, ask(fresh, seed), strict=True):
            found[one] = value if value > 0 else math.inf  # NaN: no request was answered

    first = latin_hypercube(space, design, rng)
    keep(first)
    for round_ in range(ROUNDS):
        parents = _lowest(found, PARENTS) or [space.default()]
        step = 0.3 / (1 + round_)
        keep([_child(space, parents, step, rng) for _ in range(per_round)])
    highest = max(filter(math.isfinite, found.values()), default=None)
    if highest is None:
        return []

    def level(number: int) -> float:
        default = p95(space.default(), number)
        return default if math.isfinite(default) else highest

    best = _lowest(found, KEPT_BEST)
    runs = [(ask(best, number), level(number)) for number in range(seed + 1, seed + 1 + AGAIN)]
    again = {
        one: math.fsum(_log_ratio(values[place], base) for values, base in runs) / AGAIN
        for place, one in enumerate(best)
    }
    base = level(seed)
    others = [one for one in first if one in found and one not in again][:KEPT_DESIGN]
    points = [Modelled(one, value) for one, value in again.items()]
    return [*points, *(Modelled(one, _log_ratio(found[one], base)) for one in others), Modelled(space.default(), 0.0)]


def _log_ratio(value: float, level: float) -> float:
    return min(WORST, math.log(value / level)) if math.isfinite(value) and value > 0 else WORST


def _lowest(found: Mapping[Configuration, float], count: int) -> list[Configuration]:
    return sorted(found, key=lambda one: (found[one], one.key()))[:count]


def _child(
    space: SearchSpace, parents: Sequence[Configuration], step: float, rng: np.random.Generator
) -> Configuration:
    """Of two parents, each service from one of them, with a few parameters moved."""
    one, other = (parents[i] for i in rng.integers(len(parents), size=2))
    taken = {group: rng.random() < 0.5 for group in space.groups}
    mixed = {p.name: (one if taken[p.group] else other)[p.name] for p in space.parameters}
    return mutated(space, space.canonical(Configuration(mixed)), min(1.0, 3.0 / len(space)), step, rng)
