"""Profiles: the measurements of each service beside stressors, and their file.

A window is one period of load with one service on CPUs of its own (the place) and everything else, tracing and load
generator included, on the others (the rest).  The order of windows in a block is symmetric (A B C C B A, where A is
without a stressor), so that a linear drift affects all of them equally.
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
CROWDED = 0.9  # of the rest's CPUs; beyond it queues are long and differ from window to window
UNSTRESSED_EVERY = 3  # number of windows with a stressor for each window without one


@dataclass(frozen=True, slots=True)
class ProfileWindow:
    """One period of load.  Times in ms over the service's own spans; nan where it had none.

    ``stressor``: empty for a window without one.  ``threads``, ``duty``: of the stressor.  ``cores``: CPU seconds per
    second.  ``delay``, ``switches_per_s``: seconds waited for a CPU and context switches, per second, of the service's
    threads.  ``stress_per_s``: rate of work of the stressor; 0 without one.  ``invalid``: why it does not count.
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
        """Identity of the planned window, equal for all attempts."""
        return self.service, self.stressor, self.threads, self.duty, self.block, self.position

    @property
    def intensity(self) -> float:
        """Threads of the stressor times their duty."""
        return self.threads * self.duty


@dataclass(frozen=True, slots=True)
class StressorProbe:
    """Rate of work of a stressor at its weakest beside another one of its kind.

    ``beside``: the other's intensity, 0 for none.
    """

    stressor: str
    beside: float
    per_second: float


@dataclass(frozen=True, slots=True)
class ColocationPair:
    """One window of a service with or without (``beside``) another service on its CPUs, under equal load.

    A pair has four windows: the two with the neighbour come between the two without.
    """

    service: str
    neighbour: str
    position: int
    beside: bool
    mean_ms: float
    invalid: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Pipeline slots of a service that ran alone: node of the top-down tree -> share (toplev)."""

    service: str
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProfileHeader:
    """Conditions of a profile.  ``place``, ``rest``: lists of CPUs.  ``without_counters``: why there were no hardware
    counters.

    Measured in one window of undisturbed load on all CPUs: ``peaks``: the most cores that each service used between two
    readings.  ``calls``: service -> service that it calls -> calls per request.  ``spans``: number of each service's
    spans.  ``busy``: mean number of busy CPUs of the whole machine.  ``memory_mib``: memory of each service at the end,
    without the caches that the kernel could drop.  ``critical_path``: service -> its share of the critical path of all
    requests.
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
    critical_path: Mapping[str, float] = field(default_factory=dict)

    def rare(self) -> tuple[str, ...]:
        """Return the services that the load reaches too rarely; they are profiled on request only."""
        return tuple(sorted(name for name, count in self.spans.items() if count < FEWEST_SPANS / 2))

    def crowded(self) -> bool:
        """Return whether the rest had too few CPUs, so that the services on it wait for each other."""
        return self.busy > CROWDED * len(read_cpus(self.rest))


Part = ProfileWindow | StressorProbe | ColocationPair | Pipeline


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile.  ``windows``: all that were measured, including those that do not count."""

    about: ProfileHeader
    windows: Sequence[ProfileWindow]
    probes: Sequence[StressorProbe] = ()
    pairs: Sequence[ColocationPair] = ()
    pipelines: Sequence[Pipeline] = ()

    def to_lines(self) -> str:
        """Return the text of its file: lines of JSON, the header first, then probes, windows, pairs and pipelines."""
        parts: list[Part] = [*self.probes, *self.windows, *self.pairs, *self.pipelines]
        return line(self.about) + "".join(map(line, parts))


KEYS: Mapping[type, str] = {
    ProfileHeader: "about",
    ProfileWindow: "window",
    StressorProbe: "probe",
    ColocationPair: "pair",
    Pipeline: "pipeline",
}
"""Class of a line of a profile's file -> its key."""


def line(part: ProfileHeader | Part) -> str:
    """Return a part of a profile as a line of its file."""
    head = {"kind": "profile", "version": VERSION} if isinstance(part, ProfileHeader) else {}
    return json.dumps({**head, KEYS[type(part)]: asdict(part)}) + "\n"


def read_profile(text: str, name: str) -> Profile:
    """Parse a profile's file called ``name``; an incomplete last line is left out.  Raises InputError."""
    whole = text[: text.rfind("\n") + 1]
    try:
        documents = [json.loads(row) for row in whole.splitlines()]
        if documents[0].get("kind") != "profile" or documents[0].get("version") != VERSION:
            raise ValueError("another kind or version of file")
        about = decode(ProfileHeader, documents[0]["about"])
        windows = tuple(decode(ProfileWindow, row["window"]) for row in documents if "window" in row)
        probes = tuple(decode(StressorProbe, row["probe"]) for row in documents if "probe" in row)
        pairs = tuple(decode(ColocationPair, row["pair"]) for row in documents if "pair" in row)
        pipelines = tuple(decode(Pipeline, row["pipeline"]) for row in documents if "pipeline" in row)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{name}: not a profile ({type(error).__name__}: {f'{error}'[:LONGEST]})") from error
    return Profile(about, windows, probes, pairs, pipelines)


# ---------------------------------------------------------------------- the order of windows


def block_of(stressors: Sequence[Stressor], seed: int) -> list[Stressor | None]:
    """Return the order of a block: all stressors, shuffled by a seed, with None for windows without one, mirrored."""
    shuffled = [stressors[index] for index in np.random.default_rng(seed).permutation(len(stressors))]
    half: list[Stressor | None] = []
    for number, stressor in enumerate(shuffled):
        if number % UNSTRESSED_EVERY == 0:
            half.append(None)
        half.append(stressor)
    return [*half, *reversed(half)]
