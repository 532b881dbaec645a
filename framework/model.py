"""The vocabulary as data: what the stages of a trial hand to each other.

Everything here is frozen and free of I/O.  A file is read into these classes by ``framework.config``; adapters
(testbeds, load, traces, store) receive and return them and keep their own libraries' types to themselves.
Units stand in the names: ``_s`` seconds, ``_ms`` milliseconds, ``_ns`` integer nanoseconds since the Unix epoch,
``_rps`` requests per second, ``_mib`` mebibytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from optimizer.space import Configuration, Value

# --------------------------------------------------------------------------- the knowledge base (search_spaces/)


@dataclass(frozen=True, slots=True)
class Probe:
    """How one number or word is read from a running service.

    ``kind`` "command" runs ``command`` inside the container, "tcp" sends ``send`` to ``port`` and reads until
    ``until`` (a regular expression) matches, "http" gets ``path`` from ``port``.  ``pattern`` is a regular expression with one group; all its
    matches must agree.  ``multiply`` turns the number found into the parameter's unit; ``words`` maps words found
    to values; ``absent`` is the value when nothing matches (None: nothing found is an error).
    """

    kind: Literal["command", "tcp", "http"]
    pattern: str
    command: tuple[str, ...] = ()
    port: int | None = None
    send: str = ""
    until: str = ""
    path: str = ""
    multiply: float = 1.0
    words: Mapping[str, Value] = field(default_factory=dict)
    absent: Value | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a mounted configuration file.

    Every line that matches ``pattern`` is replaced by ``line``; where none matches, ``line`` is inserted after each
    line that matches ``after`` (or at the end of the file if ``after`` is empty).  ``{value}`` in ``line`` is the
    parameter's value.  With ``unless`` equal to the value the edit is left out.
    """

    path: str
    pattern: str
    line: str
    after: str = ""
    unless: Value | None = None


@dataclass(frozen=True, slots=True)
class Apply:
    """How a parameter's value reaches the service; ``{value}`` stands for it.

    environment: variable ``name`` = ``template``.  flag: ``template`` split as a shell would and appended to the
    command.  file: ``edits``.  resource: compose key path ``name`` (dots) = ``template``.  live: ``template`` is
    run in the container once it is healthy.
    """

    kind: Literal["environment", "flag", "file", "resource", "live"]
    name: str = ""
    template: str = "{value}"
    edits: tuple[Edit, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)  # value (as text) -> text used instead of it


@dataclass(frozen=True, slots=True)
class ParameterDefinition:
    """One tunable of a service type, as its file in ``search_spaces/`` defines it.  Bounds may refer to the host."""

    name: str
    kind: Literal["integer", "real", "categorical", "boolean"]
    default: Value | str  # a string may be an expression such as "host.cores"
    apply: Apply
    read_back: Probe
    role: str
    low: float | str | None = None
    high: float | str | None = None
    step: float | None = None
    choices: tuple[Value, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""
    versions: str = ""
    weakens: Literal["nothing", "durability", "consistency", "security"] = "nothing"
    description: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class ServiceType:
    """What kind of server a service is: one file of the knowledge base."""

    name: str
    description: str
    parameters: tuple[ParameterDefinition, ...]
    ready: Probe | None
    reset: tuple[tuple[str, ...], ...]  # commands, or ("tcp", port, text), that empty a cache in place
    statistics: Mapping[str, Probe]
    measured: bool = True


# --------------------------------------------------------------------------- the application


@dataclass(frozen=True, slots=True)
class Service:
    """One service of an application: a service of its compose file, with its type and its host."""

    name: str
    type: str
    host: str
    tuned: bool = True
    fixed: Mapping[str, Value] = field(default_factory=dict)  # parameters held at a value of the application's own


@dataclass(frozen=True, slots=True)
class Placement:
    """Which host and CPU set each service runs on; an empty CPU set means all of the host's."""

    hosts: Mapping[str, str]
    cpusets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """The request mix, the arrival process and the rate.  ``document`` is the mix as the generator reads it."""

    rate_rps: float
    arrivals: Literal["poisson", "constant"]
    target: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """A one-shot command of the application's own: a compose service behind the profile ``tailor``."""

    service: str
    command: tuple[str, ...] = ()
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Hooks:
    """When the application's own commands run.

    seed: once, on an empty deployment of the default; the volumes are then kept and restored for every repetition.
    prepare: in every repetition before the load (fills caches).  check_before / check_after: around the load of
    every trial's first repetition; a non-zero exit means the configuration loses or corrupts data.
    """

    seed: Hook | None = None
    prepare: Hook | None = None
    check_before: Hook | None = None
    check_after: Hook | None = None


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans are read, and what stands for the service that a span came from."""

    service: str
    port: int = 16686
    otlp_port: int = 4318
    api: Literal["jaeger"] = "jaeger"
    counters: Mapping[str, Any] = field(default_factory=dict)  # {"port": 9100, "path": "/spans"}: exporters' counters


@dataclass(frozen=True, slots=True)
class Term:
    """One term of an objective: weight times a quantity ("mean", "p50", "p95", "p99.9", "throughput")."""

    quantity: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Objective:
    """A linear combination, minimised.  Latencies are in ms, throughput in requests/s (give it a negative weight)."""

    terms: tuple[Term, ...] = (Term("p95"),)


@dataclass(frozen=True, slots=True)
class Limits:
    """What makes a repetition invalid or a trial infeasible (facts: measurement.md).  Fractions, not percent."""

    errors: float = 0.001
    achieved_rate: float = 0.99
    generator_lag: float = 0.05  # p99 of the lag over p95 of the latency
    stolen_cpu: float = 0.02
    missing_spans: float = 0.001
    p95_disagreement: float = 0.05
    stationarity_alpha: float = 0.001
    stationarity_change: float = 0.5


@dataclass(frozen=True, slots=True)
class Application:
    """One ``application.yaml`` with all it refers to, checked."""

    name: str
    directory: Path
    compose: Mapping[str, Any]
    services: tuple[Service, ...]
    hosts: tuple[str, ...]
    workload: Workload
    tracing: Tracing
    objective: Objective
    hooks: Hooks = Hooks()
    limits: Limits = Limits()
    entry: str = ""  # the service that clients call; charged with what precedes the first server span
    content_hash: str = ""  # of every file the application's directory holds; names the seeded data


# --------------------------------------------------------------------------- a deployment, wanted and running


@dataclass(frozen=True, slots=True)
class Expectation:
    """A parameter that must read back as ``value`` after the deployment."""

    service: str
    parameter: str
    value: Value
    probe: Probe


@dataclass(frozen=True, slots=True)
class Deployment:
    """The application rendered for one configuration and one placement.

    ``documents``: host -> compose document (plain dictionaries).  ``files``: path below the deployment's directory
    (as the documents mount it) -> text.  ``live``: (service, command) to run once healthy.
    """

    application: str
    project: str
    configuration: Configuration
    documents: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, str]
    expectations: tuple[Expectation, ...] = ()
    live: tuple[tuple[str, tuple[str, ...]], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    fresh: Literal["all", "changed"] = "all"


@dataclass(frozen=True, slots=True)
class Container:
    """What runs for one service, as the engine reports it."""

    service: str
    id: str
    name: str
    image: str
    image_digest: str
    address: str
    pid: int
    started_at: str
    standin: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A deployment that is up, healthy and has every parameter read back."""

    deployment: Deployment
    network: str
    containers: Mapping[str, Container]
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds: remove, restore, start, healthy, read back


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU counters at one moment.  Differences of two of them describe what ran in between."""

    at_ns: int
    cpu_s: Mapping[str, float]  # service -> CPU seconds since its container started
    host_cpu_s: float
    stolen_s: float
    pressure_cpu_s: float | None  # PSI: some CPU pressure, seconds
    cores: int
    tailor_cpu_s: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine behind a result."""

    hostname: str
    cores: int
    memory_mib: int
    kernel: str
    cpu: str
    engine: str
    compose: str
    python: str
    tailor: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``tailor doctor``.  ``needed``: tuning cannot work without it."""

    what: str
    state: Literal["ok", "limited", "missing"]
    found: str
    remedy: str = ""
    needed: bool = False


# --------------------------------------------------------------------------- load and measurement


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One run of the generator: warm-up and window without a gap; the same seed gives the same arrivals."""

    workload: Workload
    rate_rps: float
    warmup_s: float
    window_s: float
    seed: int
    trace: bool = True


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What the generator saw: one element per request, warm-up included.  status 0 means no reply."""

    started_ns: int  # when the first request could have been due
    warmup_s: float
    window_s: float
    classes: tuple[str, ...]
    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    request_class: NDArray[np.uint8]
    status: NDArray[np.int16]
    ok: NDArray[np.bool_]
    errors: Mapping[str, int]  # reason -> count, in the window
    spans_created: int  # client spans of the window
    spans_exported: int
    cpu_s: float
    usage_before: Usage | None = None  # at the start of the window
    usage_after: Usage | None = None  # at its end


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval and the number of samples behind it; an open side is +-infinity."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """One service in the spans of a window: self time per span, and the part of all root time that it takes."""

    service: str
    spans: int
    mean_ms: float
    p95_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One repetition: its numbers, whether it counts, and if not, why."""

    repetition: int
    attempt: int
    invalid: tuple[str, ...]  # reasons; empty means valid
    infeasible: tuple[str, ...]  # limits of the application that were passed (errors, achieved rate)
    value: float | None  # the objective
    quantities: Mapping[str, Estimate]  # mean, p50, p95, p99 (ms), throughput (requests/s)
    requests: int
    failed_requests: int
    achieved_rps: float
    wanted_rps: float
    lag_p99_ms: float
    generator_p95_ms: float
    spans_created: int | None
    spans_read: int
    stolen_cpu: float | None
    pressure_cpu: float | None
    cpu: Mapping[str, float]  # share of the machine: application, generator, jaeger, tailor
    service_cpu_s: Mapping[str, float]
    services: tuple[ServiceTime, ...]
    statistics: Mapping[str, Mapping[str, float]]
    phases: Mapping[str, float]
    latencies_ms: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32), compare=False)
    warnings: tuple[str, ...] = ()
    warmup_needed_s: float | None = None  # where MSER would truncate warm-up and window together


# --------------------------------------------------------------------------- study and trial


class TrialState(StrEnum):
    """Legal transitions are enforced by the store; only COMPLETED carries a value."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # could not be deployed or measured
    INFEASIBLE = "infeasible"  # measured, but past a limit or incorrect
    ABORTED = "aborted"  # stopped by a person or a crash; never told to the optimizer


class StudyState(StrEnum):
    """CREATED -> RUNNING -> (PAUSED -> RUNNING)* -> COMPLETED | FAILED."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


Purpose = Literal["default", "search", "drift", "confirm", "verdict", "probe"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration, deployed and measured in several repetitions."""

    study: str
    number: int
    purpose: Purpose
    configuration: Configuration
    state: TrialState
    ask: int | None = None  # index of the optimizer's ask that suggested it
    value: float | None = None  # geometric mean of the valid repetitions' values
    standard_error: float | None = None  # of log(value)
    told_value: float | None = None  # after drift correction; what the optimizer was told
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)  # service -> image@digest
    standins: tuple[str, ...] = ()
    documents: str = ""  # artefact: the rendered compose documents and files, as JSON
    pair: int | None = None  # verdict: number of the pair
    label: str = ""  # "default", "best", or the name of a configuration that the best is compared with
    started_at: str = ""
    finished_at: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fresh, interleaved comparison of the best configuration with the default."""

    statement: Literal["improvement", "no improvement shown", "worse"]
    pairs: int
    log_ratio: Estimate  # Hodges-Lehmann of log(best/default); negative is better
    p_value: float
    default_ms: Estimate
    best_ms: Estimate
    no_worse: Literal["no worse", "undecided"]
    gain: Estimate  # 1 - exp(log_ratio), as a fraction


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Everything a study was asked to do; frozen when it is created."""

    application: str  # directory
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
    rivals: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # name -> configuration to compare with
    extra: Mapping[str, Any] = field(default_factory=dict)


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
