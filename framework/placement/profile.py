"""A profile: what was measured of each service beside stressors, and what follows from it.

A window is one stretch of load with one service on CPUs of its own (the place) and everything else, the tracing and
the load generator too, on the others (the rest).  Windows come in blocks that are the same forwards and backwards
(A B C C B A, where A is without a stressor), so that whatever drifts steadily falls on all alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from framework.errors import InputError
from framework.model.cpus import read_cpus
from framework.model.documents import decode
from framework.model.stressors import Stressor

VERSION = 1
LONGEST = 300  # characters of a reason
FEWEST_SPANS = 30  # of a service in a window that counts
CROWDED = 0.9  # of the rest's CPUs; a queue at more is long and different from window to window
UNSTRESSED_EVERY = 3  # stressed windows: so often there is one without a stressor in between


@dataclass(frozen=True, slots=True)
class ProfileWindow:
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
class StressorProbe:
    """What a stressor at its weakest did beside another of its kind; ``beside``: the other's intensity, 0 for none."""

    stressor: str
    beside: float
    per_second: float


@dataclass(frozen=True, slots=True)
class ColocationPair:
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
class ProfileHeader:
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


Part = ProfileWindow | StressorProbe | ColocationPair | Pipeline


@dataclass(frozen=True, slots=True)
class Profile:
    """``windows``: all that were measured, those that do not count too."""

    about: ProfileHeader
    windows: Sequence[ProfileWindow]
    probes: Sequence[StressorProbe] = ()
    pairs: Sequence[ColocationPair] = ()
    pipelines: Sequence[Pipeline] = ()

    def to_lines(self) -> str:
        """As a file: a line of JSON for what it is about, and one for each probe, window, pair and pipeline."""
        parts: list[Part] = [*self.probes, *self.windows, *self.pairs, *self.pipelines]
        return line(self.about) + "".join(map(line, parts))


KEYS: Mapping[type, str] = {
    ProfileHeader: "about",
    ProfileWindow: "window",
    StressorProbe: "probe",
    ColocationPair: "pair",
    Pipeline: "pipeline",
}
"""Kind of line of a profile's file -> its key."""


def line(part: ProfileHeader | Part) -> str:
    """A part of a profile as a line of its file."""
    head = {"kind": "profile", "version": VERSION} if isinstance(part, ProfileHeader) else {}
    return json.dumps({**head, KEYS[type(part)]: asdict(part)}) + "\n"


def read_profile(text: str, name: str) -> Profile:
    """The inverse of ``to_lines``; a last line that was cut off is left out.  Raises InputError."""
    whole = text[: text.rfind("\n") + 1]
    try:
        documents = [json.loads(one) for one in whole.splitlines()]
        if documents[0].get("kind") != "profile" or documents[0].get("version") != VERSION:
            raise ValueError("another kind or version of file")
        about = decode(ProfileHeader, documents[0]["about"])
        windows = tuple(decode(ProfileWindow, one["window"]) for one in documents if "window" in one)
        probes = tuple(decode(StressorProbe, one["probe"]) for one in documents if "probe" in one)
        pairs = tuple(decode(ColocationPair, one["pair"]) for one in documents if "pair" in one)
        pipelines = tuple(decode(Pipeline, one["pipeline"]) for one in documents if "pipeline" in one)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{name}: not a profile ({type(error).__name__}: {f'{error}'[:LONGEST]})") from error
    return Profile(about, windows, probes, pairs, pipelines)


# ---------------------------------------------------------------------- what follows


def block_of(stressors: Sequence[Stressor], seed: int) -> list[Stressor | None]:
    """The windows of a block in their order: all stressors, shuffled by a seed, and None for windows without one."""
    shuffled = [stressors[one] for one in np.random.default_rng(seed).permutation(len(stressors))]
    half: list[Stressor | None] = []
    for number, stressor in enumerate(shuffled):
        if number % UNSTRESSED_EVERY == 0:
            half.append(None)
        half.append(stressor)
    return [*half, *reversed(half)]
