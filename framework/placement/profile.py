"""A profile: what was measured of each service beside stressors, and what follows from it.

A window is one stretch of load with one service on CPUs of its own (the place) and everything else, the tracing and
the load generator too, on the others (the rest).  Windows come in blocks that are the same forwards and backwards
(A B C C B A, where A is without a stressor), so that whatever drifts steadily falls on all alike.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from framework.errors import InputError
from framework.model.neighbours import Stressor
from framework.placement.scores import Loss, pressure_of, sensitivities, thesis_scores

VERSION = 1
UNSTRESSED_EVERY = 3  # stressed windows: so often there is one without a stressor in between


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of load.  Times in ms over the service's own spans; nan where it had none.

    ``stressor``: empty for a window without one.  ``threads``, ``duty``: of the stressor.  ``cores``: CPU seconds per
    second.  ``delay``, ``switches_per_s``: seconds waited for a CPU and context switches, per second, of the service's
    threads.  ``stress_per_s``: what the stressor did; 0 without it.  ``invalid``: why it does not count.
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
class About:
    """What a profile was measured on.  ``place``, ``rest``: lists of CPUs.  ``peaks``: the most cores that each service
    used in a second of undisturbed load on all CPUs.
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


@dataclass(frozen=True, slots=True)
class Profile:
    """``windows``: all that were measured, those that do not count too."""

    about: About
    windows: Sequence[Window]
    probes: Sequence[Probe] = ()

    def to_lines(self) -> str:
        """As a file: a line of JSON for what it is about, and one for each window and probe."""
        return line(self.about) + "".join(map(line, self.probes)) + "".join(map(line, self.windows))


def line(part: About | Window | Probe) -> str:
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
        about = About(**documents[0]["about"])
        windows = tuple(Window(**one["window"]) for one in documents if "window" in one)
        probes = tuple(Probe(**one["probe"]) for one in documents if "probe" in one)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{name}: not a profile ({type(error).__name__}: {error})") from error
    return Profile(about, windows, probes)


# ---------------------------------------------------------------------- what follows


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A service beside a stressor, over its blocks: the geometric mean of B over A, and the spread of the blocks.

    ``low``, ``high``: the least and the greatest of the blocks' ratios.
    """

    service: str
    stressor: str
    intensity: float
    mean: float
    p95: float
    low: float
    high: float
    blocks: int


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
        means, tails = [], []
        for block in sorted({one.block for one in mine}):
            plain = [one for one in mine if one.block == block and not one.stressor]
            beside = [one for one in mine if one.block == block and one.key[1:4] == (stressor, threads, duty)]
            if len(plain) > 1 and len(beside) > 1:
                means.append(_ratio(beside, plain, "mean_ms"))
                tails.append(_ratio(beside, plain, "p95_ms"))
        if means:
            mean, tail = statistics.geometric_mean(means), statistics.geometric_mean(tails)
            found.append(Slowdown(service, stressor, threads * duty, mean, tail, min(means), max(means), len(means)))
    return found


def _ratio(beside: Sequence[Window], plain: Sequence[Window], what: str) -> float:
    """The geometric mean of the windows with the stressor over that of those without."""
    first, second = (statistics.fmean(math.log(getattr(one, what)) for one in some) for some in (beside, plain))
    return math.exp(first - second)


def losses(windows: Sequence[Window]) -> Sequence[Loss]:
    """The mean latencies' slowdowns, as the scores take them: of services that were measured beside every stressor."""
    found = slowdowns(windows)
    beside: dict[str, set[str]] = {}
    for one in found:
        beside.setdefault(one.service, set()).add(one.stressor)
    every = set().union(*beside.values())
    return [Loss(one.service, one.stressor, one.intensity, one.mean) for one in found if beside[one.service] == every]


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
    """Service -> what placement solvers know of it (``optimizer.assignment``)."""
    suffered, put = sensitivities(losses(profile.windows)), pressures(profile)
    scores = thesis_scores(losses(profile.windows))
    found: dict[str, dict[str, float]] = {}
    for service, row in suffered.items():
        about = {f"sensitivity.{stressor}": value for stressor, value in row.items()}
        about |= {f"pressure.{stressor}": value for stressor, value in put.get(service, {}).items()}
        undisturbed = [o.p95_ms for o in profile.windows if o.service == service and not o.stressor and not o.invalid]
        found[service] = {
            **about,
            "score": max(0.0, scores[service][""]),
            "latency": statistics.median(undisturbed),
            "peak": profile.about.peaks.get(service, 0.0),
        }
    return found
