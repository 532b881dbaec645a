"""The schema of ``application.yaml``, version 1."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from framework.config.checked import Arithmetic, LinePattern, Name, Port, Strict, Text, Value, refuse
from framework.config.outcomes import QUANTITIES, is_quantity, outcome_constraint
from framework.config.own_parameters_file import OwnParameterEntry
from framework.config.service_type_apply import ContainerPath
from framework.config.service_type_file import Identifier
from framework.errors import FieldError, InputError
from framework.model.guard import target_of
from optimizer.errors import InvalidSpace
from optimizer.space import GRAMMAR, Predicate

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]


def _relative(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "~")) or ".." in parts:
        raise refuse("a path inside the application's directory")
    return path


def _starts_here(path: str) -> str:
    if path.startswith(("/", "~")):
        raise refuse(
            "a path that starts from the application's directory; it may lead out of it, as in ../compose.yaml"
        )
    return path


def _quantity(name: str) -> str:
    if not is_quantity(name):
        raise refuse(QUANTITIES)
    return name


def _outcome(text: str) -> str:
    try:
        outcome_constraint(text)
    except InputError:
        raise refuse(f"a quantity, <= or >=, and a number, such as 'p99 <= 40'; quantities: {QUANTITIES}") from None
    return text


Quantity = Annotated[str, AfterValidator(_quantity)]
InsidePath = Annotated[str, Field(min_length=1), AfterValidator(_relative)]

RelativePath = Annotated[str, Field(min_length=1), AfterValidator(_starts_here)]


class ServiceEntry(Strict):
    """One service of the compose file that may be tuned."""

    type: Name | None = Field(
        None, description="service type: the name of a file of search_spaces/; left out where it has only `parameters`"
    )
    host: Name | None = Field(None, description="one of hosts; the first one where it is left out")
    tuned: bool = Field(True, description="false: its parameters are neither rendered nor read back")
    fixed: dict[Name, Value] = Field(
        default_factory=dict,
        description="parameter -> value that it is held at, or the word default: not rendered, read back or tuned",
    )
    baseline: dict[Name, Value] = Field(
        default_factory=dict,
        description="parameter -> value that it has today, where the compose files do not show it (set in the image)",
    )
    arguments: dict[Name, Value] = Field(
        default_factory=dict,
        description="what its type's probes have to know, such as port, where the compose file does not show it",
    )
    parameters: dict[Identifier, OwnParameterEntry] = Field(
        default_factory=dict,
        description="parameters of its own, besides its type's: any variable, flag, file, limit of its container; "
        "one with the name of one of its type's goes before it",
    )
    templates: dict[ContainerPath, InsidePath] = Field(
        default_factory=dict,
        description="path in its container -> file of yours that stands there, with placeholders "
        "${service.parameter}; $${ stands for ${",
    )

    @model_validator(mode="after")
    def _can_be_tuned(self) -> ServiceEntry:
        if self.type is None and not (self.parameters or self.templates):
            raise refuse("the key 'type', or parameters of its own")
        if self.type is None and self.arguments:
            raise refuse("arguments only where there is a type, whose they are")
        return self


class WorkloadEntry(Strict):
    """The load: the mix in a file of its own, the rate and the target here."""

    file: InsidePath | None = Field(None, description="the request mix; needed where Tailor's own generator drives it")
    rate_rps: Positive
    arrivals: Literal["poisson", "constant"] = "poisson"
    target: str = Field(
        pattern=r"^https?://[^/?#\s]+$", description="address on the application's network, without a path"
    )


class LoadEntry(Strict):
    """The load generator that drives the workload; all but its name is for those of others (k6, Locust, ...)."""

    generator: Name = Field(
        "tailor",
        description="name of a load generator: tailor, h2load, jmeter, k6, key-value, locust, vegeta, wrk2, "
        "or one of a package",
    )
    image: Text | None = Field(
        default=None, description="image that has the generator; default: a command of this machine"
    )
    script: InsidePath | None = Field(
        default=None, description="script of the generator; its directory is copied with it"
    )
    command: list[Text] = Field(
        default_factory=list, description="how the generator is called; Tailor's own options follow these words"
    )
    path: Annotated[str, Field(pattern=r"^/\S*$")] | None = Field(
        default=None, description="what is requested where there is no script (vegeta, wrk2, h2load); default: /"
    )
    users: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="simulated users, connections or workers of the generator; default: 50"
    )
    operations: Annotated[float, Field(ge=1, le=1e6)] | None = Field(
        default=None,
        description="requests of a client in one of the load, which may be a burst; capacity is planned in requests of "
        "a client; default: 1",
    )


class Counters(Strict):
    """Address at which every service of the application's own tells how many spans it created and exported."""

    port: Port
    path: str = Field(pattern="^/")


class TracingEntry(Strict):
    """Source of the spans: a service of the compose file, or a Jaeger that Tailor adds to a study."""

    service: Name | None = Field(None, description="service of the compose file that spans are read from")
    add: Literal["jaeger"] | None = Field(
        None,
        description="instead of service: Tailor adds a Jaeger, and services that have OTEL_ variables export to it",
    )
    collector: Name | None = Field(
        None, description="with add: the OpenTelemetry collector that gets one exporter more, in a copy of its file"
    )
    collector_file: str | None = Field(
        None, pattern="^/", description="its configuration in its container; default: what its command names"
    )
    instrument: dict[Name, Literal["java", "node", "python"]] = Field(
        default_factory=dict,
        description="service -> language of the OpenTelemetry agent that Tailor mounts into it, which makes its spans",
    )
    port: Port | None = Field(None, description="of the API; default: 16686, zipkin 9411, tempo 3200")
    otlp_port: Port = 4318
    api: Literal["jaeger", "zipkin", "tempo"] = Field(
        "jaeger",
        description="how spans are read; from zipkin and tempo by the ids of the load generator's requests, at most "
        "2,000 of a window",
    )
    counters: Counters | None = None
    propagation: list[Literal["w3c", "b3", "b3-multi", "jaeger"]] = Field(
        default_factory=list,
        description="formats in which the load generator sends the trace's context (traceparent, b3, X-B3-*, "
        "uber-trace-id); default: w3c, with api zipkin w3c and b3-multi",
    )
    peers: dict[LinePattern, Name] = Field(
        default_factory=dict,
        description="regular expression -> service: whom calls of such an operation reach, where spans name no peer",
    )

    @model_validator(mode="after")
    def _one_source(self) -> TracingEntry:
        if (self.service is None) == (self.add is None):
            raise refuse("one of service (of the compose file) and add: jaeger")
        if self.add is None and (self.collector or self.collector_file):
            raise refuse("collector only with add: jaeger, which its further exporter sends spans to")
        if self.collector_file and not self.collector:
            raise refuse("collector_file only with collector")
        if self.add is not None and (self.api != "jaeger" or self.port or self.counters):
            raise refuse("with add: jaeger neither api nor port nor counters")
        if self.instrument and self.api == "zipkin":
            raise refuse("instrument with a store that takes OTLP (jaeger, tempo, or add: jaeger)")
        return self


class HookEntry(Strict):
    """A one-shot command of the application's own."""

    service: Name
    command: list[Text] = Field(default_factory=list)
    timeout_s: Positive = 300.0


class HooksEntry(Strict):
    """The application's own commands, by the time at which they run."""

    seed: HookEntry | None = None
    prepare: HookEntry | None = None
    check_before: HookEntry | None = None
    check_after: HookEntry | None = None


class DatasetEntry(Strict):
    """The data that every repetition starts from, where no ``hooks.seed`` makes them."""

    source: Literal["first-start", "running", "directory", "empty"] = Field(
        alias="from",
        description="first-start: volumes as the first healthy start leaves them, kept once and restored for every "
        "repetition (the default where services have volumes); running: the same start on copies of a running stack's "
        "volumes; directory: on copies of directories; empty: volumes start empty each time",
    )
    project: str | None = Field(
        None, pattern=r"^[a-z0-9][a-z0-9_-]*$", description="compose project of the running stack, which is only read"
    )
    volumes: list[Text] = Field(
        default_factory=list,
        description="volumes that are copied from the running stack, by name or as SERVICE:PATH; default: all",
    )
    directories: dict[Text, Text] = Field(
        default_factory=dict,
        description="volume, by name or as SERVICE:PATH -> directory that is copied; relative paths start here",
    )
    prepared: bool = Field(False, description="true: hooks.prepare runs once before the data are kept")
    timeout_s: Positive = Field(600.0, description="time in which the first start has to become ready")

    @model_validator(mode="after")
    def _fits(self) -> DatasetEntry:
        for key, kind in (("project", "running"), ("directories", "directory")):
            if bool(getattr(self, key)) != (self.source == kind):
                raise refuse(f"the key {key} with `from: {kind}`, and with no other")
        if self.volumes and self.source != "running":
            raise refuse("the key volumes with `from: running` only")
        if self.prepared and self.source == "empty":
            raise refuse("the key prepared where data are kept, not with `from: empty`")
        return self


class LimitsEntry(Strict):
    """Overrides of what makes a repetition invalid or a trial infeasible.  Fractions, not percent."""

    errors: Annotated[float, Field(ge=0, lt=1)] | None = None
    achieved_rate: Fraction | None = None
    generator_lag: Positive | None = None
    stolen_cpu: Fraction | None = None
    missing_spans: Fraction | None = None
    p95_disagreement: Positive | None = None
    stationarity_alpha: Fraction | None = None
    stationarity_change: Positive | None = None
    unsettled: Annotated[float, Field(gt=0, le=1)] | None = None


def _target(text: str) -> str:
    try:
        target_of(text)
    except FieldError as error:
        raise refuse(error.allowed) from None
    return text


class GuardEntry(Strict):
    """How `tailor guard` keeps this application, where the command line says nothing else."""

    target: Annotated[str, AfterValidator(_target)] = Field(description="the tail latency to keep: 'p95 <= 15ms'")
    peak_rps: Positive | None = Field(None, description="the highest rate that it is to serve [requests/s]")
    load_profile: RelativePath | None = Field(
        None, description="a file of rates over a day (kind: load-profile), replayed in the time of --for"
    )


def _objective(terms: dict[str, float]) -> dict[str, float]:
    for quantity, weight in terms.items():
        if weight == 0:
            raise refuse(f"weights other than 0 (leave {quantity} out)")
        if quantity == "throughput" and weight > 0:
            raise refuse("a negative weight of throughput: the objective is minimised")
    return terms


def _service_parameter(name: str) -> str:
    service, _, parameter = name.rpartition(".")
    if not service or not parameter:
        raise refuse("a parameter with its service, such as db.memory_mib")
    return name


def _predicate(text: str) -> str:
    try:
        Predicate(text)
    except InvalidSpace:
        raise refuse(f"at least one service.parameter in braces, and {GRAMMAR}") from None
    return text


class ApplicationFile(Strict):
    """``application.yaml``: an application, its services, its workload and its objective."""

    kind: Literal["application"]
    version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=40)
    description: str = ""
    compose: RelativePath | Annotated[list[RelativePath], Field(min_length=1)] = Field(
        "compose.yaml",
        description="the compose file, read with the override beside it; or a list of files, in the order of -f",
    )
    env_files: list[RelativePath] = Field(
        default_factory=list, description="files of variables, as compose's --env-file; default: .env"
    )
    profiles: list[Name] = Field(default_factory=list, description="compose profiles that are started")
    leave_out: list[Name] = Field(
        default_factory=list,
        description="services of the compose file that a study runs without: load generators, dashboards",
    )
    hosts: list[Name] = Field(default_factory=lambda: ["local"], min_length=1)
    entry: Name | None = Field(
        None, description="the service that clients call; default: the host name in workload.target"
    )
    services: dict[Name, ServiceEntry] = Field(description="those with a type; without any, nothing can be tuned")
    workload: WorkloadEntry
    load: LoadEntry = Field(LoadEntry(generator="tailor"), description="what drives the workload")
    tracing: TracingEntry | None = Field(
        None, description="source of the spans; without it, latencies are the load generator's, and no critical path"
    )
    objective: Annotated[dict[Quantity, float], Field(min_length=1), AfterValidator(_objective)] = Field(
        default_factory=lambda: {"p95": 1.0}, description="quantity -> weight; minimised"
    )
    constraints: list[Annotated[str, AfterValidator(_predicate)]] = Field(
        default_factory=list,
        description="what configurations must fulfil, such as '{web.workers} <= {db.max_connections}'; a sum that they "
        "must keep, such as '{web.cpus} + {db.cpus} == 4', is solved for one of its parameters",
    )
    derived: dict[Annotated[str, AfterValidator(_service_parameter)], Arithmetic] = Field(
        default_factory=dict,
        description="service.parameter -> what its value follows from, such as '0.75 * {db.memory_mib}'; not searched",
    )
    subject_to: list[Annotated[str, AfterValidator(_outcome)]] = Field(
        default_factory=list, description="limits that the best configuration has to keep, such as 'p99 <= 40'"
    )
    also: list[Quantity] = Field(
        default_factory=list, description="further quantities to keep low: the study shows the Pareto set"
    )
    hooks: HooksEntry = HooksEntry()
    prepare: Literal["hook", "requests", "none"] | None = Field(
        None,
        description="what precedes the warm-up of each repetition, unmeasured: hooks.prepare; the workload's own "
        "requests, until they are answered and their latency settles, at most 15 s; or nothing. Default: the hook "
        "where there is one, else the requests",
    )
    dataset: DatasetEntry | None = Field(
        None, description="source of the data that every repetition starts from; default: hooks.seed, else first-start"
    )
    guard: GuardEntry | None = Field(None, description="defaults of `tailor guard`")
    closed_loop: InsidePath | None = Field(
        None,
        description="directory of another application.yaml that drives the same services as fast as they answer: what "
        "`tailor tune --objective throughput` tunes and `tailor plan --measure` measures",
    )
    limits: LimitsEntry = LimitsEntry()

    @model_validator(mode="after")
    def _hosts_once(self) -> ApplicationFile:
        if len(set(self.hosts)) != len(self.hosts):
            raise refuse("each host once in hosts")
        return self

    @model_validator(mode="after")
    def _data_from_one_source(self) -> ApplicationFile:
        if self.dataset is not None and self.hooks.seed is not None:
            raise refuse("either dataset or hooks.seed")
        if self.dataset is not None and self.dataset.prepared and self.hooks.prepare is None:
            raise refuse("dataset.prepared where there is hooks.prepare")
        if self.dataset is not None and self.dataset.prepared and self.prepare in ("requests", "none"):
            raise refuse("dataset.prepared with `prepare: hook`")
        return self
