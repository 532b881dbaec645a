"""Seeded data, kept as snapshot volumes under the hash of what determines them, and found again by label.

A snapshot counts only once its marker volume exists, which is made last: a process killed in the middle leaves
something that is recognised as incomplete and made anew.
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
from framework.testbeds.docker.engine import Engine, Read
from framework.testbeds.docker.owner import SEED, Owner
from framework.testbeds.docker.volumes import FROM, Dataset, copy, images_of

COMPLETE = "tailor.complete"
APPLICATION = "tailor.application"
COPY_OF = "tailor.copy-for"  # on copies of the user's data: the project that works on them


def identity(application: Application, wanted: Wanted, image_ids: Mapping[str, str], project: str) -> str:
    """Names the data: the application's files, and the images that write and that hold them.

    Copies of the user's data are one project's: they are as they were when it began.
    """
    involved = {service for services in wanted.holders.values() for service in services}
    if application.hooks.seed is not None:
        involved.add(application.hooks.seed.service)
    parts = [application.content_hash, *(f"{service}={image_ids.get(service, '')}" for service in sorted(involved))]
    if wanted.data:
        parts += [project, *(f"{key}={source}" for key, source in sorted(wanted.data.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


class Datasets:
    """The snapshots that an engine keeps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, application: str, identity: str, keys: Iterable[str]) -> Dataset | None:
        """The complete snapshot of these data, if there is one."""
        if self._engine.volume(_marker(application, identity)) is None:
            return None
        dataset = _dataset(application, identity, keys)
        there = {volume["Name"] for volume in self._engine.volumes(f"{SEED}={identity}")}
        return dataset if set(dataset.snapshots.values()) <= there else None

    def keep(self, application: str, identity: str, wanted: Wanted, project: str) -> Dataset:
        """Copy the working volumes of a stopped deployment into snapshots.  Raises DeploymentFailed."""
        reads = {key: Read("volume", name, f"/from/{key}") for key, name in wanted.volumes.items()}
        images = images_of(wanted, wanted.volumes)
        return self._kept(application, identity, wanted, project, reads, images)

    def copy_of(self, application: str, identity: str, wanted: Wanted, project: str) -> Dataset:
        """Copy the user's directories and volumes, which are only read.  Raises DeploymentFailed."""
        reads = {
            key: Read("bind", source.path, f"/from/{key}")
            if source.path
            else Read("volume", source.volume, f"/from/{key}")
            for key, source in wanted.data.items()
        }
        for source in wanted.data.values():
            if source.volume and self._engine.volume(source.volume) is None:  # the engine would make an empty one
                raise DeploymentFailed(f"there is no volume {source.volume} to copy")
        images = list(dict.fromkeys([*images_of(wanted, wanted.data), *wanted.images.values()]))
        return self._kept(application, identity, wanted, project, reads, images)

    def _kept(
        self,
        application: str,
        identity: str,
        wanted: Wanted,
        project: str,
        reads: Mapping[str, Read],
        images: Sequence[str],
    ) -> Dataset:
        dataset, owner = _dataset(application, identity, reads), Owner.data(identity)
        labels = {APPLICATION: application, **({COPY_OF: project} if wanted.data else {})}
        marker = _marker(application, identity)
        in_parallel(lambda name: self._engine.remove_volume(name, owner), [marker, *dataset.snapshots.values()])
        for name in dataset.snapshots.values():
            self._engine.create_volume(name, owner, labels)
        copy(self._engine, Owner.project(project), reads, dataset.snapshots, images, kept=owner)
        self._engine.create_volume(marker, owner, {**labels, COMPLETE: "true"})
        return dataset

    def remove(self, application: str | None = None, copy_for: str | None = None) -> Sequence[str]:
        """Remove snapshots that no working volume lies over; returns their names.

        Of one application, or all; ``copy_for``: only copies of the user's data that this project works on.
        """
        used = {_labels(volume).get(FROM) for volume in self._engine.volumes(FROM)}
        there = self._engine.volumes(SEED)
        in_use = {_labels(volume).get(SEED) for volume in there if volume["Name"] in used}
        going = [
            volume
            for volume in there
            if _labels(volume).get(SEED) not in in_use
            and application in (None, _labels(volume).get(APPLICATION))
            and copy_for in (None, _labels(volume).get(COPY_OF))
        ]
        going.sort(key=lambda volume: COMPLETE not in _labels(volume))  # half a snapshot must not look whole
        for volume in going:
            self._engine.remove_volume(volume["Name"], Owner.data(str(_labels(volume)[SEED])))
        return [str(volume["Name"]) for volume in going]


def _labels(volume: Mapping[str, Any]) -> Mapping[str, str]:
    return volume.get("Labels") or {}


@contextmanager
def only_one(home: Path, application: str) -> Iterator[None]:
    """Two studies that need the same data make them one after the other.  Raises DeploymentFailed."""
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
