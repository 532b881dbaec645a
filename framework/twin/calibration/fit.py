"""What traces do not tell of a twin is fitted: five numbers, so that it answers as the real application measured.

The numbers: how much longer (or shorter) services wait and compute than the traces say (they were taken under load),
what switching between threads costs, what a new connection costs, and how much cores that compute at the same time
slow each other down.  What is taken from computing on the path goes to the background, since the CPU counters have to
stay true.
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
STARTS = ((0.0,) * 5, (0.0, 0.0, -2.0, 0.0, -2.0))  # the first guess, and hardly any slowing down by others
WRONG = 100.0  # times at most that an answer is wrong: how much more it is says nothing
AWAY = 0.5  # how far from the first guess a number may well be, in its logarithm


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured of a configuration at a rate: median and p95 in ms, and the cores that were busy with it, the
    load generator and the trace store included; 0: not known.  ``cpu_us``: of each service per request.
    ``slowness``: of the machine in these windows, against all of the evidence; None: not known.
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
    """The twin's median and p95 in ms, and its busy cores; the same requests for every configuration."""
    program, _ = compiled(twin, application, types, configuration)
    found = replication(slowed(program, slowness or 1.0), rate_rps, SECONDS, seed)
    return found.p50_ms, found.p95_ms, found.cores + sum(host.others for host in twin.hosts)


def answers(
    twin: Twin, application: Application, types: Mapping[str, ServiceType], points: Sequence[Point]
) -> list[tuple[float, float, float]]:
    """``answer`` of each point, as many at once as there are cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(
            pool.map(
                lambda one: answer(twin, application, types, one.configuration, one.rate_rps, slowness=one.slowness),
                points,
            )
        )


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
    """The twin with the numbers that answer best: least squares of the logarithms of p50, p95 and the busy cores
    (Nelder-Mead).  The cores tell what new connections cost: they differ between configurations and hardly between
    runs.
    """
    from scipy.optimize import minimize  # here: only a calibration pays for it

    best = [math.inf]

    def loss(theta: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        tried = adjusted(twin, *theta)
        total = 0.0
        said = answers(tried, application, types, points)
        for (p50, p95, cores), one in zip(said, points, strict=True):
            total += _off(p50, one.p50_ms) + _off(p95, one.p95_ms)
            total += _off(cores, one.cores) if one.cores else 0.0
        # A weak pull to what was believed before: a few points do not determine all of them.
        total += 0.005 * len(points) * float(np.sum((theta / AWAY) ** 2))
        if total < best[0]:
            best[0] = total
            progress(f"error {math.sqrt(total / (3 * len(points))):.2f}")
        return total

    # A twin that cannot answer at all at the highest rates tells the simplex nothing: it begins where it can.
    begin = min((np.array(start) for start in STARTS), key=loss)
    found = minimize(loss, begin, method="Nelder-Mead", options={"maxfev": steps, "initial_simplex": _simplex(begin)})
    return fixed(twin, {name: round(float(value), 4) for name, value in zip(NUMBERS, found.x, strict=True)})


def _off(said: float, measured: float) -> float:
    """The square of the logarithm of their ratio; no worse than ``WRONG`` times, where a queue has no end."""
    return min(abs(math.log(max(said, 1e-3) / measured)), math.log(WRONG)) ** 2


def fixed(twin: Twin, numbers: Mapping[str, float]) -> Twin:
    """The twin with the logarithms of these numbers; its ``fit`` keeps them, so that it can be made again."""
    made = adjusted(twin, *(numbers[name] for name in NUMBERS))
    return replace(made, fit={**made.fit, **{name: numbers[name] for name in NUMBERS}})


def _simplex(begin: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Around a point, each corner away from it in one number."""
    return np.asarray(begin + np.concatenate([np.zeros((1, len(NUMBERS))), AWAY * np.eye(len(NUMBERS))]))


def adjusted(
    twin: Twin,
    waiting: float = 0.0,
    computing: float = 0.0,
    switching: float = 0.0,
    setup: float = 0.0,
    sharing: float = 0.0,
) -> Twin:
    """The twin with its numbers multiplied by the exponentials of these; a request costs as much CPU as before."""
    wait, compute = math.exp(waiting), math.exp(computing)
    share = {service.name: service.cpu_share for service in twin.services}
    visits = expected_visits(twin)
    moved_us = dict.fromkeys(share, 0.0)
    operations = []
    for one in twin.operations:
        if one.service == BACKGROUND:
            operations.append(one)
            continue
        part = share[one.service]
        factor = part * compute + (1 - part) * wait
        moved_us[one.service] += (1 - compute) * part * sum(one.pieces_us) * visits[one.service, one.operation]
        operations.append(replace(one, pieces_us=tuple(piece * factor for piece in one.pieces_us)))
    more_us = sum(moved_us.values())
    operations = [
        replace(one, pieces_us=tuple(max(0.0, piece + more_us) for piece in one.pieces_us))
        if one.service == BACKGROUND
        else one
        for one in operations
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
