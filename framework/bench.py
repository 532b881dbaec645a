"""What trials and use cases run on: the adapters, and the kinds of testbeds by name.  Filled in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from framework.config.knowledge import load_service_types, resolved
from framework.errors import MissingPrerequisite, UnknownName
from framework.model import Application, Machine, ServiceType, Study
from framework.model.events import Event, PhaseStarted, PhaseStepStarted
from framework.model.spans import TraceSet
from framework.model.topology import Topology
from framework.ports.clock import Clock
from framework.ports.host_counters import HostCounters
from framework.ports.isolation import Isolation
from framework.ports.load import LoadGenerator
from framework.ports.screen import Screen
from framework.ports.store import ArtefactStore, StudyStore
from framework.ports.stressors import Stressors
from framework.ports.testbed import Testbed
from framework.ports.traces import TraceReader

AUTO = "auto"

Watch = Callable[[Event], None]
"""Receives every step of a study, a sweep or a profile when it happens."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What trials run on: the application and the adapters.  ``screen``: its model, where it has one."""

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


class Stopwatch:
    """Seconds per phase of a repetition."""

    def __init__(self, clock: Clock, watch: Watch) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._watch = clock, watch

    @contextmanager
    def phase(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time a phase; yields a callable that reports steps inside it."""
        self._watch(PhaseStarted(name))
        began = self._clock.monotonic()
        try:
            yield lambda step: self._watch(PhaseStepStarted(name, step))
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock.monotonic() - began


@dataclass(frozen=True, slots=True)
class Rig:
    """A testbed with what drives load on it and what reads its traces."""

    testbed: Testbed
    load: LoadGenerator
    traces: TraceReader


@dataclass(frozen=True, slots=True)
class Colocation:
    """What a testbed needs so that services can be measured beside each other and beside stressors."""

    isolation: Isolation
    stressors: Stressors
    counters: HostCounters


@dataclass(frozen=True, slots=True)
class TestbedKind:
    """A kind of testbed that studies name.

    ``modelled``: its numbers are computed by a model, not measured.  ``exclusive``: studies run on it one at a time.
    ``available``: whether it can be used for an application; where it cannot, ``open`` raises MissingPrerequisite with
    the remedy.  ``topology``: of the CPUs that it has for an application.  ``digest``: file -> hash of what its answers
    come from beside the application; a study whose digest changed cannot go on.  ``inert``: names of parameters that
    mean nothing to it.  ``manage``: the testbed without an application, to describe and examine the machine and to
    clean up; None where nothing of it can be left.  ``colocation``: None where services cannot be moved.
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


@dataclass(frozen=True, slots=True)
class Backends:
    """The adapters that the use cases work with; filled in by bootstrap.

    ``kinds``: of testbeds, the preferred one first; that one describes and cleans the machine.  ``plugged_in``: name ->
    what loads a kind of another package, which ``auto`` never chooses.  ``screen``: the model of an application, None
    where it has none.  ``traces``: reads spans of files, directories and addresses.  ``spaces``: directories of further
    service types.  ``observed``: a watch that also tells whoever observes Tailor itself.
    """

    store: StudyStore
    artefacts: ArtefactStore
    clock: Clock
    kinds: Sequence[TestbedKind]
    traces: Callable[[Sequence[str], str | None], TraceSet]
    home: Path
    spaces: Sequence[Path]
    plugged_in: Mapping[str, Callable[[], TestbedKind]] = field(default_factory=dict)
    screen: Callable[[Application, Mapping[str, ServiceType]], Screen | None] = lambda application, types: None
    observed: Callable[[Study, Watch], AbstractContextManager[Watch]] = lambda study, watch: nullcontext(watch)

    def kind(self, name: str) -> TestbedKind:
        """Raises UnknownName, MissingPrerequisite for a plug-in that cannot be loaded, or has another's name."""
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
        """The kind of a name; ``auto`` is the first that is available.  Raises UnknownName."""
        if wanted != AUTO:
            return self.kind(wanted)
        return next((kind for kind in self.kinds if kind.available(application)), self.kinds[0])

    def manager(self, types: Mapping[str, ServiceType] | None = None) -> Testbed:
        """The preferred testbed without an application."""
        manage = self.kinds[0].manage
        if manage is None:
            raise MissingPrerequisite(f"testbed {self.kinds[0].name} has no machine of its own", "use another one")
        return manage(types or {})

    def machine(self) -> Machine:
        """What the preferred testbed runs on."""
        return self.manager().machine()

    def machine_of(self, testbed: str, application: Application) -> Machine:
        """What a testbed runs an application on."""
        return self.kind(testbed).open(application, {}).testbed.machine()

    def types_on(self, machine: Machine) -> Mapping[str, ServiceType]:
        """The knowledge base, every bound and default as a number on a machine."""
        return resolved(load_service_types(self.spaces), cores=machine.cores, memory_mib=machine.memory_mib)

    def bench(self, testbed: str, application: Application, types: Mapping[str, ServiceType], watch: Watch) -> Bench:
        """What trials of an application on a testbed run on.  Raises UnknownName, MissingPrerequisite."""
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
        )
