"""The data that repetitions start from, made once: by the application's seed hook, or by its first healthy start.

Whatever a first start begins with (nothing, the user's directories, copies of a running stack's volumes), it runs the
application once, stops it so that databases write everything, and keeps the volumes.  A second start from the kept
data shows that they are good before anything is measured on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from framework.errors import DeploymentFailed, TrialFailed
from framework.model import Application, DatasetSource, Deployment, Hook, Running, Usage
from framework.ports.testbed import Progress
from framework.testbeds.docker.datasets import COPIED, Datasets, identity, is_copied, planned, seed_lock, start_identity
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.images import image_ids
from framework.testbeds.docker.layers import WritableLayers
from framework.testbeds.docker.owner import Owner
from framework.testbeds.docker.running_stack import copied_data
from framework.testbeds.docker.settled import wait_until_settled
from framework.testbeds.docker.volumes import Dataset

STOP_S = 30  # for services that hold data to stop gracefully
COPY_ATTEMPTS = 3  # of data that somebody writes meanwhile: files may go while they are copied


class Deployer(Protocol):
    """The part of the testbed that makes data."""

    def deploy_within(
        self, deployment: Deployment, progress: Progress, timeout_s: float, *, patient: bool = False
    ) -> Running: ...

    def run_hook(self, running: Running, hook: Hook) -> str: ...

    def usage(self, running: Running) -> Usage: ...

    def clean(self, project: str) -> Sequence[str]: ...


class DatasetLoader:
    """Loads the datasets of applications, and makes those that are not kept yet.

    ``loaded``: application -> the data that its deployments restore.  ``unusable``: application -> why the data of its
    first start are not kept, so that its volumes start empty.
    """

    def __init__(self, engine: Engine, home: Path, deployer: Deployer, ready_timeout_s: float) -> None:
        self._engine, self._home, self._deployer, self._timeout_s = engine, home, deployer, ready_timeout_s
        self.datasets = Datasets(engine)
        self._layers = WritableLayers()
        self.loaded: dict[str, Dataset] = {}
        self.unusable: dict[str, str] = {}

    def load(self, application: Application, default: Deployment, want: Wanted, progress: Progress) -> None:
        """Load the data of an application for its deployments.  Raises TrialFailed, InputError."""
        name, source = application.name, application.data_source
        self.loaded.pop(name, None)
        self.unusable.pop(name, None)
        if source is None or source.kind == "empty":
            self._seeded(application, default, want, progress)
        elif want.volumes:
            with seed_lock(self._home, name):
                self._started(application, source, default, want, progress)

    # ------------------------------------------------------------------ by the seed hook

    def _seeded(self, application: Application, default: Deployment, want: Wanted, progress: Progress) -> None:
        """Load what the seed hook makes, on copies of the user's data where there are any."""
        name, hook = application.name, application.hooks.seed
        if hook is None and not want.data:
            return
        data = identity(application, want, image_ids(self._engine, want), default.project)
        with seed_lock(self._home, name):
            kept = self.datasets.find(name, data, want.volumes if hook else want.data)
            if kept is None and want.data:
                progress(f"copying {', '.join(map(str, want.data.values()))}")
                copied = f"{data}{COPIED}" if hook else data
                kept = self.datasets.copy_of(name, copied, want, default.project, want.data)
                if hook is not None:
                    self.loaded[name], kept = kept, None
            if kept is None and hook is not None:
                kept = self._seed(name, default, want, data, hook, progress)
        if kept is not None:
            self.loaded[name] = kept

    def _seed(self, name: str, default: Deployment, want: Wanted, data: str, hook: Hook, progress: Progress) -> Dataset:
        """Deploy, run the seed hook and keep the volumes as a dataset.  Raises TrialFailed."""
        try:
            running = self._deployer.deploy_within(replace(default, fresh="all"), progress, self._timeout_s)
            progress(f"seeding {name}")
            self._deployer.run_hook(running, hook)
            self._stop(running, want)
            progress("keeping the data")
            return self.datasets.keep(name, data, want, default.project)
        finally:
            self._deployer.clean(default.project)

    def _stop(self, running: Running, want: Wanted) -> None:
        """End a deployment and leave its data complete: kill services without data, then stop the others gracefully."""
        owner = Owner.project(running.deployment.project)
        holders = {service for services in want.holders.values() for service in services}
        every = [c for first in running.containers.values() for c in first.replicas]
        self._engine.remove((c.id for c in every if c.service not in holders), owner)
        holding = [c.id for c in every if c.service in holders]
        self._engine.stop(holding, STOP_S, owner)

    # ------------------------------------------------------------------ by the first healthy start

    def _started(
        self, application: Application, source: DatasetSource, default: Deployment, want: Wanted, progress: Progress
    ) -> None:
        """Load what the first healthy start makes; where that cannot be used, and nobody asked for it, say why."""
        name = application.name
        data = start_identity(application, want, image_ids(self._engine, want), default.project)
        kept = self.datasets.find(name, data, want.volumes)
        if kept is None:
            copied = self._copied(name, data, source, default, want, progress)
            try:
                kept = self._first_start(application, source, default, want, data, progress)
            except _Unusable as error:
                self._deployer.clean(default.project)
                self.datasets.discard(name, error.draft)
                if application.dataset is not None:
                    raise error.cause from error
                self.unusable[name] = in_a_line(error.cause)
            finally:
                self._deployer.clean(default.project)
            if copied is not None and kept is not None:
                self.datasets.discard(name, copied)
            kept = kept or copied
        if kept is None:
            self.loaded.pop(name, None)
        else:
            self.loaded[name] = kept
            progress(f"dataset: {kept}")

    def _copied(
        self, name: str, data: str, source: DatasetSource, default: Deployment, want: Wanted, progress: Progress
    ) -> Dataset | None:
        """Copy the user's data that the first start begins with, where there are any."""
        sources = {**want.data, **copied_data(self._engine, source, want.document)}
        if not sources:
            return None
        for attempt in range(1, COPY_ATTEMPTS + 1):
            progress(f"copying {', '.join(dict.fromkeys(map(str, sources.values())))}")
            try:
                copied = self.datasets.copy_of(name, f"{data}{COPIED}", want, default.project, sources)
                break
            except DeploymentFailed:
                if source.kind != "running" or attempt == COPY_ATTEMPTS:
                    raise
        self.loaded[name] = copied
        return copied

    def _first_start(
        self,
        application: Application,
        source: DatasetSource,
        default: Deployment,
        want: Wanted,
        data: str,
        progress: Progress,
    ) -> Dataset:
        """Start the application, keep its volumes, and start it again from them.

        Raises TrialFailed where it does not start, _Unusable where it cannot be started from what was kept.
        """
        name, project = application.name, default.project
        deployment = replace(default, fresh="all")
        progress("the first start")
        try:
            first = self._deployer.deploy_within(deployment, progress, source.timeout_s, patient=True)
        except DeploymentFailed as error:
            if not is_copied(source):
                raise
            where = f"the running stack {source.project}" if source.project else "the directories"
            hint = "; a database that is written while it is copied may be damaged" if source.project else ""
            raise DeploymentFailed(
                f"it does not start on copies of the data of {where}{hint}: {error.reason}", error.service, error.log
            ) from error
        usage = partial(self._deployer.usage, first)
        wait_until_settled(application, first, usage, source.timeout_s, progress)
        if source.prepared and application.hooks.prepare is not None:
            self._deployer.run_hook(first, application.hooks.prepare)
        not_kept = self._layers.written(first, want)
        self._stop(first, want)
        copied, draft = bool(want.data) or is_copied(source), planned(name, data, want.volumes)
        try:
            progress("keeping the data of the first start")
            draft = self.datasets.draft(name, data, want, project, copied=copied)
            self.loaded[name] = draft
            again = self._deployer.deploy_within(deployment, progress, self._timeout_s)
        except TrialFailed as error:
            raise _Unusable(draft, error) from error
        facts = replace(
            draft.facts,
            restored_s=again.phases["restore"],
            method=again.deployment.labels["tailor.restored"],
            first_start_s=_until_ready_s(first),
            start_s=_until_ready_s(again),
            not_kept=not_kept,
        )
        return self.datasets.complete(name, replace(draft, facts=facts), project if copied else "")


def in_a_line(error: TrialFailed) -> str:
    """Return an error with the last line of what the failing container or command said, in one line."""
    first, *log = str(error).splitlines()
    said = [words for line in log if (words := line.strip().removeprefix("|").strip())]
    return f"{first} ({said[-1]})" if said else first


class _Unusable(Exception):
    """The data of a first start cannot be kept, or nothing starts from them."""

    def __init__(self, draft: Dataset, cause: TrialFailed) -> None:
        super().__init__(str(cause))
        self.draft, self.cause = draft, cause


def _until_ready_s(running: Running) -> float:
    return running.phases["start"] + running.phases["healthy"]
