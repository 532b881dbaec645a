"""The only place that chooses adapters."""

from __future__ import annotations

import time
from collections.abc import Mapping

from framework.config import Settings
from framework.controller import Bench, Watch
from framework.errors import InputError
from framework.load.container import ContainerLoad
from framework.model import Application, ServiceType
from framework.service import Adapters, Tailor
from framework.store.artefacts import FileArtefacts
from framework.store.studies import SqlStudyStore
from framework.testbeds.docker import DockerTestbed
from framework.traces.files import read_all
from framework.traces.jaeger import JaegerReader


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def tailor(settings: Settings) -> Tailor:
    """Tailor with its real adapters below ``settings.home``.  Raises InputError when that cannot be written."""
    clock = SystemClock()
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"TAILOR_HOME: cannot create {settings.home}: {error.strerror}") from error
    artefacts = FileArtefacts(settings.home / "artefacts")
    store = SqlStudyStore(f"sqlite:///{settings.home / 'tailor.db'}", artefacts, clock)

    def testbed(types: Mapping[str, ServiceType]) -> DockerTestbed:
        return DockerTestbed(settings.home, types)

    def bench(application: Application, types: Mapping[str, ServiceType], watch: Watch) -> Bench:
        return Bench(
            application=application,
            types=types,
            testbed=testbed(types),
            load=ContainerLoad(application),
            traces=JaegerReader(application),
            store=store,
            artefacts=artefacts,
            clock=clock,
            watch=watch,
        )

    return Tailor(Adapters(store, artefacts, clock, testbed, bench, read_all, settings.home, settings.spaces))
