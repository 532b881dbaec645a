"""The only place that chooses adapters."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from framework.adapters import Adapters
from framework.config import Settings
from framework.config.twin_file import load_twin, twin_path
from framework.controller import Bench, Watch
from framework.errors import InputError
from framework.external import External
from framework.load.container import ContainerLoad
from framework.model import TWIN, Application, ServiceType
from framework.ports import Screen, Testbed
from framework.service import Tailor
from framework.store.access import SqlKeyStore, SqlTokenStore
from framework.store.artefacts import FileArtefacts
from framework.store.database import Database
from framework.store.jobs import SqlJobQueue
from framework.store.offers import SqlOfferStore
from framework.store.studies import SqlStudyStore
from framework.testbeds.docker import DockerTestbed
from framework.testbeds.twin import TwinTestbed
from framework.traces.files import read_all
from framework.traces.jaeger import JaegerReader
from framework.twin.screen import screened
from framework.worker import Worker, place_of


class SystemClock:
    """The machine's clock."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Opened:
    """Everything that works on one database."""

    tailor: Tailor
    queue: SqlJobQueue
    tokens: SqlTokenStore
    keys: SqlKeyStore
    worker: Worker
    external: External


def tailor(settings: Settings) -> Tailor:
    """Tailor with its real adapters below ``settings.home``.  Raises InputError when that cannot be written."""
    return opened(settings).tailor


def opened(settings: Settings) -> Opened:
    """The same with the queue, a worker for this machine, tokens and idempotency keys."""
    clock = SystemClock()
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"TAILOR_HOME: cannot create {settings.home}: {error.strerror}") from error
    artefacts = FileArtefacts(settings.home / "artefacts")
    database = Database(settings.database)
    store = SqlStudyStore(database, artefacts, clock)

    def testbed(name: str, application: Application | None, types: Mapping[str, ServiceType]) -> Testbed:
        return twin(application, types) if name == TWIN and application else DockerTestbed(settings.home, types)

    def twin(application: Application, types: Mapping[str, ServiceType]) -> TwinTestbed:
        return TwinTestbed(load_twin(twin_path(application.directory)), application, types, clock)

    def screen_of(application: Application, types: Mapping[str, ServiceType]) -> Screen | None:
        path = twin_path(application.directory)
        return partial(screened, load_twin(path), application, types) if path.exists() else None

    def bench(name: str, application: Application, types: Mapping[str, ServiceType], watch: Watch) -> Bench:
        model = twin(application, types) if name == TWIN else None
        return Bench(
            application=application,
            types=types,
            testbed=model or DockerTestbed(settings.home, types),
            load=model or ContainerLoad(application),
            traces=model or JaegerReader(application),
            store=store,
            artefacts=artefacts,
            clock=clock,
            watch=watch,
            screen=screen_of(application, types),
        )

    made = Tailor(Adapters(store, artefacts, clock, testbed, bench, read_all, settings.home, settings.spaces))
    queue = SqlJobQueue(database, clock)
    worker = Worker(made, queue, [place_of("docker", made.machine().hostname)])
    external = External(store, SqlOfferStore(database, clock), clock, made.machine())
    return Opened(made, queue, SqlTokenStore(database, clock), SqlKeyStore(database, clock), worker, external)
