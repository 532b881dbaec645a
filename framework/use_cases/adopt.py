"""Adoption of an application that somebody else wrote: understand its compose files, write a proposal, prove it."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from framework.adopt.grades import Proof, baseline_of
from framework.adopt.proposal import Proposal, application_text, propose, workload_text
from framework.adopt.requests import requests_of
from framework.adopt.tries import tried
from framework.bench import Backends
from framework.compose import render
from framework.compose.completed import facts_of, with_built_images
from framework.config.application import FILE
from framework.config.compose_files import DEFAULT_NAMES, read_compose, with_override
from framework.config.knowledge import load_service_types
from framework.config.space import search_space
from framework.config.writing import write_text
from framework.controller import read_spans
from framework.errors import FileError, InputError, LoadFailed, MeasurementInvalid, MissingPrerequisite, TrialFailed
from framework.model import (
    Application,
    Deployment,
    LoadPlan,
    Objective,
    Running,
    Service,
    ServiceType,
    Told,
    Workload,
)
from framework.model.study import ADOPTED
from framework.ports.compose import ComposeSource
from framework.ports.testbed import Prover
from framework.preparation import answered, sender
from framework.report.adopt_page import adopt_page
from framework.study.locks import process_lock
from optimizer.space import Configuration, SearchSpace

PAGE = "understood.html"
RATE_RPS, SECONDS = 2.0, 3.0  # of the requests that prove the entry

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """The options of `tailor init`.

    ``files``, ``env_files``, ``profiles``: as compose's -f, --env-file and --profile; no files: those that compose
    finds in ``directory``.  ``output``: where the new files go.  ``source``: FORMAT:FILE of a workload.
    """

    directory: Path
    files: tuple[Path, ...] = ()
    env_files: tuple[Path, ...] = ()
    profiles: tuple[str, ...] = ()
    output: Path | None = None
    source: str = ""

    @property
    def target(self) -> Path:
        """The directory of the new files."""
        return self.output or self.directory / ADOPTED


def understand(
    backends: Backends, request: AdoptRequest, running: Mapping[str, Sequence[str]] | None = None
) -> Proposal:
    """Read compose files, and say what the application is.  ``running``: service -> programs, from ``observe``.

    Raises FileError, InputError, MissingPrerequisite.
    """
    requests = requests_of(request.source) if request.source else ()
    types = load_service_types(backends.spaces)
    return propose(_described(backends, request), types, requests, running)


def write(
    request: AdoptRequest, proposal: Proposal, proof: Proof | None = None, again: Sequence[Path] = ()
) -> tuple[Path, ...]:
    """Write application.yaml and workload.yaml where they are not there; return the paths of those that were written.

    ``again``: those of an earlier call, which are written anew.  Raises InputError where they cannot be written.
    """
    target = request.target
    source = _source(request)
    names = [os.path.relpath(path, target) for path in source.files]
    env_files = [os.path.relpath(path, target) for path in source.env_files]
    text = application_text(proposal, names, env_files, request.profiles, proof)
    texts = {target / FILE: text, target / "workload.yaml": workload_text(proposal)}
    return tuple(write_text(path, text) for path, text in texts.items() if path in again or not path.exists())


def remove(written: Sequence[Path]) -> None:
    """Remove files that were written, and their directory where nothing else is in it."""
    for path in written:
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in written}:
        with suppress(OSError):  # something else is in it
            directory.rmdir()


def write_page(request: AdoptRequest, proposal: Proposal, proof: Proof | None) -> Path:
    """Write what was understood and proven as one HTML page.  Raises InputError."""
    return write_text(request.target / PAGE, adopt_page(proposal, proof))


def obtain(backends: Backends, directory: Path) -> None:
    """Build and pull those images of the application of ``directory`` that are not here.

    Raises MissingPrerequisite without an engine or for images that cannot be had, InputError for what a study would
    refuse.
    """
    _prover(backends).check(backends.application(directory))


def observe(backends: Backends, directory: Path, progress: Progress) -> Mapping[str, Sequence[str]]:
    """Deploy the application of ``directory`` as it is, and return service -> programs that run in it.

    Nothing of it stays but the data of its first start.  Raises like ``prove``.
    """
    with _trying(backends, directory, progress) as trying:
        running, _ = trying.deployed(_default(_space(backends, trying)))
        progress("looking which programs run")
        return trying.prover.programs(running)


def prove(backends: Backends, directory: Path, progress: Progress) -> Proof:
    """Deploy the application of ``directory``, whose images are here, as it is, and with other values.

    Nothing of it stays but the data of its first start, which studies begin from.

    Raises MissingPrerequisite without an engine, InputError for what a study would refuse, TrialFailed where the
    application does not start as it is.
    """
    with _trying(backends, directory, progress) as trying:
        return _proven(backends, trying)


@contextmanager
def _trying(backends: Backends, directory: Path, progress: Progress) -> Iterator[_Trying]:
    """Yield what deploys an application; its first start is kept, all else is removed before and afterwards."""
    prover = _prover(backends)
    application = backends.application(directory)
    types = backends.types_on(backends.machine())
    project = project_of(backends.home)
    trying = _Trying(prover, application, types, project, progress)
    with process_lock(backends.home, project):  # by which `tailor clean` knows what a killed one left
        prover.clean(project, data=True)
        try:
            if application.data_source is not None:  # a first start that takes minutes is paid once
                first = replace(trying.rendered(_default(_space(backends, trying))), expectations=())
                prover.load_dataset(application, first, progress)
            yield trying
        finally:
            prover.clean(project, data=True)


def _space(backends: Backends, trying: _Trying) -> SearchSpace | None:
    """Return the space of an application; None where nothing can be tuned."""
    machine, types = trying.prover.machine(), load_service_types(backends.spaces)
    try:
        return search_space(trying.application, types, cores=machine.cores, memory_mib=machine.memory_mib)
    except InputError:
        return None


def _default(space: SearchSpace | None) -> Configuration:
    return space.default() if space is not None else Configuration({})


def _prover(backends: Backends) -> Prover:
    kind = backends.kinds[0]
    if kind.prover is None:
        raise MissingPrerequisite(f"the testbed {kind.name} runs no servers", "use the Docker Engine")
    return kind.prover(backends.types_on(backends.machine()))


def project_of(home: Path) -> str:
    """Return the compose project of the first deployments, which is another one in every TAILOR_HOME."""
    return f"tailor-init-{hashlib.sha256(str(home.absolute()).encode()).hexdigest()[:8]}"


def _proven(backends: Backends, trying: _Trying) -> Proof:
    space = _space(backends, trying)
    began = time.monotonic()
    running, told = trying.deployed(_default(space))
    ready_s = time.monotonic() - began
    requests, failed, spans, problem = _requests(backends, trying.application, running, trying.progress)
    knobs = tried(lambda other: trying.deployed(other)[1], space, trying.progress) if space is not None else ()
    return Proof(
        tuple(knobs),
        baseline_of(space, told) if space is not None else {},
        requests,
        failed,
        problem,
        spans,
        ready_s,
    )


def _described(backends: Backends, request: AdoptRequest) -> Application:
    """Return the compose files as an application without types."""
    source = _source(request)
    compose = read_compose(source, backends.compose)
    services = tuple(Service(name, "", "local", tuned=False) for name in compose.document["services"])
    described = Application(
        name=_name(request.directory),
        directory=Path(os.path.normpath(request.target.absolute())),
        compose_directory=source.directory,
        compose=compose.document,
        services=services,
        hosts=("local",),
        workload=Workload(RATE_RPS, "poisson", "", {}),
        tracing=None,
        objective=Objective(),
        environments=compose.environments,
        unset=tuple(compose.unset),
    )
    named = with_built_images(described, backends.builds)
    return replace(named, images=facts_of(named, backends.images)) if backends.images is not None else named


def _source(request: AdoptRequest) -> ComposeSource:
    """Return the compose files that are meant.  Raises FileError where there are none."""
    files = [path.absolute() for path in request.files]
    if not files:
        file = next((request.directory / name for name in DEFAULT_NAMES if (request.directory / name).is_file()), None)
        if file is None:
            raise FileError(request.directory, "", "no compose file", f"one of {', '.join(DEFAULT_NAMES)}, or -f FILE")
        files = list(with_override(file.absolute()))
    for path in (*files, *request.env_files):
        if not path.is_file():
            raise FileError(path, "", "no such file", "a file that exists")
    env_files = tuple(path.absolute() for path in request.env_files)
    return ComposeSource(tuple(files), files[0].parent, env_files, request.profiles)


def _name(directory: Path) -> str:
    """Return a name made of a directory's."""
    name = re.sub(r"[^a-z0-9_-]+", "-", directory.absolute().name.lower()).strip("-_")[:40]
    return name or "application"


# --------------------------------------------------------------------------- the proof


@dataclass(frozen=True, slots=True)
class _Trying:
    """The deployments of a proof."""

    prover: Prover
    application: Application
    types: Mapping[str, ServiceType]
    project: str
    progress: Progress

    def deployed(self, configuration: Configuration) -> tuple[Running, Mapping[str, Told]]:
        """Deploy, whatever the servers tell afterwards; return it with what they tell."""
        wanted = self.rendered(configuration)
        running = self.prover.deploy(replace(wanted, expectations=()), self.progress)
        self.progress("asking every server for its values")
        return running, self.prover.values(running, wanted.expectations)

    def rendered(self, configuration: Configuration) -> Deployment:
        """Return the deployment of a configuration."""
        labels = {"tailor.application": self.application.name}
        return render(self.application, self.types, configuration, project=self.project, labels=labels)


def _requests(
    backends: Backends, application: Application, running: Running, progress: Progress
) -> tuple[int, int, int | None, str]:
    """Send a few requests to the entry; return their number, those that failed, their spans and a problem."""
    rig = backends.kinds[0].open(application, {})
    progress(f"sending requests to {application.workload.target}")
    plan = LoadPlan(application.workload, RATE_RPS, 0.0, SECONDS, seed=1, trace=application.traced)
    send = sender(rig.load, running, lambda: rig.testbed.usage(running), progress)
    try:
        load = answered(send, plan, backends.clock)
    except (LoadFailed, TrialFailed, MeasurementInvalid, InputError) as error:
        return 0, 0, None, str(error)
    problems = [f"{count} x {reason}" for reason, count in load.errors.items()]
    spans = None
    try:
        spans = len(read_spans(rig.traces, load, running, None)) if application.traced else None
    except (TrialFailed, MeasurementInvalid) as error:
        problems.append(str(error))
    return len(load.ok), int((~load.ok).sum()), spans, "; ".join(problems)
