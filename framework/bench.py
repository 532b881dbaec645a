"""The adapters that trials and use cases need, and the kinds of testbeds by name.  Filled in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from framework.compose.completed import AGENTS, completed
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.errors import FieldError, MissingPrerequisite, UnknownName
from framework.model import Application, Machine, ServiceType, Study
from framework.model.events import Event, PhaseStarted, PhaseStepStarted
from framework.model.links import Link
from framework.model.spans import TraceSet
from framework.model.topology import Topology
from framework.ports.builds import Builds
from framework.ports.clock import Clock
from framework.ports.compose import ComposeReader
from framework.ports.energy import EnergyMeter
from framework.ports.host_counters import HostCounters
from framework.ports.images import ImageReader
from framework.ports.isolation import Isolation
from framework.ports.load import LoadGenerator
from framework.ports.screen import Screen
from framework.ports.store import ArtefactStore, StudyStore
from framework.ports.stressors import Stressors
from framework.ports.testbed import Prover, Testbed
from framework.ports.traces import TraceReader

AUTO = "auto"

Watch = Callable[[Event], None]
"""Receives the events of a study, a sweep or a profile as they happen."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The application and the adapters for its trials.  ``screen``: predictions of its model, where it has one.

    ``name``: of the testbed, as a study names it.  ``team``: the benches of all testbeds of a study that has several.
    """

    application: Application
    types: Mapping[str, ServiceType]
    testbed: Testbed
    load: LoadGenerator
    traces: TraceReader
    store: StudyStore
    artefacts: ArtefactStore
    clock: Clock
    watch: Watch
    screen: Screen | None = None
    name: str = ""
    team: tuple[Bench, ...] = ()


class Stopwatch:
    """Measures the phases of a repetition.  ``seconds``: phase -> its duration so far [s]."""

    def __init__(self, clock: Clock, watch: Watch) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._watch = clock, watch

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time a phase; yield a callable that reports steps inside it."""
        self._watch(PhaseStarted(name))
        began = self._clock.monotonic()
        try:
            yield lambda step: self._watch(PhaseStepStarted(name, step))
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock.monotonic() - began


@dataclass(frozen=True, slots=True)
class Rig:
    """A testbed with its load generator and its reader of traces."""

    testbed: Testbed
    load: LoadGenerator
    traces: TraceReader


@dataclass(frozen=True, slots=True)
class Colocation:
    """Adapters for measuring services on the same CPUs as other services or stressors."""

    isolation: Isolation
    stressors: Stressors
    counters: HostCounters


@dataclass(frozen=True, slots=True)
class TestbedKind:
    """A kind of testbed that studies name.

    ``modelled``: its numbers are computed by a model, not measured.  ``exclusive``: studies run on it one at a time.
    ``available``: whether it can be used for an application; where it cannot, ``open`` raises MissingPrerequisite with
    the remedy.  ``topology``: of its CPUs for an application.  ``digest``: file -> hash of inputs besides the
    application that determine its results; a study whose digest changed cannot be resumed.  ``inert``: names of
    parameters without an effect on it.  ``manage``: the testbed without an application, to describe and examine the
    machine and to clean up; None where it leaves nothing behind.  ``colocation``: None where services cannot be moved.
    ``prover``: the testbed that tells what servers have; None where there are no servers.  ``memory``: whether it tells
    how much memory services use.  ``energy``: name of a power source -> counters of energy; None where there are none.
    ``engines``: identities of the engines that it uses, by their nodes in a swarm, which two testbeds of one study must
    not share.
    ``hosts``: host -> its cores and its memory [MiB], where services run on several; None where there is one machine.
    ``links``: those between the hosts, measured where they are not known yet.
    ``at``: the kind at an instance, which a study names as ``kind:instance``; it may raise InputError; None where there
    is only one.  ``instances``: those that have machines of their own, to be examined and cleaned.
    """

    name: str
    modelled: bool
    exclusive: bool
    available: Callable[[Application], bool]
    open: Callable[[Application, Mapping[str, ServiceType]], Rig]
    topology: Callable[[Application], Topology]
    digest: Callable[[Application], Mapping[str, str]] = lambda application: {}
    inert: Callable[[Application, Mapping[str, ServiceType]], Collection[str]] = lambda application, types: ()
    manage: Callable[[Mapping[str, ServiceType]], Testbed] | None = None
    colocation: Callable[[], Colocation] | None = None
    prover: Callable[[Mapping[str, ServiceType]], Prover] | None = None
    memory: bool = True
    energy: Callable[[str], EnergyMeter] | None = None
    engines: Callable[[], Collection[str]] = tuple
    hosts: Callable[[Application], Mapping[str, tuple[float, float]]] | None = None
    links: Callable[[Application], Sequence[Link]] | None = None
    at: Callable[[str], TestbedKind] | None = None
    instances: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Backends:
    """The adapters that the use cases work with; filled in by bootstrap.

    ``kinds``: of testbeds, the preferred one first, which also describes and cleans the machine.  ``plugged_in``: name
    -> loader of a kind from another package, which ``auto`` never chooses.  ``screen``: opens the model of an
    application, None where it has none.  ``traces``: reads spans from files, directories and addresses.  ``home``:
    TAILOR_HOME.  ``spaces``: directories of further service types.  ``compose``: reads compose files that are more than
    one complete file; None: nothing here can.  ``builds``: names the images that an application builds.  ``images``:
    says what images of this machine do by themselves.  ``observed``: wraps a study's watch so that telemetry sees it
    too.
    """

    store: StudyStore
    artefacts: ArtefactStore
    clock: Clock
    kinds: Sequence[TestbedKind]
    traces: Callable[[Sequence[str], str | None], TraceSet]
    home: Path
    spaces: Sequence[Path]
    compose: ComposeReader | None = None
    builds: Builds | None = None
    images: ImageReader | None = None
    plugged_in: Mapping[str, Callable[[], TestbedKind]] = field(default_factory=dict)
    screen: Callable[[Application, Mapping[str, ServiceType]], Screen | None] = lambda application, types: None
    observed: Callable[[Study, Watch], AbstractContextManager[Watch]] = lambda study, watch: nullcontext(watch)

    def application(self, path: Path) -> Application:
        """Read an application's directory, and what its files and images set parameters to.

        Raises FileError, MissingPrerequisite; UnknownName for a service type that there is not.
        """
        return completed(
            load_application(path, self.compose),
            load_service_types(self.spaces),
            self.builds,
            self.images,
            self.home / AGENTS,
        )

    def kind(self, name: str) -> TestbedKind:
        """Return the kind of a name, or of ``name:instance``.

        Raises UnknownName, InputError for an instance that the kind does not have, and MissingPrerequisite for a
        plug-in that cannot be loaded or whose name is taken.
        """
        whole, (name, colon, instance) = name, name.partition(":")
        if colon:
            kind = self.kind(name)
            if kind.at is None or not instance:
                allowed = name if kind.at is None else f"{name}, or an instance behind {name}:"
                raise FieldError("testbed", whole, allowed)
            return replace(kind.at(instance), name=whole)
        for kind in self.kinds:
            if kind.name == name:
                if name in self.plugged_in:
                    raise MissingPrerequisite(f"a package has a testbed of the name {name} too", "uninstall it")
                return kind
        if name not in self.plugged_in:
            known = (AUTO, *(kind.name for kind in self.kinds), *self.plugged_in)
            raise UnknownName("testbed", name, known, field="testbed")
        return self.plugged_in[name]()

    def choose(self, wanted: str, application: Application) -> TestbedKind:
        """Return the kind of a name; for ``auto``, the first that is available.  Raises UnknownName."""
        if wanted != AUTO:
            return self.kind(wanted)
        return next((kind for kind in self.kinds if kind.available(application)), self.kinds[0])

    def others(self) -> Sequence[TestbedKind]:
        """Return the kinds after the preferred one, with the instances that have machines of their own."""
        others = []
        for kind in self.kinds[1:]:
            others += [kind, *(self.kind(f"{kind.name}:{instance}") for instance in kind.instances)]
        return others

    def manager(self, types: Mapping[str, ServiceType] | None = None) -> Testbed:
        """Return the preferred testbed without an application.  Raises MissingPrerequisite where it has no machine."""
        manage = self.kinds[0].manage
        if manage is None:
            raise MissingPrerequisite(f"testbed {self.kinds[0].name} has no machine of its own", "use another one")
        return manage(types or {})

    def machine(self) -> Machine:
        """Return the machine of the preferred testbed."""
        return self.manager().machine()

    def machine_of(self, testbed: str, application: Application) -> Machine:
        """Return the machine on which a testbed runs an application."""
        return self.kind(testbed).open(application, {}).testbed.machine()

    def types_on(self, machine: Machine) -> Mapping[str, ServiceType]:
        """Return the knowledge base with every bound and default resolved to a number for a machine."""
        return resolved(load_service_types(self.spaces), cores=machine.cores, memory_mib=machine.memory_mib)

    def bench(self, testbed: str, application: Application, types: Mapping[str, ServiceType], watch: Watch) -> Bench:
        """Return the bench for trials of an application on a testbed.  Raises UnknownName, MissingPrerequisite."""
        rig = self.kind(testbed).open(application, types)
        return Bench(
            application=application,
            types=types,
            testbed=rig.testbed,
            load=rig.load,
            traces=rig.traces,
            store=self.store,
            artefacts=self.artefacts,
            clock=self.clock,
            watch=watch,
            screen=self.screen(application, types),
            name=testbed,
        )
