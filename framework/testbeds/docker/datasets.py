"""Datasets, kept as snapshot volumes; a label identifies one by the hash of its inputs.

A snapshot is complete when its marker volume exists, which is made last.  A process killed before leaves an incomplete
snapshot, which is recognised and made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from framework.compose.checking import Copied
from framework.config.content import files_digest, mounted_files
from framework.errors import DeploymentFailed
from framework.model import Application, DatasetSource
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine, ReadOnly
from framework.testbeds.docker.owner import SEED, Owner
from framework.testbeds.docker.volumes import FROM, Dataset, DatasetFacts, copy, images_of, size_of

COMPLETE = "tailor.complete"
APPLICATION = "tailor.application"
COPIED = "-copied"  # ends the identity of what a first start or a seed hook begins with
FACTS = "tailor.facts"  # on the marker: the facts of the dataset, as JSON
COPY_OF = "tailor.copy-for"  # on copies of the user's data: the project that works on them


def identity(application: Application, wanted: Wanted, image_ids: Mapping[str, str], project: str) -> str:
    """Return the hash that identifies seeded or copied data.

    It is of the application's files and the images that write or hold the data.  Copies of the user's data belong to
    one project, so its name and their sources are hashed too.
    """
    involved = {service for services in wanted.holders.values() for service in services}
    if application.hooks.seed is not None:
        involved.add(application.hooks.seed.service)
    parts = [application.content_hash, *(f"{service}={image_ids.get(service, '')}" for service in sorted(involved))]
    if wanted.data:
        parts += [project, *(f"{key}={source}" for key, source in sorted(wanted.data.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def start_identity(application: Application, want: Wanted, image_ids: Mapping[str, str], project: str) -> str:
    """Return the hash that identifies the data of a first start: of all services with their images and files.

    The workload and the objective do not count.  Copies of the user's data belong to one project, which is hashed too.
    """
    source = application.data_source or DatasetSource()
    parts = [f"{name}={definition}={image_ids.get(name, '')}" for name, definition in sorted(want.definitions.items())]
    files = {*mounted_files(want.document, Path("/")), *want.files.values()}
    parts.append(files_digest(sorted(files)))
    if source.prepared and application.hooks.prepare is not None:
        parts.append(f"prepared by {application.hooks.prepare.service} {application.hooks.prepare.command}")
    if want.data or is_copied(source):
        parts += [project, repr(source), *(f"{key}={data}" for key, data in sorted(want.data.items()))]
    return hashlib.sha256("\n".join(["first start", *parts]).encode()).hexdigest()[:12]


def is_copied(source: DatasetSource) -> bool:
    """Return whether data of the user's are copied before the first start."""
    return source.kind in ("running", "directory")


class Datasets:
    """Snapshots that an engine keeps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, application: str, identity: str, keys: Iterable[str]) -> Dataset | None:
        """Return the snapshot of these volume keys; None where there is none or it is incomplete."""
        marker = self._engine.volume(_marker(application, identity))
        if marker is None:
            return None
        dataset = replace(planned(application, identity, keys), facts=_facts(_labels(marker)))
        names = {volume["Name"] for volume in self._engine.volumes(f"{SEED}={identity}")}
        return dataset if set(dataset.snapshots.values()) <= names else None

    def newest(self, application: str) -> Dataset | None:
        """Return the snapshot of an application that was completed last; None where there is none."""
        volumes = [volume for volume in self._engine.volumes(SEED) if _labels(volume).get(APPLICATION) == application]
        complete = [volume for volume in volumes if COMPLETE in _labels(volume)]
        markers = [volume for volume in complete if not _labels(volume)[SEED].endswith(COPIED)]
        if not markers:
            return None
        labels = _labels(max(markers, key=lambda volume: str(volume.get("CreatedAt", ""))))
        own = [str(volume["Name"]) for volume in volumes if _labels(volume).get(SEED) == labels[SEED]]
        start = f"{_marker(application, labels[SEED])}-"
        snapshots = {name.removeprefix(start): name for name in sorted(own) if name.startswith(start)}
        return Dataset(labels[SEED], snapshots, _facts(labels))

    def keep(self, application: str, identity: str, wanted: Wanted, project: str) -> Dataset:
        """Copy the working volumes of a stopped deployment into snapshots.  Raises DeploymentFailed."""
        draft = self.draft(application, identity, wanted, project, copied=bool(wanted.data))
        return self.complete(application, draft, project if wanted.data else "")

    def draft(self, application: str, identity: str, wanted: Wanted, project: str, *, copied: bool) -> Dataset:
        """Copy the working volumes of a stopped deployment into snapshots that are not complete yet.

        ``copied``: the user's data are in them, so that they go with the project.  Raises DeploymentFailed.
        """
        sources = {key: ReadOnly("volume", name, f"/from/{key}") for key, name in wanted.volumes.items()}
        images = images_of(wanted, wanted.volumes)
        return self._snapshot(application, identity, project, sources, images, copied=copied)

    def copy_of(
        self, application: str, identity: str, wanted: Wanted, project: str, data: Mapping[str, Copied]
    ) -> Dataset:
        """Copy the user's directories and volumes, which are only read, into snapshots.  Raises DeploymentFailed."""
        sources = {
            key: ReadOnly("bind", source.path, f"/from/{key}")
            if source.path
            else ReadOnly("volume", source.volume, f"/from/{key}")
            for key, source in data.items()
        }
        for source in data.values():
            if source.volume and self._engine.volume(source.volume) is None:  # the engine would make an empty one
                raise DeploymentFailed(f"there is no volume {source.volume} to copy")
        images = images_of(wanted, data)
        draft = self._snapshot(application, identity, project, sources, images, copied=True)
        return self.complete(application, draft, project)

    def _snapshot(
        self,
        application: str,
        identity: str,
        project: str,
        sources: Mapping[str, ReadOnly],
        images: Sequence[str],
        *,
        copied: bool,
    ) -> Dataset:
        dataset, owner = planned(application, identity, sources), Owner.data(identity)
        labels = {APPLICATION: application, **({COPY_OF: project} if copied else {})}
        self.discard(application, dataset)
        for name in dataset.snapshots.values():
            self._engine.create_volume(name, owner, labels)
        reader = Owner.project(project)
        kib = size_of(self._engine, reader, sources, dataset.snapshots, images)
        copy(self._engine, reader, sources, dataset.snapshots, images, kept=owner)
        return replace(dataset, facts=DatasetFacts(kib))

    def complete(self, application: str, dataset: Dataset, copied_for: str) -> Dataset:
        """Mark a snapshot as complete, with its facts.

        ``copied_for``: the project that data of the user's in it were copied for; empty where there are none.
        """
        labels = {APPLICATION: application, COMPLETE: "true", FACTS: json.dumps(asdict(dataset.facts))}
        self._engine.create_volume(
            _marker(application, dataset.identity),
            Owner.data(dataset.identity),
            {**labels, **({COPY_OF: copied_for} if copied_for else {})},
        )
        return dataset

    def discard(self, application: str, dataset: Dataset) -> None:
        """Remove a snapshot over which no working volume lies, its marker first."""
        owner = Owner.data(dataset.identity)
        self._engine.remove_volume(_marker(application, dataset.identity), owner)
        in_parallel(lambda name: self._engine.remove_volume(name, owner), dataset.snapshots.values())

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


def _facts(labels: Mapping[str, str]) -> DatasetFacts:
    """Return the facts on a marker; those of earlier versions have none."""
    known = {field.name for field in fields(DatasetFacts)}
    facts = {name: value for name, value in json.loads(labels.get(FACTS) or "{}").items() if name in known}
    return DatasetFacts(**{**facts, "not_kept": tuple(facts.get("not_kept", ()))})


def _marker(application: str, identity: str) -> str:
    return f"tailor-seed-{application}-{identity}"


def planned(application: str, identity: str, keys: Iterable[str]) -> Dataset:
    """Return a dataset of these volume keys, whether it is kept or not."""
    marker = _marker(application, identity)
    return Dataset(identity, {key: f"{marker}-{key}" for key in keys})
