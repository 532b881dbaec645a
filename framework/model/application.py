"""An application: its services, workload, tracing, objective, and the limits of a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from framework.model.capacity import MachinePrice
from framework.model.energy import PowerCurve
from framework.model.guard import GuardDefaults
from framework.model.knowledge import ParameterDefinition
from framework.model.load_generators import EXTERNAL_GENERATORS, ExternalLoad, Loop
from optimizer.space import Predicate, Value


@dataclass(frozen=True, slots=True)
class Template:
    """A file of the application's with placeholders ``${service.parameter}``, which stands for one of a service's."""

    file: Path
    text: str


@dataclass(frozen=True, slots=True)
class Service:
    """One service of an application: a service of its compose file, with its type and its host."""

    name: str
    type: str
    host: str
    tuned: bool = True
    fixed: Mapping[str, Value] = field(default_factory=dict)  # parameters with a constant value
    baseline: Mapping[str, Value] = field(default_factory=dict)  # values that it has today, as the application says
    arguments: Mapping[str, Value] = field(default_factory=dict)  # of its type, such as its port
    parameters: tuple[ParameterDefinition, ...] = ()  # of its own, besides its type's
    templates: Mapping[str, Template] = field(default_factory=dict)  # path in its container -> what stands there


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The facts of an image: its entry point and command, its variables, and files that parameters stand in.

    ``directories``: of those in which parameters may make files, the ones that have files.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # path -> text
    directories: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Present:
    """The value that a parameter has in the user's deployment today, and where that stands."""

    value: Value
    where: str


@dataclass(frozen=True, slots=True)
class Placement:
    """Service -> host, and service -> CPU set; an empty CPU set means all CPUs of the host."""

    hosts: Mapping[str, str]
    cpusets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """The request mix, the arrival process and the rate.  ``document``: the mix in the generator's format.

    ``files``: content of the files that the mix names (bodies, descriptors of gRPC).
    """

    rate_rps: float
    arrivals: Literal["poisson", "constant"]
    target: str
    document: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hook:
    """A one-shot command of the application: a compose service with the profile ``tailor``."""

    service: str
    command: tuple[str, ...] = ()
    timeout_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Hooks:
    """Commands of the application by the time at which they run.

    ``seed``: once, on an empty deployment of the default; the volumes are then kept and restored for every repetition.
    ``prepare``: in every repetition before the load (fills caches).  ``check_before``: after ``prepare`` in every
    repetition, so that all start from equal state.  ``check_after``: after the load of a trial's first repetition.  A
    check that exits with another status than 0 means that the configuration loses or corrupts data.
    """

    seed: Hook | None = None
    prepare: Hook | None = None
    check_before: Hook | None = None
    check_after: Hook | None = None


TraceApi = Literal["jaeger", "zipkin", "tempo"]
Agent = Literal["java", "node", "python"]
EXPORT_DELAY_S = 5.0
"""Time for which OpenTelemetry's exporters hold spans back where nothing says otherwise (OTEL_BSP_SCHEDULE_DELAY)."""


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """The source of the data that every repetition starts from, where no ``seed`` hook makes them.

    ``kind``: "first-start", the volumes as the first healthy start leaves them; "running" and "directory", the same
    start on a copy of a running stack's volumes, or of directories; "empty", volumes start empty each time.
    ``project``: compose project of the running stack; ``volumes``: those that are copied from it, all where there are
    none.  ``directories``: volume -> directory.  A volume is named as in the compose file, or SERVICE:PATH.
    ``prepared``: the ``prepare`` hook runs before the data are kept.  ``timeout_s``: of the first start.
    """

    kind: Literal["first-start", "running", "directory", "empty"] = "first-start"
    project: str = ""
    volumes: tuple[str, ...] = ()
    directories: Mapping[str, Path] = field(default_factory=dict)
    prepared: bool = False
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Tracing:
    """The service from which spans are read, its ports and API, and how spans are assigned to services.

    ``added``: the service is Tailor's own and no part of the user's files.  ``collector``: the user's collector, which
    gets an exporter to it; ``collector_file``: its configuration in its container, empty: what its command names.
    ``instrument``: service -> language of the agent that makes its spans.  ``export_delay_s``: how long services
    may hold spans back.
    """

    service: str
    port: int = 16686
    otlp_port: int = 4318
    api: TraceApi = "jaeger"
    counters: Mapping[str, Any] = field(default_factory=dict)  # {"port": 9100, "path": "/spans"}: exporters' counters
    peers: Mapping[str, str] = field(default_factory=dict)  # pattern of an operation -> the service that it calls
    propagation: tuple[str, ...] = ()  # formats in which the load generator sends the trace's context; none: w3c
    added: bool = False
    collector: str = ""
    collector_file: str = ""
    instrument: Mapping[str, Agent] = field(default_factory=dict)
    export_delay_s: float = EXPORT_DELAY_S

    @property
    def joins(self) -> bool:
        """Whether the load generator keeps its root spans, which are joined to what the store has of their traces."""
        return self.api != "jaeger"


@dataclass(frozen=True, slots=True)
class Term:
    """One term of an objective: weight times a quantity (``config.outcomes.QUANTITIES``)."""

    quantity: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class OutcomeConstraint:
    """A limit on a measured quantity, in its unit, which the best configuration has to keep."""

    quantity: str
    side: Literal["at most", "at least"]
    limit: float

    def excess(self, value: float) -> float:
        """Return by how much a value passes the limit, as a fraction of it (in its unit if it is 0); <= 0 if kept."""
        over = value - self.limit if self.side == "at most" else self.limit - value
        return over / (abs(self.limit) or 1.0)

    def __str__(self) -> str:
        return f"{self.quantity} {'<=' if self.side == 'at most' else '>='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Objective:
    """A linear combination to minimise, constraints, and further quantities to minimise too.

    Latencies are in ms, throughput in requests/s (with a negative weight), cpu in cores that the application's services
    use, errors as a fraction of the requests, cost in money per hour, energy in joules per request.  ``prices``: of the
    machines that cost is counted by.  ``power``: of the machine that energy is counted by.
    """

    terms: tuple[Term, ...] = (Term("p95"),)
    subject_to: tuple[OutcomeConstraint, ...] = ()
    also: tuple[str, ...] = ()
    prices: tuple[MachinePrice, ...] = ()
    power: PowerCurve | None = None

    @property
    def quantities(self) -> tuple[str, ...]:
        """All quantities that have to be measured, each once."""
        return tuple(dict.fromkeys((*(t.quantity for t in self.terms), *self.secondary_quantities)))

    @property
    def secondary_quantities(self) -> tuple[str, ...]:
        """Quantities of its limits and of its further objectives, each once."""
        return tuple(dict.fromkeys((*(c.quantity for c in self.subject_to), *self.also)))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits beyond which a repetition is invalid or a trial infeasible (facts: measurement.md), as fractions."""

    errors: float = 0.001
    achieved_rate: float = 0.99
    generator_lag: float = 0.05  # p99 of the lag over p95 of the latency
    stolen_cpu: float = 0.02
    missing_spans: float = 0.001
    p95_disagreement: float = 0.05
    stationarity_alpha: float = 0.001
    stationarity_change: float = 0.5
    unsettled: float = 0.9  # of several repetitions of the default


@dataclass(frozen=True, slots=True)
class Application:
    """An ``application.yaml`` with all files that it refers to, checked."""

    name: str
    directory: Path
    compose: Mapping[str, Any]
    services: tuple[Service, ...]
    hosts: tuple[str, ...]
    workload: Workload
    tracing: Tracing | None  # None: latencies are the load generator's, and there is no critical path
    objective: Objective
    hooks: Hooks = Hooks()
    limits: Limits = Limits()
    constraints: tuple[Predicate, ...] = ()  # between parameters, named service.parameter
    derived: Mapping[str, str] = field(default_factory=dict)  # service.parameter -> text that its value follows from
    entry: str = ""  # the service that clients call; charged with what precedes the first server span
    generator: str = "tailor"  # drives the workload
    external: ExternalLoad = field(default_factory=ExternalLoad)  # how, where the generator is somebody else's
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # service -> variables that it has
    images: Mapping[str, ImageFacts] = field(default_factory=dict)  # service -> what its image does, where it is here
    unsettable: Mapping[str, str] = field(
        default_factory=dict
    )  # service.parameter -> why its files have no place for it
    present: Mapping[str, Present] = field(default_factory=dict)  # service.parameter -> what the user set it to
    unset: tuple[str, ...] = ()  # variables of the compose files without a value, which became empty
    agents: Mapping[str, Path] = field(default_factory=dict)  # service -> directory of the agent that makes its spans
    compose_directory: Path | None = None  # relative paths of the compose files start here; None: at ``directory``
    prepare_requests: bool = False  # repetitions are prepared by the workload's own requests, without a hook
    content_hash: str = ""  # of every file in the application's directory; names the seeded data
    guard: GuardDefaults = field(default_factory=GuardDefaults)
    closed_loop: Path | None = None  # directory of the same application, driven as fast as it answers
    dataset: DatasetSource | None = None  # as the application's file says; see ``data_source``

    def environment_of(self, service: str) -> Mapping[str, str]:
        """Return the variables that a service has today: its image's, and those that the compose files set."""
        facts = self.images.get(service)
        return {**(facts.environment if facts is not None else {}), **self.environments.get(service, {})}

    @property
    def loop(self) -> Loop:
        """How its load generator sends requests; those of other packages follow the contract, an open loop."""
        kind = EXTERNAL_GENERATORS.get(self.generator)
        return "open" if kind is None else kind.loop

    @property
    def tracing_service(self) -> str:
        """Name of the service that collects spans; empty without tracing."""
        return self.tracing.service if self.tracing is not None else ""

    @property
    def traced(self) -> bool:
        """Whether spans can be read whose roots are the load generator's: external generators send none."""
        return self.tracing is not None and self.generator not in EXTERNAL_GENERATORS

    @property
    def data_source(self) -> DatasetSource | None:
        """The source of the data that repetitions start from: the first healthy start, unless the file says another.

        None: the ``seed`` hook makes them.
        """
        return None if self.hooks.seed is not None else self.dataset or DatasetSource()

    @property
    def peers(self) -> Mapping[str, str]:
        """Pattern of an operation -> the service that it calls, where spans name no peer."""
        return self.tracing.peers if self.tracing is not None else {}

    @property
    def base(self) -> Path:
        """The directory from which relative paths of the compose files start."""
        return self.compose_directory or self.directory

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Tailor's own files, which are no sources of an image: its directory, or files in it."""
        names = ("application.yaml", "workload.yaml", "twin.json", "understood.html")
        return (self.directory, *(self.directory / name for name in names))

    @property
    def roots(self) -> tuple[Path, ...]:
        """The directories whose files the compose files may name."""
        return tuple(dict.fromkeys((self.directory, self.base)))
