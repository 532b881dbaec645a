"""What traces do not tell of a twin is fitted: five numbers, so that it answers as the real application measured.

The numbers: how much longer (or shorter) services wait and compute than the traces say (they were taken under load),
what switching between threads costs, what a new connection costs, and how much of the computing collects garbage.  What
is taken from computing on the path goes to the background, since the CPU counters have to stay true.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from framework.model import Application, ServiceType
from framework.model.twin import Twin
from framework.twin.calibrate import BACKGROUND
from framework.twin.compile import compiled
from framework.twin.replication import replication
from optimizer.space import Value

SECONDS = 15.0  # of a simulated run
STEPS = 150  # of the simplex
NUMBERS = ("waiting", "computing", "switching", "setup", "garbage")


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured of a configuration at a rate: median and p95 in ms, and the cores that were busy with it, the
    load generator and the trace store included; 0: not known.
    """

    configuration: Mapping[str, Value]
    rate_rps: float
    p50_ms: float
    p95_ms: float
    repetitions: int = 1
    cores: float = 0.0


def answer(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    configuration: Mapping[str, Value],
    rate_rps: float,
    *,
    seed: int = 1,
) -> tuple[float, float, float]:
    """The twin's median and p95 in ms, and its busy cores; the same requests for every configuration."""
    program, _ = compiled(twin, application, types, configuration)
    found = replication(program, rate_rps, SECONDS, seed)
    return found.p50_ms, found.p95_ms, found.cores


def answers(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> list[tuple[float, float, float]]:
    """``answer`` of each point, as many at once as there are cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda one: answer(twin, application, types, one.configuration, one.rate_rps), points))


def errors(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> tuple[float, float]:
    """Median relative errors of p50 and p95 over the points."""
    found = answers(twin, application, types, points)
    p50 = [abs(said[0] / one.p50_ms - 1) for said, one in zip(found, points, strict=True)]
    p95 = [abs(said[1] / one.p95_ms - 1) for said, one in zip(found, points, strict=True)]
    return float(np.median(p50)), float(np.median(p95))


def fitted(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    points: Sequence[Point],
    progress: Callable[[str], None] = lambda step: None,
    *,
    steps: int = STEPS,
) -> Twin:
    """The twin with the five numbers that answer best: least squares of the logarithms of p50, p95 and the busy cores
    (Nelder-Mead).  The cores tell what garbage and new connections cost: they differ between configurations and hardly
    between runs.
    """
    from scipy.optimize import minimize  # here: only a calibration pays for it

    best = [math.inf]

    def loss(theta: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        tried = adjusted(twin, *theta)
        total = 0.0
        said = answers(tried, application, types, points)
        for (p50, p95, cores), one in zip(said, points, strict=True):
            total += math.log(max(p50, 1e-3) / one.p50_ms) ** 2 + math.log(max(min(p95, 1e6), 1e-3) / one.p95_ms) ** 2
            total += math.log(max(cores, 1e-3) / one.cores) ** 2 if one.cores else 0.0
        # A weak pull to what was believed before: a few points do not determine all five.
        total += 0.02 * len(points) * float(theta @ theta)
        if total < best[0]:
            best[0] = total
            progress(f"error {math.sqrt(total / (3 * len(points))):.2f}")
        return total

    found = minimize(loss, np.zeros(5), method="Nelder-Mead", options={"maxfev": steps, "initial_simplex": _simplex()})
    return fixed(twin, {name: round(float(value), 4) for name, value in zip(NUMBERS, found.x, strict=True)})


def fixed(twin: Twin, numbers: Mapping[str, float]) -> Twin:
    """The twin with the logarithms of the five numbers; its ``fit`` keeps them, so that it can be made again."""
    made = adjusted(twin, *(numbers[name] for name in NUMBERS))
    return replace(made, fit={**made.fit, **{name: numbers[name] for name in NUMBERS}})


def _simplex() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Around zero, each corner a factor of 1.65 away in one number."""
    return np.concatenate([np.zeros((1, 5)), 0.5 * np.eye(5)])


def adjusted(twin: Twin, waiting: float, computing: float, switching: float, setup: float, garbage: float) -> Twin:
    """The twin with five numbers multiplied by the exponentials of these; a request costs as much CPU as before."""
    wait, compute = math.exp(waiting), math.exp(computing)
    share = {service.name: service.cpu_share for service in twin.services}
    visits = expected_visits(twin)
    moved_us = 0.0
    operations = []
    for one in twin.operations:
        if one.service == BACKGROUND:
            operations.append(one)
            continue
        part = share[one.service]
        factor = part * compute + (1 - part) * wait
        moved_us += (1 - compute) * part * sum(one.pieces_us) * visits[one.service, one.operation]
        operations.append(replace(one, pieces_us=tuple(piece * factor for piece in one.pieces_us)))
    operations = [
        replace(one, pieces_us=tuple(max(0.0, piece + moved_us) for piece in one.pieces_us))
        if one.service == BACKGROUND
        else one
        for one in operations
    ]
    services = tuple(
        replace(
            service,
            cpu_share=_share(service.cpu_share, compute, wait),
            gc_share=min(0.6, service.gc_share * math.exp(garbage)),
        )
        for service in twin.services
    )
    return replace(
        twin,
        operations=tuple(operations),
        services=services,
        edges=tuple(replace(edge, setup_us=edge.setup_us * math.exp(setup)) for edge in twin.edges),
        hosts=tuple(replace(host, switching=host.switching * math.exp(switching)) for host in twin.hosts),
    )


def _share(share: float, compute: float, wait: float) -> float:
    total = share * compute + (1 - share) * wait
    return share * compute / total if total > 0 else share


def expected_visits(twin: Twin) -> dict[tuple[str, str], float]:
    """How often a request comes by each operation, on average."""
    found = {(one.service, one.operation): 0.0 for one in twin.operations}
    for name, share in twin.classes.items():
        service, _, operation = name.partition(" ")
        found[service, operation] += share
    calls = {(one.service, one.operation): one.calls for one in twin.operations}
    adding = dict(found)
    while any(count > 1e-9 for count in adding.values()):  # level by level; calls do not go in circles
        below = dict.fromkeys(found, 0.0)
        for key, count in adding.items():
            for call in calls[key] if count else ():
                below[call.service, call.operation] += count * call.probability * call.times
        for key, count in below.items():
            found[key] += count
        adding = below
    return found
