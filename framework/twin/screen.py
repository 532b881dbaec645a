"""Screening: thousands of configurations on the twin before the first real trial, as the prior of a study.

A Latin hypercube over the space, then rounds around the best.  All are simulated with the same requests, so that small
differences show.  The best are simulated again with other requests, since the lowest of many is low by luck too.
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
KEPT_BEST, KEPT_DESIGN = 64, 160  # told to the optimizer: a Gaussian process over more points takes too long
REQUESTS = 1_500  # simulated for each configuration: p95 has a standard error of a few percent
RERUNS = 3  # of the best, with other requests
WORST = math.log(20.0)  # cap of the log ratio: beyond it a configuration is bad, and how bad does not matter


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
    """Return the best configurations on the twin and a part of the design, each with log(p95 / p95 of the default).

    The highest p95 stands in for the default's where that is infinite.  Empty where no configuration has a finite p95.
    """
    rng = np.random.default_rng([seed, 11])
    seconds = min(30.0, max(2.0, REQUESTS / rate_rps))
    total = design + ROUNDS * per_round + RERUNS * KEPT_BEST
    done = 0
    p95_of: dict[Configuration, float] = {}

    def p95(configuration: Configuration, number: int) -> float:
        program, _ = compiled(twin, application, types, configuration)
        return replication(program, rate_rps, seconds, number).p95_ms

    def simulate_all(configurations: Sequence[Configuration], number: int) -> list[float]:
        nonlocal done
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            values = []
            for value in pool.map(lambda configuration: p95(configuration, number), configurations):
                values.append(value)
                done += 1
                progress(done, total)
        return values

    def keep(configurations: Sequence[Configuration]) -> None:
        fresh = [c for c in dict.fromkeys(configurations) if c not in p95_of and space.is_feasible(c)]
        for configuration, value in zip(fresh, simulate_all(fresh, seed), strict=True):
            p95_of[configuration] = value if value > 0 else math.inf  # NaN: no request was answered

    first = latin_hypercube(space, design, rng)
    keep(first)
    for round_ in range(ROUNDS):
        parents = _lowest(p95_of, PARENTS) or [space.default()]
        step = 0.3 / (1 + round_)
        keep([_child(space, parents, step, rng) for _ in range(per_round)])
    highest = max(filter(math.isfinite, p95_of.values()), default=None)
    if highest is None:
        return []

    def reference(number: int) -> float:
        default = p95(space.default(), number)
        return default if math.isfinite(default) else highest

    best = _lowest(p95_of, KEPT_BEST)
    runs = [(simulate_all(best, number), reference(number)) for number in range(seed + 1, seed + 1 + RERUNS)]
    rerun = {
        configuration: math.fsum(_log_ratio(values[place], base) for values, base in runs) / RERUNS
        for place, configuration in enumerate(best)
    }
    base = reference(seed)
    others = [c for c in first if c in p95_of and c not in rerun][:KEPT_DESIGN]
    points = [Modelled(configuration, value) for configuration, value in rerun.items()]
    return [*points, *(Modelled(c, _log_ratio(p95_of[c], base)) for c in others), Modelled(space.default(), 0.0)]


def _log_ratio(value: float, base: float) -> float:
    return min(WORST, math.log(value / base)) if math.isfinite(value) and value > 0 else WORST


def _lowest(p95_of: Mapping[Configuration, float], count: int) -> list[Configuration]:
    return sorted(p95_of, key=lambda configuration: (p95_of[configuration], configuration.key()))[:count]


def _child(
    space: SearchSpace, parents: Sequence[Configuration], step: float, rng: np.random.Generator
) -> Configuration:
    """Cross two parents, each service from one of them, and mutate a few parameters."""
    first, second = (parents[i] for i in rng.integers(len(parents), size=2))
    from_first = {group: rng.random() < 0.5 for group in space.groups}
    mixed = {p.name: (first if from_first[p.group] else second)[p.name] for p in space.parameters}
    return mutated(space, space.canonical(Configuration(mixed)), min(1.0, 3.0 / len(space)), step, rng)
