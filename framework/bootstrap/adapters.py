"""The use cases put together with their real adapters."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cachetools.func import ttl_cache

from framework.bench import Backends, Colocation, Rig, TestbedKind
from framework.bootstrap.guarding import guard_tools
from framework.bootstrap.metering import energy_meter
from framework.bootstrap.storage import storage
from framework.compose.gate import Gate
from framework.config.settings import Retention, Settings
from framework.config.twin_file import load_twin, twin_digest, twin_path
from framework.errors import FieldError, InputError, MissingPrerequisite
from framework.load.registry import GENERATORS
from framework.model import DOCKER, EXTERNAL_GENERATORS, SWARM, TWIN, Application, ServiceType
from framework.model.application import TraceApi
from framework.ports.clock import Clock
from framework.ports.screen import Screen
from framework.ports.store import StudyStore
from framework.ports.telemetry import SpanSink
from framework.ports.traces import TraceReader
from framework.registry import Registry
from framework.store.access import SqlTokenStore
from framework.store.archive import SqlArchive
from framework.store.batch_jobs import SqlBatchQueue
from framework.store.database import Database
from framework.store.examination import examine
from framework.store.jobs import SqlJobQueue
from framework.store.launches import SqlLaunches
from framework.store.offers import SqlOfferStore
from framework.study.export import StudyExport
from framework.study.external import KEPT_PARAMETERS, External
from framework.study.locks import process_lock
from framework.study.retention import Keeper
from framework.study.runner import StudyRunner
from framework.telemetry import observed
from framework.testbeds.docker.builds import DockerBuilds
from framework.testbeds.docker.compose_config import ComposeConfig
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.host_counters import DockerHostCounters
from framework.testbeds.docker.image_reader import DockerImages
from framework.testbeds.docker.isolation import DockerIsolation
from framework.testbeds.docker.machine import describe
from framework.testbeds.docker.prover import DockerProver
from framework.testbeds.docker.side_containers import DockerSideContainers
from framework.testbeds.docker.stressors import DockerStressors
from framework.testbeds.docker.testbed import DockerTestbed
from framework.testbeds.host.topology import read_topology
from framework.testbeds.swarm.links import links_of
from framework.testbeds.swarm.side_containers import HomeSideContainers
from framework.testbeds.swarm.testbed import SwarmTestbed
from framework.testbeds.twin import TwinTestbed
from framework.traces.files import read_all
from framework.traces.jaeger import JaegerReader
from framework.traces.joined import JoiningReader, Store
from framework.traces.tempo_store import TempoStore
from framework.traces.untraced import Untraced
from framework.traces.zipkin_store import ZipkinStore
from framework.twin.cpu_sets import topology_of
from framework.twin.screen import screened
from framework.twin.translate import inert
from framework.use_cases.capacity import MachinePlans
from framework.use_cases.catalogue import Catalogue
from framework.use_cases.energy import Energies
from framework.use_cases.energy_comparison import EnergyComparisons
from framework.use_cases.guard import Guards
from framework.use_cases.local_jobs import LocalJobs
from framework.use_cases.node import Nodes
from framework.use_cases.place import Placements
from framework.use_cases.profile import Profiles
from framework.use_cases.results import Results
from framework.use_cases.studies import Studies
from framework.use_cases.sweep import Sweeps
from framework.use_cases.traces import Traces
from framework.use_cases.twin import Twins
from framework.use_cases.worker import Worker

TESTBEDS: Registry[Callable[[Path, Clock], TestbedKind]] = Registry("testbed", "tailor.testbeds")
"""Functions of TAILOR_HOME and a clock, by name; other packages have them."""

STORES: Mapping[TraceApi, Store] = {"zipkin": ZipkinStore(), "tempo": TempoStore()}
"""Trace stores that do not have the load generator's root spans, by their API."""

KEEP_ALL = Retention()
LONGEST_INSTANCE = 24  # characters of the name of a twin's instance
MACHINE_S = 5.0  # after so long, an engine that was started or stopped is noticed


@dataclass(frozen=True)
class Opened:
    """The use cases with their adapters, and all else that works on the same database.

    ``backends``: for the use cases that are plain functions.
    """

    backends: Backends
    store: StudyStore
    catalogue: Catalogue
    studies: Studies
    results: Results
    traces: Traces
    sweeps: Sweeps
    nodes: Nodes
    energies: Energies
    energy_comparisons: EnergyComparisons
    plans: MachinePlans
    profiles: Profiles
    placements: Placements
    twins: Twins
    runner: StudyRunner
    queue: SqlJobQueue
    tokens: SqlTokenStore
    launches: SqlLaunches
    worker: Worker
    external: External
    guards: Guards
    sharing: StudyExport
    keeper: Keeper
    check: Callable[[], None]
    """Raises StoreError, StoreBusy where the database cannot be used."""

    def close(self) -> None:
        """Close the database."""
        self.store.close()


def opened(settings: Settings, kept_parameters: int = KEPT_PARAMETERS) -> Opened:
    """Open the database with the real adapters below ``settings.home``.

    ``kept_parameters``: of studies that are measured elsewhere, whose optimizers this process keeps.
    Raises InputError when ``settings.home`` cannot be written, StoreError.
    """
    stores = storage(settings)
    backends = Backends(
        store=stores.studies,
        artefacts=stores.artefacts,
        clock=stores.clock,
        kinds=[docker_kind(settings), twin_kind(stores.clock), swarm_kind(settings)],
        plugged_in={name: partial(plugged_in, name, settings.home, stores.clock) for name in TESTBEDS.names()},
        traces=read_all,
        home=settings.home,
        spaces=settings.spaces,
        compose=ComposeConfig(tuple(settings.variables)),
        builds=DockerBuilds(),
        images=DockerImages(),
        screen=screen_of,
        observed=partial(observed, sinks(settings)),
    )
    return assembled(backends, stores.database, settings.retention, kept_parameters)


def assembled(
    backends: Backends,
    database: Database,
    retention: Retention = KEEP_ALL,
    kept_parameters: int = KEPT_PARAMETERS,
) -> Opened:
    """Put the use cases together on ``backends``, whose store works on ``database``."""
    store, artefacts, clock = backends.store, backends.artefacts, backends.clock
    runner, catalogue = StudyRunner(backends), Catalogue(backends)
    studies = Studies(backends, catalogue, runner)
    energies = Energies(backends, studies, runner)
    queue, archive = SqlJobQueue(database, clock), SqlArchive(database, artefacts)
    keeper = Keeper(store, archive, artefacts, clock, backends.home)
    engine, local = engine_name(), LocalJobs(backends, queue)
    return Opened(
        backends=backends,
        store=store,
        catalogue=catalogue,
        studies=studies,
        results=Results(backends, catalogue),
        traces=Traces(backends),
        sweeps=Sweeps(backends, studies, runner),
        nodes=Nodes(backends, studies, runner),
        energies=energies,
        energy_comparisons=EnergyComparisons(backends, energies),
        plans=MachinePlans(backends.home),
        profiles=Profiles(backends),
        placements=Placements(backends, catalogue, studies),
        twins=Twins(backends),
        runner=runner,
        queue=queue,
        tokens=SqlTokenStore(database, clock),
        launches=SqlLaunches(database, clock),
        worker=Worker(studies, store, runner, queue, engine, lambda: chores(keeper, retention), local.able),
        guards=Guards(backends, guard_tools(backends.home, SqlBatchQueue(database, clock), clock)),
        external=External(store, SqlOfferStore(database, clock), clock, backends.machine, kept_parameters),
        sharing=StudyExport(store, archive, artefacts, backends.home, backends.application),
        keeper=keeper,
        check=partial(examine, database),
    )


def engine_name() -> str:
    """Return the name of this process's engine, as the queue tells engines apart: a machine may have several."""
    address = os.environ.get("DOCKER_HOST", "")
    return f"engine of {platform.node()}" + (f" at {address}" if address else "")


def docker_kind(settings: Settings) -> TestbedKind:
    """Return the kind that deploys by Docker Compose on the engine that answers here."""
    gate = gate_of(settings)
    machine = ttl_cache(maxsize=1, ttl=MACHINE_S)(lambda: describe(Engine()))

    def manage(types: Mapping[str, ServiceType]) -> DockerTestbed:
        return DockerTestbed(settings.home, types, gate=gate, machine=machine)

    def open_(application: Application, types: Mapping[str, ServiceType]) -> Rig:
        refuse_command(application, gate)
        generator = GENERATORS.get(application.generator)
        return Rig(manage(types), generator(application, DockerSideContainers()), reader_of(application))

    return TestbedKind(
        name=DOCKER,
        modelled=False,
        exclusive=True,
        available=lambda application: machine().engine != "none",
        open=open_,
        topology=lambda application: read_topology(),
        manage=manage,
        prover=lambda types: DockerProver(settings.home, types, gate=gate, machine=machine),
        colocation=lambda: Colocation(DockerIsolation(), DockerStressors(), DockerHostCounters()),
        energy=energy_meter,
        engines=lambda: {str((Engine().info().get("Swarm") or {}).get("NodeID") or "this machine's")},
    )


def swarm_kind(settings: Settings, instance: str = "") -> TestbedKind:
    """Return the kind that deploys one stack over the nodes of a swarm, whose engines TAILOR_SWARM names.

    ``instance``: the swarm of TAILOR_SWARM_INSTANCE instead.  Raises FieldError where there is none.
    """
    gate = gate_of(settings)
    if instance and instance not in settings.swarms:
        known = ", ".join(f"{SWARM}:{name}" for name in settings.swarms) or "set TAILOR_SWARM_NAME to its engines"
        raise FieldError("testbed", f"{SWARM}:{instance}", known)
    engines = settings.swarms[instance] if instance else settings.swarm
    # One study may be deployed on several swarms at the same time: each has files and notes of its own.
    home = settings.home / "swarms" / (instance or "unnamed")

    def testbed(application: Application | None = None) -> SwarmTestbed:
        return SwarmTestbed(home, engines, application, gate=gate)

    def open_(application: Application, types: Mapping[str, ServiceType]) -> Rig:
        refuse_command(application, gate)
        opened = testbed(application)
        generator = GENERATORS.get(application.generator)
        return Rig(
            opened, generator(application, HomeSideContainers(opened.members.side_containers)), reader_of(application)
        )

    return TestbedKind(
        name=SWARM,
        modelled=False,
        exclusive=True,
        available=lambda application: bool(engines),
        open=open_,
        topology=lambda application: read_topology(),
        hosts=lambda application: testbed(application).members.sizes(),
        links=lambda application: links_of(
            home, testbed(application).members.swarm, partial(process_lock, settings.home)
        ),
        engines=lambda: {node.id for node in testbed().members.swarm.nodes},
        manage=(lambda types: testbed()) if engines else None,
        at=None if instance else partial(swarm_kind, settings),
        instances=() if instance else tuple(settings.swarms),
    )


def reader_of(application: Application) -> TraceReader:
    """Return the reader of an application's spans."""
    if application.tracing is None or not application.traced:
        return Untraced()
    return JoiningReader(application, STORES) if application.tracing.joins else JaegerReader(application)


def refuse_command(application: Application, gate: Gate) -> None:
    """Refuse a load generator that runs on this machine, outside of any container, where the operator did not allow it.

    Raises InputError.
    """
    place = f"{application.name}:load"
    if application.generator in EXTERNAL_GENERATORS and not application.external.image and place not in gate.allowed:
        raise InputError(
            f"load.generator: {application.generator} without an image would run as a command of this machine; "
            f"allowed: with load.image, or where TAILOR_ALLOW names {place}"
        )


def twin_kind(clock: Clock, instance: str = "") -> TestbedKind:
    """Return the kind that asks the application's twin: no engine is needed.

    ``instance``: a machine of its own; empty for the one that was calibrated.  Raises FieldError where it is no name.
    """
    if len(instance) > LONGEST_INSTANCE or not (instance == "" or instance.isalnum()):
        raise FieldError(
            "testbed", f"{TWIN}:{instance}", f"at most {LONGEST_INSTANCE} letters and digits after {TWIN}:"
        )

    def path_of(application: Application) -> Path:
        path = twin_path(application.directory)
        if not path.exists():
            raise MissingPrerequisite(
                f"{application.directory} has no {path.name}", "make one: `tailor twin calibrate`"
            )
        return path

    def open_(application: Application, types: Mapping[str, ServiceType]) -> Rig:
        twin = TwinTestbed(load_twin(path_of(application)), application, types, clock, instance)
        return Rig(twin, twin, twin)

    return TestbedKind(
        name=TWIN,
        modelled=True,
        exclusive=False,
        available=lambda application: twin_path(application.directory).exists(),
        open=open_,
        topology=lambda application: topology_of(load_twin(path_of(application)).hosts[0]),
        digest=lambda application: {"twin.json": twin_digest(application.directory)},
        inert=lambda application, types: inert(load_twin(path_of(application)), application, types),
        memory=False,  # it has a model of caches only
        at=None if instance else partial(twin_kind, clock),
    )


def plugged_in(name: str, home: Path, clock: Clock) -> TestbedKind:
    """Load a testbed of another package.  Raises MissingPrerequisite."""
    return TESTBEDS.get(name)(home, clock)


def screen_of(application: Application, types: Mapping[str, ServiceType]) -> Screen | None:
    """Return the screen of an application: its twin, asked about configurations; None without a twin."""
    path = twin_path(application.directory)
    return partial(screened, load_twin(path), application, types) if path.exists() else None


def gate_of(settings: Settings) -> Gate:
    """Return the gate: what compose files may ask for on this installation."""
    return Gate(settings.allowed, settings.variables)


def sinks(settings: Settings) -> list[SpanSink]:
    """Return where spans of Tailor's own work go; the library of each is loaded only where it is wanted."""
    sinks: list[SpanSink] = []
    if settings.otlp:
        from framework.telemetry.otlp import OtlpSpans

        sinks.append(OtlpSpans())
    if settings.jaeger_agent:
        from framework.telemetry.jaeger_client import JaegerClientSpans

        sinks.append(JaegerClientSpans(settings.jaeger_agent))
    return sinks


def chores(keeper: Keeper, retention: Retention) -> None:
    """Forget what the operator does not want to keep; a worker does it now and then."""
    if retention != KEEP_ALL:
        keeper.forget(retention)
