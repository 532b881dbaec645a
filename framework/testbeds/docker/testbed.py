"""The Docker testbed: brings a deployment on this machine's engine from any state to the desired state.

deploy = write the document, remove stale containers, restore the data, start, wait until ready, reset caches, run live
commands, read back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from framework.compose.allow_list import TYPE_LABEL
from framework.compose.gate import CLOSED, Gate
from framework.compose.interpolation import escaped
from framework.compose.tracing_notes import tracing_notes
from framework.errors import DeploymentFailed, MissingPrerequisite, TestbedUnavailable, TrialFailed
from framework.model import (
    Application,
    Container,
    Deployment,
    Finding,
    Hook,
    Machine,
    Probe,
    Running,
    ServiceType,
    Usage,
)
from framework.ports.testbed import Progress
from framework.testbeds.docker import probes
from framework.testbeds.docker.agents import ensure_agents
from framework.testbeds.docker.cleanup import clean, projects, settle
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.dataset_notes import dataset_notes, datasets_of, volume_names
from framework.testbeds.docker.document import DEFINITION, Wanted, one_document, wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.engine_start import engine_start_s
from framework.testbeds.docker.examination import examine
from framework.testbeds.docker.first_start import STOP_S, DatasetLoader
from framework.testbeds.docker.full_disk import check_disk, has_room
from framework.testbeds.docker.generators import check_generator, loop_notes
from framework.testbeds.docker.images import check_images, image_ids
from framework.testbeds.docker.inventory import describe_containers, networks_of
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.machine import describe
from framework.testbeds.docker.named_volumes import volumes_of, with_named_volumes
from framework.testbeds.docker.owner import PROJECT, Owner
from framework.testbeds.docker.read_back import read_back, read_statistics
from framework.testbeds.docker.readiness import Readiness, ended
from framework.testbeds.docker.run_directory import compose_file, write
from framework.testbeds.docker.usage import CpuCounters
from framework.testbeds.docker.volumes import WorkingVolumes

logger = logging.getLogger(__name__)
READY_TIMEOUT_S = 90.0  # even PostgreSQL with a large shared memory on two busy cores takes a few seconds only


class Phases:
    """Timer of named phases.  ``seconds``: phase -> seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, progress: Progress) -> Iterator[None]:
        progress(name)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


class DockerTestbed:
    """Testbed that uses Docker Compose; implements ``framework.ports.testbed.Testbed``.

    ``home``: TAILOR_HOME; documents go to ``home/run/<project>``.  ``types``: the knowledge base, by name.
    ``gate``: decides what compose files may ask for.  ``machine``: describes the engine's machine; None: the engine is
    asked.
    """

    __test__ = False

    name = "docker"
    modelled = False

    def __init__(
        self,
        home: Path,
        types: Mapping[str, ServiceType],
        *,
        gate: Gate = CLOSED,
        ready_timeout_s: float = READY_TIMEOUT_S,
        overlays: bool = True,
        engine: Engine | None = None,
        compose: ComposeCommand | None = None,
        machine: Callable[[], Machine] | None = None,
    ) -> None:
        self._home = home
        self._types = types
        self._gate = gate
        self._ready_timeout_s = ready_timeout_s
        self._engine = engine or Engine()
        self._machine = machine or partial(describe, self._engine)
        self._compose_command = compose
        self._volumes = WorkingVolumes(self._engine, overlays)
        self._loader = DatasetLoader(self._engine, home, self, ready_timeout_s)
        self._counters = CpuCounters(self._engine)
        self._engine_began_s = engine_start_s()

    # ------------------------------------------------------------------ before the first trial

    def machine(self) -> Machine:
        return self._machine()

    def check(self, application: Application) -> None:
        """Check that the application can run here.

        Raises MissingPrerequisite without engine or compose command, or for an image that is not here and cannot be
        pulled; InputError where its compose file asks for something that is not allowed.
        """
        admitted = self._gate.application(application)
        try:
            self._engine.version()
        except TestbedUnavailable as error:
            raise MissingPrerequisite(
                str(error), "start the Docker Engine, or set DOCKER_HOST to one that runs"
            ) from error
        self._compose()
        ensure_agents(application, logger.info)
        check_images(self._engine, application, admitted.document)
        check_generator(self._engine, application)

    def notes(self, application: Application) -> Sequence[str]:
        """Say, in sentences, how a study's deployment differs from the user's own."""
        left = [f"{name} is left alone: {why}" for name, why in application.unsettable.items()]
        admitted, loader = self._gate.admitted(application), self._loader
        volumes = volume_names(application, self._named(admitted.document))
        data = dataset_notes(application, volumes, loader.loaded.get(application.name), loader.unusable)
        return [*admitted.notes, *left, *tracing_notes(application), *loop_notes(application), *data]

    def load_dataset(self, application: Application, default: Deployment, progress: Progress) -> None:
        """Make the dataset once and keep it: by the application's seed hook, or by its first healthy start.

        Raises TrialFailed, InputError.
        """
        self._gate.application(application)
        self._loader.load(application, default, self._wanted(default), progress)

    # ------------------------------------------------------------------ a repetition

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        """Bring the engine to the desired state: services up and ready, data restored, parameters read back.

        With ``fresh="changed"`` containers whose definition, files and image did not change go on, after their service
        type's reset.  The result has the seconds of each phase; its deployment's labels say how data were restored.
        Raises DeploymentFailed, ParameterNotApplied, InputError where the document asks for something not allowed.
        """
        return self.deploy_within(deployment, progress, self._ready_timeout_s)

    def deploy_within(
        self, deployment: Deployment, progress: Progress, timeout_s: float, *, patient: bool = False
    ) -> Running:
        """Deploy like ``deploy``, with the time [s] in which all services have to become ready.

        ``patient``: health checks may fail until then.
        """
        phases = Phases()
        if deployment.hosts:
            raise DeploymentFailed(f"this testbed has one host; found {', '.join(sorted(deployment.hosts))} on others")
        self._engine_began_s = engine_start_s()
        want = self._wanted(deployment)
        project, directory = deployment.project, self._directory(deployment)
        with phases.phase("write", progress):
            write(directory, escaped(want.document), deployment.files, want.files)
            ids = image_ids(self._engine, want)
        with phases.phase("remove", progress):
            unchanged = self._remove(deployment, want, ids)
        with phases.phase("restore", progress):
            dataset = self._loader.loaded.get(deployment.application)
            method = self._volumes.reset(project, want, dataset, keep=bool(unchanged))
        with phases.phase("start", progress):
            self._start(project, compose_file(directory))
        with phases.phase("healthy", progress):
            ready = {name: self._ready(deployment, want, name) for name in want.services}
            readiness = Readiness(self._engine, project, want.finite, want.restarted, want.replicas, patient=patient)
            listed = readiness.wait(ready, timeout_s, progress)
            networks = networks_of(listed, deployment.reached)
            containers = describe_containers(self._engine, listed, want, networks.entry)
        with phases.phase("reset", progress):
            self._reset(deployment, want, {name: containers[name] for name in unchanged if name in containers})
        with phases.phase("live", progress):
            self._run_live(deployment, containers)
        with phases.phase("read back", progress):
            passed = read_back(self._engine, deployment.expectations, containers)
        # The load generator and stressors bear these labels too; clean-up recognises them by their project.
        added = {PROJECT: deployment.project, "tailor.restored": method, "tailor.fresh": deployment.fresh}
        labels = {**deployment.labels, **added}
        return Running(
            replace(deployment, labels=labels), networks.entry, containers, phases.seconds, networks.also, passed
        )

    def _start(self, project: str, file: Path) -> None:
        try:
            self._compose().up(project, file)
        except DeploymentFailed:
            settle(self._engine, project)
            raise

    def _remove(self, deployment: Deployment, want: Wanted, ids: Mapping[str, str]) -> set[str]:
        """Remove the containers that must not go on; returns the services whose containers go on."""
        owner = Owner.project(deployment.project)
        containers = self._engine.containers(str(owner))
        single = {service for service in want.services if want.replicas.get(service, 1) == 1}
        kept = {
            c.service: c
            for c in containers
            if deployment.fresh == "changed" and c.service in single and _unchanged(c, want, ids)
        }
        # A service may look up addresses of others only at its start (nginx does), so it goes with those that it needs.
        while stale := [name for name in kept if set(want.needs[name]) - want.finite - kept.keys()]:
            for name in stale:
                del kept[name]
        to_remove = [c for c in containers if kept.get(c.service) is not c]
        if kept:  # then the volumes are not restored, so the data in them must stay complete
            holders = {service for services in want.holders.values() for service in services}
            holding = [c.id for c in to_remove if c.service in holders and c.state == "running"]
            self._engine.stop(holding, STOP_S, owner)
        self._engine.remove((c.id for c in to_remove), owner)
        return set(kept)

    def _reset(self, deployment: Deployment, want: Wanted, containers: Mapping[str, Container]) -> None:
        """Empty the caches of containers that go on, by their service type's reset commands."""
        for service, container in containers.items():
            kind = self._type(deployment, want, service)
            for command in kind.reset if kind else ():
                try:
                    if command[0] == "tcp":
                        probes.send(container.address, int(command[1]), command[2], r"\n")
                    else:
                        self._execute(service, container, command)
                except probes.NoAnswer as error:
                    raise DeploymentFailed(f"reset failed: {error}", service) from error

    def _run_live(self, deployment: Deployment, containers: Mapping[str, Container]) -> None:
        for service, command in deployment.live:
            if service not in containers:
                raise DeploymentFailed("a live command needs it, but it does not run", service)
            self._execute(service, containers[service], command)

    def _execute(self, service: str, container: Container, command: Sequence[str]) -> None:
        code, output = self._engine.execute(container.id, command)
        if code != 0:
            raise DeploymentFailed(f"{' '.join(command)} ended with {code}", service, output)

    # ------------------------------------------------------------------ while it runs

    def run_hook(self, running: Running, hook: Hook) -> str:
        """Run a one-shot service to its end; returns its output.  Raises TrialFailed with its output where it fails."""
        project = running.deployment.project
        file = compose_file(self._home / "run" / project)
        try:
            code, output, errors = self._compose().run(project, file, hook.service, hook.command, hook.timeout_s)
        except BaseException:  # an unfinished one-shot must not change the next deployment's data
            owner = Owner.project(project)
            self._engine.remove((c.id for c in self._engine.containers(str(owner)) if not c.service), owner)
            raise
        if code != 0:
            self._engine.version()  # where the engine is gone, that is the cause: raises TestbedUnavailable
            text = "\n".join(f"  | {line}" for line in (*output.splitlines()[-20:], *errors.splitlines()))
            raise TrialFailed(f"{' '.join((hook.service, *hook.command))} ended with {code}\n{text}")
        return output

    def usage(self, running: Running) -> Usage:
        """Read CPU time and pressure so far [s].  Raises DeploymentFailed, with last lines, where a container ended."""
        try:
            return self._counters.read(running.containers)
        except DeploymentFailed:
            self.alive(running)
            raise

    def statistics(self, running: Running) -> Mapping[str, Mapping[str, float]]:
        """Read the statistics that service types define: service -> name -> number.  Raises DeploymentFailed."""
        want = self._wanted(running.deployment)
        kinds = {service: self._type(running.deployment, want, service) for service in running.containers}
        known = {service: kind for service, kind in kinds.items() if kind is not None}
        return read_statistics(self._engine, known, running.containers)

    def alive(self, running: Running) -> None:
        """Check that all containers run.  Raises DeploymentFailed, with the last lines of one that does not."""
        by_id = {c.id: c for c in self._engine.containers(f"{PROJECT}={running.deployment.project}")}
        every = [(service, c) for service, first in running.containers.items() for c in first.replicas]
        for service, container in every:
            listed = by_id.get(container.id)
            if listed is None:
                raise DeploymentFailed("its container is gone", service)
            if listed.state != "running":
                raise DeploymentFailed(f"its container is {ended(listed)}", service, self._engine.logs(listed.id))
        restarted = self._wanted(running.deployment).restarted
        for service, container in every:
            if service in restarted:
                about = self._engine.inspect(container.id)
                if about is not None and about["State"]["StartedAt"] != container.started_at:
                    log = self._engine.logs(container.id)
                    raise DeploymentFailed("its container failed and was started again", service, log)

    def check_itself(self, failure: str) -> None:
        """Raise TestbedUnavailable where the disk is full, or the engine was started again since the deployment."""
        check_disk(failure, lambda: has_room(str(self._engine.info().get("DockerRootDir"))))
        self._engine.version()
        if self._engine_began_s != engine_start_s():
            raise TestbedUnavailable("the Docker Engine was started again during the trial")

    # ------------------------------------------------------------------ clean-up and examination

    def clean(self, project: str, *, data: bool = False) -> Sequence[str]:
        """Remove all of ``project``, with ``data`` also its copies of the user's data; returns what was removed."""
        removed = clean(self._engine, project)
        return (
            removed + [f"volume {name}" for name in self._loader.datasets.remove(copy_for=project)] if data else removed
        )

    def projects(self) -> Collection[str]:
        """Return every project that has something on the engine."""
        return projects(self._engine)

    def clean_datasets(self, application: str | None = None) -> Sequence[str]:
        """Remove datasets (of one application, or all) that no deployment uses; returns what was removed."""
        self._loader.loaded.clear()
        return self._loader.datasets.remove(application)

    def examine(self, applications: Sequence[Application]) -> Sequence[Finding]:
        """List this machine's abilities, what is missing and how to get it; also for the images of ``applications``."""
        admitted = {application.name: self._gate.admitted(application) for application in applications}
        documents = {name: partial(self._named, admission.document) for name, admission in admitted.items()}
        data = datasets_of(self._engine, self._loader.datasets, applications, documents)
        return [*examine(self._engine, self._home, applications, admitted, self._gate.allowed), *data]

    # ------------------------------------------------------------------ inside

    def _directory(self, deployment: Deployment) -> Path:
        return self._home / "run" / deployment.project

    def _wanted(self, deployment: Deployment) -> Wanted:
        """Return the desired state.  Raises DeploymentFailed, InputError where the document asks for too much."""
        document = one_document(deployment)
        admitted = self._gate.deployment(deployment, document, self._directory(deployment))
        if deployment.every_volume:
            admitted = replace(admitted, document=self._named(admitted.document))
        return wanted(deployment, admitted)

    def _named(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_named_volumes(document, partial(volumes_of, self._engine))

    def _compose(self) -> ComposeCommand:
        if self._compose_command is None:
            self._compose_command = ComposeCommand.find()
        return self._compose_command

    def _type(self, deployment: Deployment, want: Wanted, service: str) -> ServiceType | None:
        """Return a service's type: the deployment's, else by its label in the document."""
        if service in deployment.types:
            return deployment.types[service]
        name = (want.document["services"].get(service) or {}).get("labels", {}).get(TYPE_LABEL)
        return self._types.get(name) if name else None

    def _ready(self, deployment: Deployment, want: Wanted, service: str) -> Probe | None:
        """Return the probe of a service's type; of one that clients call, whether it listens; else None."""
        kind = self._type(deployment, want, service)
        if kind is not None and kind.ready is not None:
            return kind.ready
        return Probe("listens", f"({probes.LISTENS})") if service in deployment.reached else None


def _unchanged(container: Listed, want: Wanted, ids: Mapping[str, str]) -> bool:
    """Return whether a running container is in the desired state, apart from its trial's labels."""
    return (
        container.state == "running"
        and container.service in want.services
        and container.labels.get(DEFINITION) == want.definitions[container.service]
        and container.image_id == ids.get(container.service)
    )
