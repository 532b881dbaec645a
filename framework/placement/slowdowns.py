"""How much slower services run beside stressors and beside each other, from a profile."""

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
    """A service beside a stressor, over its blocks: the geometric mean of B over A, and the spread of the blocks.

    ``low``, ``high``: the least and the greatest of the blocks' ratios.  ``ipc``: instructions per cycle of A over
    those of B, above 1 where the service suffers; None where a window has none.
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
    """Of every service, stressor and intensity, over the blocks where both of its windows count."""
    counted = [one for one in windows if not one.invalid]
    found = []
    for service, stressor, threads, duty in sorted({one.key[:4] for one in counted if one.stressor}):
        mine = [one for one in counted if one.service == service]
        means, tails, ipcs = [], [], []
        for block in sorted({one.block for one in mine}):
            plain = [one for one in mine if one.block == block and not one.stressor]
            beside = [one for one in mine if one.block == block and one.key[1:4] == (stressor, threads, duty)]
            if len(plain) > 1 and len(beside) > 1:
                means.append(_ratio(beside, plain, lambda one: one.mean_ms))
                tails.append(_ratio(beside, plain, lambda one: one.p95_ms))
                if all(one.counters.get("ipc", 0.0) > 0 for one in (*beside, *plain)):
                    ipcs.append(_ratio(plain, beside, lambda one: one.counters["ipc"]))
        if means:
            mean, tail = statistics.geometric_mean(means), statistics.geometric_mean(tails)
            ipc = statistics.geometric_mean(ipcs) if len(ipcs) == len(means) else None
            about = (service, stressor, threads * duty)
            found.append(Slowdown(*about, mean, tail, min(means), max(means), len(means), ipc))
    return found


def _ratio(
    one: Sequence[ProfileWindow], other: Sequence[ProfileWindow], what: Callable[[ProfileWindow], float]
) -> float:
    """The geometric mean of some windows over that of others."""
    first, second = (statistics.fmean(math.log(what(each)) for each in some) for some in (one, other))
    return math.exp(first - second)


def losses(windows: Sequence[ProfileWindow]) -> Sequence[Loss]:
    """What the scores are made of, for services that were measured beside every stressor: the drop of instructions per
    cycle where there are counters for all, the slowdown of the mean latency elsewhere.
    """
    found = slowdowns(windows)
    by_ipc = all(one.ipc is not None for one in found)
    beside: dict[str, set[str]] = {}
    for one in found:
        beside.setdefault(one.service, set()).add(one.stressor)
    every = set().union(*beside.values())
    return [
        Loss(one.service, one.stressor, one.intensity, one.ipc if by_ipc and one.ipc is not None else one.mean)
        for one in found
        if beside[one.service] == every
    ]


def pressures(profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """Service -> stressor -> the pressure that the service puts on the stressor's resource.

    A stressor at its weakest is the probe: what it does beside the service against what it does alone, read off what it
    does beside another of its kind.  Stressors that were not probed alone are left out.
    """
    found: dict[str, dict[str, float]] = {}
    for stressor in sorted({one.stressor for one in profile.probes}):
        mine = [one for one in profile.probes if one.stressor == stressor]
        alone = [one.per_second for one in mine if one.beside == 0]
        beside = [one for one in profile.windows if one.stressor == stressor and not one.invalid]
        if not alone or len(alone) == len(mine) or not beside:
            continue
        free, weakest = statistics.median(alone), min(one.intensity for one in beside)
        known = {one.beside: 1 - one.per_second / free for one in mine if one.beside > 0}
        for service in sorted({one.service for one in beside}):
            done = [one.stress_per_s for one in beside if one.service == service and one.intensity == weakest]
            if done:
                found.setdefault(service, {})[stressor] = pressure_of(1 - statistics.median(done) / free, known)
    return found


def attributes(profile: Profile) -> Mapping[str, Mapping[str, float]]:
    """Service -> what placement solvers know of it (``optimizer.placement.assignment``)."""
    suffered, put = sensitivities(losses(profile.windows)), pressures(profile)
    scores = thesis_scores(losses(profile.windows))
    found: dict[str, dict[str, float]] = {}
    for service, row in suffered.items():
        about = {f"sensitivity.{stressor}": value for stressor, value in row.items()}
        about |= {f"pressure.{stressor}": value for stressor, value in put.get(service, {}).items()}
        undisturbed = [o.p95_ms for o in profile.windows if o.service == service and not o.stressor and not o.invalid]
        about |= {f"calls.{callee}": often for callee, often in profile.about.calls.get(service, {}).items()}
        found[service] = {
            **about,
            "score": max(0.0, scores[service][""]),
            "latency": statistics.median(undisturbed),
            "peak": profile.about.peaks.get(service, 0.0),
        }
    return found


def ratios(pairs: Sequence[ColocationPair]) -> Sequence[tuple[str, str, float]]:
    """(service, neighbour, mean latency beside it over that without it) of every pair with a window of each."""
    found = []
    for service, neighbour in sorted({(one.service, one.neighbour) for one in pairs}):
        mine = [one for one in pairs if (one.service, one.neighbour) == (service, neighbour) and not one.invalid]
        logs = {beside: [math.log(one.mean_ms) for one in mine if one.beside is beside] for beside in (True, False)}
        if all(logs.values()):
            found.append((service, neighbour, math.exp(statistics.fmean(logs[True]) - statistics.fmean(logs[False]))))
    return found


def predictor(profile: Profile) -> Interference:
    """What the services that were measured beside every stressor do to each other, as the stressors say."""
    suffered, put = sensitivities(losses(profile.windows)), pressures(profile)
    services = tuple(sorted(suffered))
    resources = tuple(sorted({name for row in suffered.values() for name in row}))

    def table(rows: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
        return np.array([[rows.get(service, {}).get(name, 0.0) for name in resources] for service in services])

    return Interference(services, resources, table(suffered), table(put), np.ones(len(resources)))


def prediction(profile: Profile) -> tuple[Interference, NDArray[np.float64]] | None:
    """The predictor with its one weight fitted to the measured pairs, and the relative error of each pair's slowdown
    when it is left out of the fit, (pairs,); None with fewer than two pairs.
    """
    known = predictor(profile)
    measured = [one for one in ratios(profile.pairs) if {one[0], one[1]} <= set(known.services)]
    return fitted(known, measured) if len(measured) > 1 else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Relative errors of the predicted slowdown of pairs, each left out of the fit in its turn.

    ``weight``: the fitted one, 0 where the predictions say nothing.  ``harmless``: the median error of predicting no
    slowdown, which a prediction that says something is below.
    """

    pairs: int
    weight: float
    median: float
    most: float
    harmless: float


def judgement(profile: Profile) -> Judgement | None:
    """How good the predictions are; None with fewer than two pairs."""
    known = prediction(profile)
    if known is None:
        return None
    model, errors = known
    sizes = np.abs(errors)
    none = [abs(1 / ratio - 1) for *pair, ratio in ratios(profile.pairs) if {*pair} <= {*model.services}]
    return Judgement(
        len(sizes), float(model.weights[0]), float(np.median(sizes)), float(sizes.max()), statistics.median(none)
    )
