"""Slowdowns of services beside stressors and beside each other, from a profile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from framework.placement.interference import Interference, Loss, fitted, pressure_of, sensitivities, thesis_scores
from framework.placement.profile import ColocationPair, Profile, ProfileWindow


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Slowdown of a service beside a stressor: geometric means over its blocks of latency with over without stressor.

    ``mean``, ``p95``: of the mean latency and of p95.  ``low``, ``high``: the least and the greatest ratio of mean
    latencies of a block.  ``ipc``: instructions per cycle without over with the stressor, above 1 where the service
    suffers; None where a window has no counters.
    """

    service: str
    stressor: str
    intensity: float
    mean: float
    p95: float
    low: float
    high: float
    blocks: int
    ipc: float | None = None


def slowdowns(windows: Sequence[ProfileWindow]) -> Sequence[Slowdown]:
    """Return the slowdown of every service, stressor and intensity, over blocks with valid windows of both kinds."""
    counted = [window for window in windows if not window.invalid]
    rows = []
    for service, stressor, threads, duty in sorted({window.key[:4] for window in counted if window.stressor}):
        of_service = [window for window in counted if window.service == service]
        means, tails, ipcs = [], [], []
        for block in sorted({window.block for window in of_service}):
            plain = [w for w in of_service if w.block == block and not w.stressor]
            stressed = [w for w in of_service if w.block == block and w.key[1:4] == (stressor, threads, duty)]
            if len(plain) > 1 and len(stressed) > 1:
                means.append(_ratio(stressed, plain, lambda window: window.mean_ms))
                tails.append(_ratio(stressed, plain, lambda window: window.p95_ms))
                if all(window.counters.get("ipc", 0.0) > 0 for window in (*stressed, *plain)):
                    ipcs.append(_ratio(plain, stressed, lambda window: window.counters["ipc"]))
        if means:
            mean, tail = statistics.geometric_mean(means), statistics.geometric_mean(tails)
            ipc = statistics.geometric_mean(ipcs) if len(ipcs) == len(means) else None
            intensity = threads * duty
            rows.append(Slowdown(service, stressor, intensity, mean, tail, min(means), max(means), len(means), ipc))
    return rows


def _ratio(
    above: Sequence[ProfileWindow], below: Sequence[ProfileWindow], quantity: Callable[[ProfileWindow], float]
) -> float:
    """Return the geometric mean of a quantity over the windows ``above``, divided by that over ``below``."""
    first, second = (statistics.fmean(math.log(quantity(window)) for window in side) for side in (above, below))
    return math.exp(first - second)


def losses(windows: Sequence[ProfileWindow]) -> Sequence[Loss]:
    """Return the losses of services that were measured beside every stressor, from which scores are computed.

    A loss is the drop of instructions per cycle where all windows have counters, else the slowdown of the mean latency.
    """
    rows = slowdowns(windows)
    by_ipc = all(row.ipc is not None for row in rows)
    stressors_of: dict[str, set[str]] = {}
    for row in rows:
        stressors_of.setdefault(row.service, set()).add(row.stressor)
    every = set().union(*stressors_of.values())
    return [
        Loss(row.service, row.stressor, row.intensity, row.ipc if by_ipc and row.ipc is not None else row.mean)
        for row in rows
        if stressors_of[row.service] == every
    ]


def pressures(profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """Return service -> stressor -> the pressure that the service puts on the stressor's resource.

    A stressor at its weakest is the probe.  Its loss of throughput beside the service is converted to an intensity by
    its losses beside another stressor of its kind.  Stressors that were not probed alone are left out.
    """
    pressure: dict[str, dict[str, float]] = {}
    for stressor in sorted({probe.stressor for probe in profile.probes}):
        probes = [probe for probe in profile.probes if probe.stressor == stressor]
        alone = [probe.per_second for probe in probes if probe.beside == 0]
        windows = [window for window in profile.windows if window.stressor == stressor and not window.invalid]
        if not alone or len(alone) == len(probes) or not windows:
            continue
        free, weakest = statistics.median(alone), min(window.intensity for window in windows)
        known = {probe.beside: 1 - probe.per_second / free for probe in probes if probe.beside > 0}
        for service in sorted({window.service for window in windows}):
            rates = [w.stress_per_s for w in windows if w.service == service and w.intensity == weakest]
            if rates:
                pressure.setdefault(service, {})[stressor] = pressure_of(1 - statistics.median(rates) / free, known)
    return pressure


def attributes(profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """Return service -> its attributes for placement solvers (``optimizer.placement.assignment``)."""
    sensitivity, pressure = sensitivities(losses(profile.windows)), pressures(profile)
    scores = thesis_scores(losses(profile.windows))
    attributes_of: dict[str, dict[str, float]] = {}
    for service, row in sensitivity.items():
        own = {f"sensitivity.{stressor}": value for stressor, value in row.items()}
        own |= {f"pressure.{stressor}": value for stressor, value in pressure.get(service, {}).items()}
        undisturbed = [w.p95_ms for w in profile.windows if w.service == service and not w.stressor and not w.invalid]
        own |= {f"calls.{callee}": per_request for callee, per_request in profile.about.calls.get(service, {}).items()}
        attributes_of[service] = {
            **own,
            "score": max(0.0, scores[service][""]),
            "latency": statistics.median(undisturbed),
            "peak": profile.about.peaks.get(service, 0.0),
        }
    return attributes_of


def ratios(pairs: Sequence[ColocationPair]) -> Sequence[tuple[str, str, float]]:
    """Return (service, neighbour, mean latency with it over without it) of every pair with valid windows of both."""
    rows = []
    for service, neighbour in sorted({(pair.service, pair.neighbour) for pair in pairs}):
        valid = [p for p in pairs if (p.service, p.neighbour) == (service, neighbour) and not p.invalid]
        logs = {there: [math.log(p.mean_ms) for p in valid if p.beside is there] for there in (True, False)}
        if all(logs.values()):
            rows.append((service, neighbour, math.exp(statistics.fmean(logs[True]) - statistics.fmean(logs[False]))))
    return rows


def predictor(profile: Profile) -> Interference:
    """Return the interference model of the services that were measured beside every stressor."""
    sensitivity, pressure = sensitivities(losses(profile.windows)), pressures(profile)
    services = tuple(sorted(sensitivity))
    resources = tuple(sorted({name for row in sensitivity.values() for name in row}))

    def table(rows: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
        return np.array([[rows.get(service, {}).get(name, 0.0) for name in resources] for service in services])

    return Interference(services, resources, table(sensitivity), table(pressure), np.ones(len(resources)))


def prediction(profile: Profile) -> tuple[Interference, NDArray[np.float64]] | None:
    """Fit the predictor's common weight to the measured pairs; return it with the relative error of each pair's
    slowdown when that pair is left out of the fit, (pairs,); None with fewer than two pairs.
    """
    model = predictor(profile)
    measured = [row for row in ratios(profile.pairs) if {row[0], row[1]} <= set(model.services)]
    return fitted(model, measured) if len(measured) > 1 else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Relative errors of the predicted slowdowns of pairs, each left out of the fit in its turn.

    ``weight``: the fitted one, 0 where the predictions have no value.  ``median``, ``most``: of the absolute errors.
    ``harmless``: the median error of predicting no slowdown at all, which a useful prediction is below.
    """

    pairs: int
    weight: float
    median: float
    most: float
    harmless: float


def judgement(profile: Profile) -> Judgement | None:
    """Judge the predictions by leave-one-out errors; return None with fewer than two pairs."""
    fit = prediction(profile)
    if fit is None:
        return None
    model, errors = fit
    sizes = np.abs(errors)
    no_slowdown = [abs(1 / ratio - 1) for *pair, ratio in ratios(profile.pairs) if {*pair} <= {*model.services}]
    return Judgement(
        len(sizes), float(model.weights[0]), float(np.median(sizes)), float(sizes.max()), statistics.median(no_slowdown)
    )
