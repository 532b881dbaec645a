"""Fit of the five numbers of a twin that traces do not give, to the measured latencies and busy cores.

The numbers: factors of the waiting and of the computing of services (the traces were taken under load), the cost of
switching between threads, the cost of a new connection, and the slowdown of cores that compute at the same time.  CPU
time that is taken from computing on the path is added to the background, so that the total stays as the CPU counters
measured it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from framework.model import Application, ServiceType
from framework.model.twin import BACKGROUND, Twin
from framework.twin.replication import replication
from framework.twin.translate import compiled, slowed
from framework.twin.visits import expected_visits
from optimizer.space import Value

SECONDS = 15.0  # of a simulated run
STEPS = 200  # of the simplex
NUMBERS = ("waiting", "computing", "switching", "setup", "sharing")
STARTS = ((0.0,) * 5, (0.0, 0.0, -2.0, 0.0, -2.0))  # the first guess, and one with little switching and sharing
WORST = 100.0  # cap of the ratio of answer and measurement: a larger one tells no more
AWAY = 0.5  # scale of the prior: a typical distance of a number from its first guess, in its logarithm


@dataclass(frozen=True, slots=True)
class Point:
    """Measurements of a configuration at a rate: median and p95 in ms.  ``cores``: busy ones, including those of the
    load generator and the trace store; 0: not known.  ``cpu_us``: of each service per request.  ``slowness``: duration
    of the machine's tick in these windows over that in all of the evidence; None: not known.
    """

    configuration: Mapping[str, Value]
    rate_rps: float
    p50_ms: float
    p95_ms: float
    repetitions: int = 1
    cores: float = 0.0
    cpu_us: Mapping[str, float] = field(default_factory=dict)
    slowness: float | None = None


def answer(
    twin: Twin,
    application: Application,
    types: Mapping[str, ServiceType],
    configuration: Mapping[str, Value],
    rate_rps: float,
    *,
    slowness: float | None = None,
    seed: int = 1,
) -> tuple[float, float, float]:
    """Simulate the twin; return its median and p95 in ms, and its busy cores.  Equal seeds give equal requests."""
    program, _ = compiled(twin, application, types, configuration)
    result = replication(slowed(program, slowness or 1.0), rate_rps, SECONDS, seed)
    return result.p50_ms, result.p95_ms, result.cores + sum(host.others for host in twin.hosts)


def answers(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> list[tuple[float, float, float]]:
    """Return the ``answer`` of each point, computed in one thread per core."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(
            pool.map(
                lambda p: answer(twin, application, types, p.configuration, p.rate_rps, slowness=p.slowness), points
            )
        )


def errors(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> tuple[float, float]:
    """Return the median relative errors of p50 and p95 over the points."""
    predicted = answers(twin, application, types, points)
    p50 = [abs(p50_ms / point.p50_ms - 1) for (p50_ms, _, _), point in zip(predicted, points, strict=True)]
    p95 = [abs(p95_ms / point.p95_ms - 1) for (_, p95_ms, _), point in zip(predicted, points, strict=True)]
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
    """Fit the numbers by least squares of the logarithms of p50, p95 and the busy cores (Nelder-Mead).

    The cores determine the cost of new connections: they differ between configurations and hardly between runs.
    """
    from scipy.optimize import minimize  # here, because only a calibration needs it

    best = [math.inf]

    def loss(theta: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        tried = adjusted(twin, *theta)
        total = 0.0
        predicted = answers(tried, application, types, points)
        for (p50, p95, cores), point in zip(predicted, points, strict=True):
            total += _squared_log_error(p50, point.p50_ms) + _squared_log_error(p95, point.p95_ms)
            total += _squared_log_error(cores, point.cores) if point.cores else 0.0
        # A weak pull to the first guess: a few points do not determine all numbers.
        total += 0.005 * len(points) * float(np.sum((theta / AWAY) ** 2))
        if total < best[0]:
            best[0] = total
            progress(f"error {math.sqrt(total / (3 * len(points))):.2f}")
        return total

    # Begin at the better of the starts: where the queues of the highest rates have no end, the loss is flat.
    begin = min((np.array(start) for start in STARTS), key=loss)
    result = minimize(loss, begin, method="Nelder-Mead", options={"maxfev": steps, "initial_simplex": _simplex(begin)})
    return fixed(twin, {name: round(float(value), 4) for name, value in zip(NUMBERS, result.x, strict=True)})


def _squared_log_error(predicted: float, measured: float) -> float:
    """Return the square of the logarithm of the ratio, which is cut at ``WORST``: a queue may have no end."""
    return min(abs(math.log(max(predicted, 1e-3) / measured)), math.log(WORST)) ** 2


def fixed(twin: Twin, numbers: Mapping[str, float]) -> Twin:
    """Adjust the twin by these logarithms, and record them in its ``fit``, so that it can be reproduced."""
    result = adjusted(twin, *(numbers[name] for name in NUMBERS))
    return replace(result, fit={**result.fit, **{name: numbers[name] for name in NUMBERS}})


def _simplex(begin: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the simplex of a point and the points that differ from it by ``AWAY`` in one number."""
    return np.asarray(begin + np.concatenate([np.zeros((1, len(NUMBERS))), AWAY * np.eye(len(NUMBERS))]))


def adjusted(
    twin: Twin,
    waiting: float = 0.0,
    computing: float = 0.0,
    switching: float = 0.0,
    setup: float = 0.0,
    sharing: float = 0.0,
) -> Twin:
    """Multiply the twin's numbers by the exponentials of the arguments; the CPU time of a request stays the same."""
    wait, compute = math.exp(waiting), math.exp(computing)
    share = {service.name: service.cpu_share for service in twin.services}
    visits = expected_visits(twin)
    moved_us = dict.fromkeys(share, 0.0)
    operations = []
    for operation in twin.operations:
        name = operation.service
        if name == BACKGROUND:
            operations.append(operation)
            continue
        part = share[name]
        factor = part * compute + (1 - part) * wait
        own_us = sum(operation.pieces_us)
        moved_us[name] += (1 - compute) * part * own_us * visits[name, operation.operation]
        operations.append(replace(operation, pieces_us=tuple(piece * factor for piece in operation.pieces_us)))
    more_us = sum(moved_us.values())
    operations = [
        replace(operation, pieces_us=tuple(max(0.0, piece + more_us) for piece in operation.pieces_us))
        if operation.service == BACKGROUND
        else operation
        for operation in operations
    ]
    services = tuple(
        replace(
            service,
            cpu_share=_share(service.cpu_share, compute, wait),
            background_us=max(0.0, service.background_us + moved_us[service.name]),
        )
        for service in twin.services
    )
    return replace(
        twin,
        operations=tuple(operations),
        services=services,
        edges=tuple(replace(edge, setup_us=edge.setup_us * math.exp(setup)) for edge in twin.edges),
        hosts=tuple(
            replace(host, switching=host.switching * math.exp(switching), sharing=host.sharing * math.exp(sharing))
            for host in twin.hosts
        ),
    )


def _share(share: float, compute: float, wait: float) -> float:
    total = share * compute + (1 - share) * wait
    return share * compute / total if total > 0 else share
