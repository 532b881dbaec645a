"""What the use cases stand on: where studies are kept, and the testbeds by name; filled in by bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.config import load_service_types, resolved
from framework.config.twin_file import twin_digest, twin_path
from framework.errors import (
    MissingPrerequisite,
    UnknownName,
)
from framework.model import (
    DOCKER,
    TWIN,
    Application,
    Machine,
    ServiceType,
    Study,
)
from framework.model.spans import Format, TraceSet
from framework.model.topology import Topology
from framework.ports.clock import Clock
from framework.ports.colocation import Neighbours
from framework.ports.load import LoadGenerator
from framework.ports.screen import Screen
from framework.ports.store import ArtefactStore, StudyStore
from framework.ports.testbed import Testbed
from framework.ports.traces import TraceReader

AUTO = "auto"

Watch = Callable[[str, Mapping[str, Any]], None]
"""Told of every step: kind ("phase", "repetition", "trial", ...) and its data."""


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
        self._watch("phase", {"phase": name})
        began = self._clock.monotonic()
        try:
            yield lambda step: self._watch("phase", {"phase": name, "step": step})
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock.monotonic() - began


@dataclass(frozen=True, slots=True)
class Backends:
    """``testbed``: of a name, for an application where it needs one, with these service types.  ``bench``: a testbed
    with its load and its traces.  ``spaces``: directories of further service types.  ``observed``: a watch that also
    tells whoever observes Tailor itself.  ``topology``: of a testbed's CPUs.
    ``neighbours``: who shares the engine's.
    """

    store: StudyStore
    artefacts: ArtefactStore
    clock: Clock
    testbed: Callable[[str, Application | None, Mapping[str, ServiceType]], Testbed]
    bench: Callable[[str, Application, Mapping[str, ServiceType], Watch], Bench]
    traces: Callable[[Sequence[str], Format | None], TraceSet]
    home: Path
    spaces: Sequence[Path]
    topology: Callable[[str, Application], Topology]
    neighbours: Callable[[], Neighbours]
    observed: Callable[[Study, Watch], AbstractContextManager[Watch]] = lambda study, watch: nullcontext(watch)

    def machine(self, testbed: str = DOCKER, application: Application | None = None) -> Machine:
        """What a testbed runs on."""
        return self.testbed(testbed, application, {}).machine()

    def types(self, testbed: str = DOCKER, application: Application | None = None) -> Mapping[str, ServiceType]:
        """The knowledge base, every bound and default as a number on a testbed's machine."""
        machine = self.machine(testbed, application)
        return resolved(load_service_types(self.spaces), cores=machine.cores, memory_mib=machine.memory_mib)

    def choose(self, wanted: str, application: Application) -> str:
        """The name of a testbed: ``auto`` is Docker, and where no engine answers the twin, if there is one.

        Raises UnknownName, MissingPrerequisite.
        """
        if wanted not in (AUTO, DOCKER, TWIN):
            raise UnknownName("testbed", wanted, (AUTO, DOCKER, TWIN))
        has_twin = twin_path(application.directory).exists()
        if wanted == TWIN and not has_twin:
            raise MissingPrerequisite(f"{application.directory} has no twin.json", "make one: `tailor twin calibrate`")
        if wanted != AUTO:
            return wanted
        return TWIN if has_twin and self.machine().engine == "none" else DOCKER

    def model(self, testbed: str, application: Application) -> dict[str, str]:
        """Which model a testbed answers from, for a study's versions: nothing where it measures.  Raises FileError."""
        return {"twin.json": twin_digest(application.directory)} if testbed == TWIN else {}
