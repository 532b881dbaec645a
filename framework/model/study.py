"""Studies, their trials and their verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from framework.errors import MeasuredElsewhere
from framework.model.capacity import MachinePrice
from framework.model.decisions import StudyDecisions
from framework.model.deployment import Machine
from framework.model.energy import PowerCurve
from framework.model.load_generators import Loop
from framework.model.measurement import Estimate, Measurement
from optimizer.space import Configuration, Value


class TrialState(StrEnum):
    """States of a trial.  The store enforces the legal transitions; only COMPLETED has a value."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # could not be deployed or measured
    INFEASIBLE = "infeasible"  # measured, but past a limit or incorrect
    ABORTED = "aborted"  # stopped by a person or a crash; never told to the optimizer


class StudyState(StrEnum):
    """States of a study: CREATED -> RUNNING -> (PAUSED -> RUNNING)* -> COMPLETED | FAILED."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


DOCKER, TWIN, SWARM, EXTERNAL = "docker", "twin", "swarm", "external"  # testbeds; external: clients measure

Purpose = Literal["default", "search", "drift", "confirm", "verdict", "minimal", "probe"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration, deployed and measured in several repetitions."""

    study: str
    number: int
    purpose: Purpose
    configuration: Configuration
    state: TrialState
    ask: int | None = None  # index of the optimizer's ask that suggested it
    value: float | None = None  # geometric mean of the valid repetitions' values; several rates: objective.rates
    standard_error: float | None = None  # of log(value)
    told_value: float | None = None  # drift-corrected, for the optimizer
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)  # service -> image@digest
    standins: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()  # parameters that were seen to be passed, but that no server told
    documents: str = ""  # artefact: the rendered compose documents and files, as JSON
    pair: int | None = None  # verdict: number of the pair
    label: str = ""  # "default", "best", or the name of a configuration compared with the best
    started_at: str = ""
    finished_at: str = ""
    quantities: Mapping[str, float] = field(default_factory=dict)  # told by the client of an external study
    costs: Mapping[str, float] = field(default_factory=dict)  # told by the client too: group of parameters -> cost
    testbed: str = ""  # where it ran, as the study names it; empty in studies of an older Tailor
    pending_asks: tuple[int, ...] = ()  # asks whose results the optimizer did not know when it suggested this one


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """A specification of a trial to run.

    ``first_seed``: repetition r draws its arrivals with seed number first_seed + r, equal for every configuration.
    ``ask``: index of the optimizer's ask; ``ask_s``: its duration [s].  ``pair``, ``label``: place in a comparison.
    ``give_up_above``: after a repetition with a larger value, a clear loser is not repeated.
    ``pending_asks``: asks whose results the optimizer did not know.
    """

    configuration: Configuration
    purpose: Purpose
    repetitions: int = 1
    first_seed: int = 0
    ask: int | None = None
    ask_s: float = 0.0
    pair: int | None = None
    label: str = ""
    give_up_above: float | None = None
    pending_asks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """The lease of a trial to a client that measures it.  ``expires_ns``: since the Unix epoch."""

    client: str
    expires_ns: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a fresh, interleaved comparison of the best configuration with the default."""

    statement: Literal["improvement", "no improvement shown", "worse"]
    pairs: int
    log_ratio: Estimate  # Hodges-Lehmann of log(best/default); negative is better
    p_value: float
    default_ms: Estimate
    best_ms: Estimate
    no_worse: Literal["no worse", "undecided"]
    gain: Estimate  # 1 - exp(log_ratio), as a fraction
    coverage: float = 0.95  # of log_ratio's and gain's intervals: at least 95 %, exact for this number of pairs
    scale: Literal["ratio", "difference"] = "ratio"  # "difference": of the default's size; gain is then -log_ratio
    per_rate: tuple[Verdict, ...] = ()  # of several rates, the comparison at each one
    rate_rps: float | None = None  # of several rates: the one of this comparison, or the worst of them


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The request of a study in full; it never changes.  ``StudyDecisions`` holds what the study decides later."""

    application: str  # read it through Study.directory and Study.application_name, which say what it is
    optimizer: str
    optimizer_options: Mapping[str, Any]
    iterations: int
    repetitions: int
    warmup_s: float
    window_s: float
    rate_rps: float
    seed: int
    pairs: int
    only: tuple[str, ...] = ()
    allow_weaker: tuple[str, ...] = ()
    initial: str = "default"
    incremental: bool = False
    target_ms: float | None = None
    time_limit_s: float | None = None
    drift_every: int = 5
    quick: bool = False
    trace: bool = True
    limits: Mapping[str, float] = field(default_factory=dict)  # only those that differ from the application's Limits
    rivals: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # name -> configuration to compare with
    reduce: str = "none"
    thresholds: Mapping[str, float] = field(default_factory=dict)
    bottlenecks: tuple[str, ...] = ()
    screened: Mapping[str, float] = field(default_factory=dict)  # service -> importance, from an earlier study
    subject_to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    minimal: int = 0
    prior: str = "none"
    rates: tuple[float, ...] = ()  # where several: increasing [requests/s]; ``rate_rps`` is then the highest
    over: Literal["worst", "mean"] = "worst"  # the rates
    weights: tuple[float, ...] = ()  # of the rates in the mean; empty: all equal
    loop: Loop = "open"  # how the load generator sends requests
    auto: bool = False  # the search may end before ``iterations``, where another trial is not worth its time
    objective: str = ""  # a quantity in the place of the application's objective; empty: none
    prices: tuple[MachinePrice, ...] = ()  # of machine types that are cheapest for some use, for the quantity "cost"
    power: PowerCurve | None = None  # of the machine, for the quantity "energy"
    prepare_requests: bool = False  # the workload's requests are sent before each warm-up, unmeasured
    testbeds: tuple[str, ...] = ()  # that measure side by side, the first is the study's; empty: only that one

    @property
    def measured_rates(self) -> tuple[float, ...]:
        """The request rates at which each repetition has a window [requests/s]: ``rates``, or the only one."""
        return self.rates or (self.rate_rps,)

    @property
    def arms_of_verdict(self) -> int:
        """Number of arms of the verdict's pairs: default, best, its small version, and the plan's rivals."""
        return 2 + bool(self.minimal and self.iterations) + len(self.rivals)


ADOPTED = "tailor"
"""Directory that `tailor init` makes in that of an application, which has the name."""


@dataclass(frozen=True, slots=True)
class Study:
    """A tuning job: an application, a search space, an optimizer, a budget, and its trials."""

    id: str
    created_at: str
    state: StudyState
    plan: StudyPlan
    application_hash: str
    space: Mapping[str, Any]  # optimizer.space.SearchSpace.to_dict()
    machine: Machine
    versions: Mapping[str, str]
    testbed: str
    best: int | None = None  # trial number
    verdict: Verdict | None = None
    rivals: Mapping[str, Verdict] = field(default_factory=dict)  # best against other named configurations
    message: str = ""
    modelled: bool = False  # its numbers come from a model and were not measured
    decisions: StudyDecisions = field(default_factory=StudyDecisions)

    @property
    def effective_plan(self) -> StudyPlan:
        """The plan with the study's decisions on warm-up, number of configurations and edits of the space."""
        decided, plan = self.decisions, self.plan
        if decided.warmup_s is not None:
            plan = replace(plan, warmup_s=decided.warmup_s)
        if decided.iterations is not None:
            plan = replace(plan, iterations=decided.iterations)
        if decided.edits:
            plan = replace(plan, only=decided.edits[-1].only, allow_weaker=decided.edits[-1].allow_weaker)
        return plan

    @property
    def model(self) -> str:
        """The model behind the study's numbers, as a phrase; empty where they were measured."""
        if not self.modelled:
            return ""
        digest = self.versions.get("twin.json")
        return f"its twin, a queueing model (twin.json, {digest})" if digest else f"the testbed {self.testbed}, a model"

    @property
    def directory(self) -> Path:
        """The application's directory.  Raises MeasuredElsewhere for an external study, which has only a name."""
        self.check_measured_here()
        return Path(self.plan.application)

    def check_measured_here(self) -> None:
        """Raise MeasuredElsewhere where clients measure this study."""
        if self.testbed == EXTERNAL:
            raise MeasuredElsewhere(f"study {self.id} is measured elsewhere: it has no application here")

    @property
    def application_name(self) -> str:
        """The application's name: that of its directory, or the one that an external study was given."""
        if self.testbed == EXTERNAL:
            return self.plan.application
        directory = self.directory.absolute()
        return (directory.parent if directory.name == ADOPTED else directory).name


@dataclass(frozen=True, slots=True)
class Step:
    """One rate of a sweep.  ``p95`` [ms] is None where the trial has no value; ``reason`` says why."""

    rate_rps: float
    p95: Estimate | None
    holds: bool | None  # None: the machine was disturbed, so that this rate says nothing
    reason: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Steps of a sweep by rate.  ``knee_rps`` is the highest rate that held, None where none did.

    ``stopped``: it was ended before its end.
    """

    application: str
    limit_ms: float
    steps: tuple[Step, ...]
    knee_rps: float | None
    passed: bool  # whether a measured rate did not hold
    proposed_rps: float | None
    statement: str
    modelled: bool = False
    stopped: bool = False


def project_name(study: str) -> str:
    """Return the compose project of a study, the prefix of all its containers, networks and volumes."""
    return f"tailor-{study}"


def display_name(study: Study) -> str:
    """Return a study's id for people to read, marked where its numbers are modelled and not measured."""
    return f"{study.id} (modelled, not measured)" if study.modelled else study.id
