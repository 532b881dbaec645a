"""Datasets, kept as snapshot volumes; a label identifies one by the hash of its inputs.

A snapshot is complete when its marker volume exists, which is made last.  A process killed before leaves an incomplete
snapshot, which is recognised and made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from framework.errors import DeploymentFailed
from framework.model import Application
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine, ReadOnly
from framework.testbeds.docker.owner import SEED, Owner
from framework.testbeds.docker.volumes import FROM, Dataset, copy, images_of

COMPLETE = "tailor.complete"
APPLICATION = "tailor.application"
COPY_OF = "tailor.copy-for"  # on copies of the user's data: the project that works on them


def identity(application: Application, wanted: Wanted, image_ids: Mapping[str, str], project: str) -> str:
    """Return the hash that identifies a dataset: of the application's files and the images that write or hold the data.

    Copies of the user's data belong to one project, so its name and their sources are hashed too.
    """
    involved = {service for services in wanted.holders.values() for service in services}
    if application.hooks.seed is not None:
        involved.add(application.hooks.seed.service)
    parts = [application.content_hash, *(f"{service}={image_ids.get(service, '')}" for service in sorted(involved))]
    if wanted.data:
        parts += [project, *(f"{key}={source}" for key, source in sorted(wanted.data.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


class Datasets:
    """Snapshots that an engine keeps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, application: str, identity: str, keys: Iterable[str]) -> Dataset | None:
        """Return the snapshot of these volume keys; None where there is none or it is incomplete."""
        if self._engine.volume(_marker(application, identity)) is None:
            return None
        dataset = _dataset(application, identity, keys)
        names = {volume["Name"] for volume in self._engine.volumes(f"{SEED}={identity}")}
        return dataset if set(dataset.snapshots.values()) <= names else None

    def keep(self, application: str, identity: str, wanted: Wanted, project: str) -> Dataset:
        """Copy the working volumes of a stopped deployment into snapshots.  Raises DeploymentFailed."""
        sources = {key: ReadOnly("volume", name, f"/from/{key}") for key, name in wanted.volumes.items()}
        images = images_of(wanted, wanted.volumes)
        return self._snapshot(application, identity, wanted, project, sources, images)

    def copy_of(self, application: str, identity: str, wanted: Wanted, project: str) -> Dataset:
        """Copy the user's directories and volumes, which are only read, into snapshots.  Raises DeploymentFailed."""
        sources = {
            key: ReadOnly("bind", source.path, f"/from/{key}")
            if source.path
            else ReadOnly("volume", source.volume, f"/from/{key}")
            for key, source in wanted.data.items()
        }
        for source in wanted.data.values():
            if source.volume and self._engine.volume(source.volume) is None:  # the engine would make an empty one
                raise DeploymentFailed(f"there is no volume {source.volume} to copy")
        images = list(dict.fromkeys([*images_of(wanted, wanted.data), *wanted.images.values()]))
        return self._snapshot(application, identity, wanted, project, sources, images)

    def _snapshot(
        self,
        application: str,
        identity: str,
        wanted: Wanted,
        project: str,
        sources: Mapping[str, ReadOnly],
        images: Sequence[str],
    ) -> Dataset:
        dataset, owner = _dataset(application, identity, sources), Owner.data(identity)
        labels = {APPLICATION: application, **({COPY_OF: project} if wanted.data else {})}
        marker = _marker(application, identity)
        in_parallel(lambda name: self._engine.remove_volume(name, owner), [marker, *dataset.snapshots.values()])
        for name in dataset.snapshots.values():
            self._engine.create_volume(name, owner, labels)
        copy(self._engine, Owner.project(project), sources, dataset.snapshots, images, kept=owner)
        self._engine.create_volume(marker, owner, {**labels, COMPLETE: "true"})
        return dataset

    def remove(self, application: str | None = None, copy_for: str | None = None) -> Sequence[str]:
        """Remove snapshots over which no working volume lies; returns their names.

        ``application``: only its snapshots; None: all.  ``copy_for``: only copies of the user's data for this project.
        """
        used = {_labels(volume).get(FROM) for volume in self._engine.volumes(FROM)}
        volumes = self._engine.volumes(SEED)
        in_use = {_labels(volume).get(SEED) for volume in volumes if volume["Name"] in used}
        unused = [
            volume
            for volume in volumes
            if _labels(volume).get(SEED) not in in_use
            and application in (None, _labels(volume).get(APPLICATION))
            and copy_for in (None, _labels(volume).get(COPY_OF))
        ]
        unused.sort(key=lambda volume: COMPLETE not in _labels(volume))  # the marker goes first
        for volume in unused:
            self._engine.remove_volume(volume["Name"], Owner.data(str(_labels(volume)[SEED])))
        return [str(volume["Name"]) for volume in unused]


def _labels(volume: Mapping[str, Any]) -> Mapping[str, str]:
    return volume.get("Labels") or {}


@contextmanager
def seed_lock(home: Path, application: str) -> Iterator[None]:
    """Hold the lock under which an application's dataset is made: one study at a time.  Raises DeploymentFailed."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / f"seed-{application}.lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise DeploymentFailed(f"cannot write {error.filename}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _marker(application: str, identity: str) -> str:
    return f"tailor-seed-{application}-{identity}"


def _dataset(application: str, identity: str, keys: Iterable[str]) -> Dataset:
    marker = _marker(application, identity)
    return Dataset(identity, {key: f"{marker}-{key}" for key in keys})
