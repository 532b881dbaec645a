"""Seeded data, kept as snapshot volumes under the hash of what determines them, and found again by label.

A snapshot counts only once its marker volume exists, which is made last: a process killed in the middle leaves
something that is recognised as incomplete and made anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from framework.errors import DeploymentFailed
from framework.model import Application
from framework.testbeds.document import Wanted
from framework.testbeds.engine import Engine, in_parallel
from framework.testbeds.volumes import FROM, Seed, copy, images_of

SEED = "tailor.seed"
COMPLETE = "tailor.complete"
APPLICATION = "tailor.application"


def identity(application: Application, wanted: Wanted, image_ids: Mapping[str, str]) -> str:
    """Names the data: the application's files, and the images that write and that hold them."""
    involved = {service for services in wanted.holders.values() for service in services}
    if application.hooks.seed is not None:
        involved.add(application.hooks.seed.service)
    parts = [application.content_hash, *(f"{service}={image_ids.get(service, '')}" for service in sorted(involved))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


class Seeds:
    """The snapshots that an engine keeps."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, application: str, identity: str, wanted: Wanted) -> Seed | None:
        """The complete snapshot of these data, if there is one."""
        if self._engine.volume(_marker(application, identity)) is None:
            return None
        seed = _seed(application, identity, wanted)
        there = {volume["Name"] for volume in self._engine.volumes(f"{SEED}={identity}")}
        return seed if set(seed.snapshots.values()) <= there else None

    def keep(self, application: str, identity: str, wanted: Wanted) -> Seed:
        """Copy the working volumes of a stopped deployment into snapshots.  Raises DeploymentFailed."""
        seed = _seed(application, identity, wanted)
        labels = {SEED: identity, APPLICATION: application}
        in_parallel(self._engine.remove_volume, [_marker(application, identity), *seed.snapshots.values()])
        for name in seed.snapshots.values():
            self._engine.create_volume(name, labels)
        copy(
            self._engine, wanted.volumes, seed.snapshots, images_of(wanted, wanted.volumes), wanted.labels, durable=True
        )
        self._engine.create_volume(_marker(application, identity), {**labels, COMPLETE: "true"})
        return seed

    def remove(self, application: str | None = None) -> Sequence[str]:
        """Remove snapshots (of one application, or all) that no working volume lies over; returns their names."""
        used = {_labels(volume).get(FROM) for volume in self._engine.volumes(FROM)}
        there = self._engine.volumes(SEED)
        in_use = {_labels(volume).get(SEED) for volume in there if volume["Name"] in used}
        going = [
            volume
            for volume in there
            if _labels(volume).get(SEED) not in in_use and application in (None, _labels(volume).get(APPLICATION))
        ]
        going.sort(key=lambda volume: COMPLETE not in _labels(volume))  # half a snapshot must not look whole
        for volume in going:
            self._engine.remove_volume(volume["Name"])
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


def _seed(application: str, identity: str, wanted: Wanted) -> Seed:
    marker = _marker(application, identity)
    return Seed(identity, {key: f"{marker}-{key}" for key in wanted.volumes})
