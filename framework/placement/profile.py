"""A profile: what was measured of each service beside stressors, and what follows from it.

A window is one stretch of load with one service on CPUs of its own (the place) and everything else, the tracing and
the load generator too, on the others (the rest).  Windows come in blocks that are the same forwards and backwards
(A B C C B A, where A is without a stressor), so that whatever drifts steadily falls on all alike.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.errors import InputError
from framework.model.documents import decode
from framework.model.neighbours import Stressor
from framework.model.cpus import read_cpus
from framework.placement.interference import Interference, Loss, fitted, pressure_of, sensitivities, thesis_scores

VERSION = 1
LONGEST = 300  # characters of a reason
FEWEST_SPANS = 30  # of a service in a window that counts
CROWDED = 0.9  # of the rest's CPUs; a queue at more is long and different from window to window
UNSTRESSED_EVERY = 3  # stressed windows: so often there is one without a stressor in between


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of load.  Times in ms over the service's own spans; nan where it had none.

    ``stressor``: empty for a window without one.  ``threads``, ``duty``: of the stressor.  ``cores``: CPU seconds per
    second.  ``delay``, ``switches_per_s``: seconds waited for a CPU and context switches, per second, of the service's
    threads.  ``stress_per_s``: what the stressor did; 0 without it.  ``invalid``: why it does not count.
    ``counters``: hardware counters of the service, by the names of ``placement.counters.as_numbers``.
    """

    service: str
    stressor: str
    threads: int
    duty: float
    block: int
    position: int
    spans: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    throughput_rps: float
    cores: float
    delay: float
    switches_per_s: float
    stress_per_s: float
    invalid: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int, float, int, int]:
        """What it was to measure, however often it was tried."""
        return self.service, self.stressor, self.threads, self.duty, self.block, self.position

    @property
    def intensity(self) -> float:
        return self.threads * self.duty


@dataclass(frozen=True, slots=True)
class Probe:
    """What a stressor at its weakest did beside another of its kind; ``beside``: the other's intensity, 0 for none."""

    stressor: str
    beside: float
    per_second: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One window of a service with or without (``beside``) another service on its CPUs, under the same load; four of
    a pair, the two with the neighbour between the two without.
    """

    service: str
    neighbour: str
    position: int
    beside: bool
    mean_ms: float
    invalid: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a service's pipeline slots went to while it ran alone: node of the top-down tree -> share (toplev)."""

    service: str
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class About:
    """What a profile was measured on.  ``place``, ``rest``: lists of CPUs.  ``peaks``: the most cores that each service
    used in a second of undisturbed load on all CPUs.  ``without_counters``: why there were no hardware counters.
    ``calls``: service -> service that it calls -> how often per request.  ``spans``: how many each service had in a
    window of that load.  ``busy``: the CPUs that all of the machine used meanwhile, on average.  ``memory_mib``: what
    each service held at its end, without what the kernel could drop.
    """

    application: str
    content_hash: str
    machine: Mapping[str, Any]
    place: str
    rest: str
    rate_rps: float
    warmup_s: float
    window_s: float
    seed: int
    peaks: Mapping[str, float]
    without_counters: str = ""
    calls: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    spans: Mapping[str, int] = field(default_factory=dict)
    busy: float = 0.0
    memory_mib: Mapping[str, float] = field(default_factory=dict)

    def rare(self) -> tuple[str, ...]:
        """Services that the load reaches too seldom for windows of this length; they are not tried unasked."""
        return tuple(sorted(name for name, count in self.spans.items() if count < FEWEST_SPANS / 2))

    def crowded(self) -> bool:
        """Whether all but one service had too few CPUs: what they do then is wait for each other."""
        return self.busy > CROWDED * len(read_cpus(self.rest))


Part = Window | Probe | Pair | Pipeline


@dataclass(frozen=True, slots=True)
class Profile:
    """``windows``: all that were measured, those that do not count too."""

    about: About
    windows: Sequence[Window]
    probes: Sequence[Probe] = ()
    pairs: Sequence[Pair] = ()
    pipelines: Sequence[Pipeline] = ()

    def to_lines(self) -> str:
        """As a file: a line of JSON for what it is about, and one for each probe, window, pair and pipeline."""
        parts: list[Part] = [*self.probes, *self.windows, *self.pairs, *self.pipelines]
        return line(self.about) + "".join(map(line, parts))


def line(part: About | Part) -> str:
    """A part of a profile as a line of its file."""
    head = {"kind": "profile", "version": VERSION} if isinstance(part, About) else {}
    return json.dumps({**head, type(part).__name__.lower(): asdict(part)}) + "\n"


def read_profile(text: str, name: str) -> Profile:
    """The inverse of ``to_lines``; a last line that was cut off is left out.  Raises InputError."""
    whole = text[: text.rfind("\n") + 1]
    try:
        documents = [json.loads(one) for one in whole.splitlines()]
        if documents[0].get("kind") != "profile" or documents[0].get("version") != VERSION:
            raise ValueError("another kind or version of file")
        about = decode(About, documents[0]["about"])
        windows = tuple(decode(Window, one["window"]) for one in documents if "window" in one)
        probes = tuple(decode(Probe, one["probe"]) for one in documents if "probe" in one)
        pairs = tuple(decode(Pair, one["pair"]) for one in documents if "pair" in one)
        pipelines = tuple(decode(Pipeline, one["pipeline"]) for one in documents if "pipeline" in one)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{name}: not a profile ({type(error).__name__}: {f'{error}'[:LONGEST]})") from error
    return Profile(about, windows, probes, pairs, pipelines)


# ---------------------------------------------------------------------- what follows


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


def block_of(stressors: Sequence[Stressor], seed: int) -> list[Stressor | None]:
    """The windows of a block in their order: all stressors, shuffled by a seed, and None for windows without one."""
    shuffled = [stressors[one] for one in np.random.default_rng(seed).permutation(len(stressors))]
    half: list[Stressor | None] = []
    for number, stressor in enumerate(shuffled):
        if number % UNSTRESSED_EVERY == 0:
            half.append(None)
        half.append(stressor)
    return [*half, *reversed(half)]


def slowdowns(windows: Sequence[Window]) -> Sequence[Slowdown]:
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


def _ratio(one: Sequence[Window], other: Sequence[Window], what: Callable[[Window], float]) -> float:
    """The geometric mean of some windows over that of others."""
    first, second = (statistics.fmean(math.log(what(each)) for each in some) for some in (one, other))
    return math.exp(first - second)


def losses(windows: Sequence[Window]) -> Sequence[Loss]:
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


def ratios(pairs: Sequence[Pair]) -> Sequence[tuple[str, str, float]]:
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
