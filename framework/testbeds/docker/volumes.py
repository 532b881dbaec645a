"""The data of a deployment: working volumes that are thrown away, and what they are filled from.

A working volume is either an overlay over its snapshot (nothing is copied: the engine mounts a fresh upper directory
over the kept data) or a copy of it.  Overlays are tried first; an engine that cannot mount them gets copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from framework.errors import DeploymentFailed
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine, Read
from framework.testbeds.docker.owner import Owner

FROM = "tailor.from"  # on a working volume: the snapshot that it lies over
Method = Literal["overlay", "copy", "empty"]

# $1...: keys.  Copies run side by side; the first that fails fails the whole.
COPY = """
set -e; processes=
for key in "$@"; do cp -a "/from/$key/." "/to/$key/" & processes="$processes $!"; done
for process in $processes; do wait "$process"; done
"""
# The mounted directory has the owner and mode of the upper one, so these come from the snapshot.
FRESH_UPPER = """
set -e
rm -rf /layers/*
for key in "$@"; do
  mkdir -p "/layers/$key/upper" "/layers/$key/work"
  chown --reference="/from/$key" "/layers/$key/upper"
  chmod --reference="/from/$key" "/layers/$key/upper"
done
"""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Kept data of an application: volume key -> snapshot volume."""

    identity: str
    snapshots: Mapping[str, str]


class WorkingVolumes:
    """Makes the named volumes of a project hold what a repetition starts from."""

    def __init__(self, engine: Engine, overlays: bool = True) -> None:
        self._engine = engine
        self._overlays = overlays
        self._proved = False  # this engine has mounted an overlay

    def reset(self, project: str, wanted: Wanted, dataset: Dataset | None, keep: bool = False) -> Method:
        """Empty, or holding the dataset; with ``keep`` only what is missing is made.  No container may use the volumes.

        Returns how the data came there.  Raises DeploymentFailed.
        """
        names, owner = wanted.volumes, Owner.project(project)
        if keep:
            names = {key: name for key, name in names.items() if self._engine.volume(name) is None}
        if not names:
            return "empty"
        filled = {key: dataset.snapshots[key] for key in names if dataset and key in dataset.snapshots}
        self._remove([names[key] for key in names if key not in filled], owner)
        self._create({key: name for key, name in names.items() if key not in filled}, owner, wanted)
        if not filled:
            return "empty"
        images = images_of(wanted, filled)
        if self._overlays and not keep:
            try:
                self._overlay(owner, wanted, filled, images)
                return "overlay"
            except DeploymentFailed:
                self._overlays = False
        self._remove([names[key] for key in filled], owner)
        self._create({key: names[key] for key in filled}, owner, wanted)
        reads = {key: Read("volume", snapshot, f"/from/{key}") for key, snapshot in filled.items()}
        copy(self._engine, owner, reads, {key: names[key] for key in filled}, images)
        return "copy"

    def _remove(self, names: Iterable[str], owner: Owner) -> None:
        in_parallel(lambda name: self._engine.remove_volume(name, owner), names)

    def _create(self, names: Mapping[str, str], owner: Owner, wanted: Wanted) -> None:
        for key, name in names.items():
            self._engine.create_volume(name, owner, {**wanted.labels, **_compose(owner.value, key)})

    def _overlay(self, owner: Owner, wanted: Wanted, filled: Mapping[str, str], images: Sequence[str]) -> None:
        """Fresh upper directories over the snapshots.  Raises DeploymentFailed where the engine cannot do that."""
        layers = f"{owner.value}_tailor-layers"
        self._engine.create_volume(layers, owner, wanted.labels)
        reads = [Read("volume", name, f"/from/{key}") for key, name in filled.items()]
        command = ["sh", "-c", FRESH_UPPER, "sh", *filled]
        run_with_any(self._engine, owner, images, command, {layers: "/layers"}, reads)
        root = _mountpoint(self._engine, layers)
        for key, snapshot in filled.items():
            name = wanted.volumes[key]
            upper = f"upperdir={root}/{key}/upper,workdir={root}/{key}/work"
            options = {
                "type": "overlay",
                "device": "overlay",
                "o": f"lowerdir={_mountpoint(self._engine, snapshot)},{upper}",
            }
            there = self._engine.volume(name)
            if there is not None and (there.get("Options") or {}) != options:
                self._engine.remove_volume(name, owner)
            labels = {**wanted.labels, **_compose(owner.value, key), FROM: snapshot}
            self._engine.create_volume(name, owner, labels, options)
        if not self._proved:  # the engine mounts at first use only
            mounts = {wanted.volumes[key]: f"/there/{key}" for key in filled}
            run_with_any(self._engine, owner, images, ["sh", "-c", "touch /there/*/."], mounts)
            self._proved = True


def copy(
    engine: Engine,
    owner: Owner,
    reads: Mapping[str, Read],
    targets: Mapping[str, str],
    images: Sequence[str],
    *,
    kept: Owner | None = None,
) -> None:
    """Copy data into volumes, key by key, with owners, modes and times; ``reads`` lie below /from in the container.

    ``owner``: whose container does it.  ``kept``: the volumes are this other owner's, and are kept: it is waited until
    the disk has them.  Raises DeploymentFailed.
    """
    if not reads:
        return
    volumes = {name: f"/to/{key}" for key, name in targets.items()}
    command = ["sh", "-c", COPY + ("sync\n" if kept else ""), "sh", *reads]
    labels = kept.marked({}) if kept else {}
    run_with_any(engine, owner, images, command, volumes, list(reads.values()), labels)


def run_with_any(
    engine: Engine,
    owner: Owner,
    images: Sequence[str],
    command: Sequence[str],
    volumes: Mapping[str, str],
    reads: Sequence[Read] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run a shell command in the first image that has a shell.  Raises DeploymentFailed when none has."""
    for image in images:
        try:
            engine.run(image, command, owner, volumes, reads, labels)
            return
        except DeploymentFailed as error:
            if not any(text in error.reason for text in ("executable file not found", "no such file or directory")):
                raise
    raise DeploymentFailed(f"none of the images that hold data has a shell to copy it with: {', '.join(images)}")


def images_of(wanted: Wanted, keys: Iterable[str]) -> list[str]:
    """The images of the services that mount these volumes, each once, in a stable order."""
    return list(dict.fromkeys(wanted.images[service] for key in keys for service in wanted.holders[key]))


def _mountpoint(engine: Engine, volume: str) -> str:
    found = engine.volume(volume)
    if found is None:
        raise DeploymentFailed(f"volume {volume} is gone")
    return str(found["Mountpoint"])


def _compose(project: str, key: str) -> dict[str, str]:
    return {"com.docker.compose.project": project, "com.docker.compose.volume": key}
