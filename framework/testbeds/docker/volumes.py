"""Working volumes of a deployment, which are thrown away after it, and the snapshots that they start from.

A working volume is either an overlay over its snapshot (nothing is copied: the engine mounts a fresh upper directory
over the snapshot) or a copy of it.  Overlays are tried first; an engine that cannot mount them gets copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from framework.errors import DeploymentFailed
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine, ReadOnly
from framework.testbeds.docker.owner import Owner

FROM = "tailor.from"  # label of a working volume: the snapshot that it lies over
Method = Literal["overlay", "copy", "empty"]

# $1...: keys.  Copies run in parallel; when one fails, the command fails.
COPY = """
set -e; processes=
for key in "$@"; do cp -a "/from/$key/." "/to/$key/" & processes="$processes $!"; done
for process in $processes; do wait "$process"; done
"""
# A mounted overlay takes owner and mode from its upper directory, so that gets those of the snapshot.
FRESH_UPPER = """
set -e
rm -rf /layers/*
for key in "$@"; do
  mkdir -p "/layers/$key/upper" "/layers/$key/work"
  chown --reference="/from/$key" "/layers/$key/upper"
  chmod --reference="/from/$key" "/layers/$key/upper"
done
"""


# $1...: keys.  Prints the KiB of the data, and the KiB that are free where they go; 0 where a tool is missing.
MEASURE = """
need=0
for key in "$@"; do kib=$(du -sk "/from/$key" 2>/dev/null); kib=${kib%%[!0-9]*}; need=$((need + ${kib:-0})); done
free=$(df -Pk "/to/$1" 2>/dev/null | tail -n 1 | { read -r device size used free rest; echo "$free"; })
echo "$need ${free:-0}"
"""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Facts of a dataset, as measured when it was made; None and empty where they were not.

    ``kib``: size.  ``restored_s``, ``method``: how long one restoration took [s], and how it was done.
    ``first_start_s``, ``start_s``: from the start of the containers until all were ready [s], the first time and from
    the kept data.  ``not_kept``: "SERVICE:PATH" of what services wrote outside of their volumes.
    """

    kib: int | None = None
    restored_s: float | None = None
    method: str = ""
    first_start_s: float | None = None
    start_s: float | None = None
    not_kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """Kept data of an application.  ``snapshots``: volume key -> snapshot volume."""

    identity: str
    snapshots: Mapping[str, str]
    facts: DatasetFacts = DatasetFacts()

    def __str__(self) -> str:
        count = len(self.snapshots)
        size = "" if self.facts.kib is None else f"{_size(self.facts.kib)} in "
        text = f"{size}{count} volume{'s'[: count != 1]}"
        if self.facts.restored_s is not None:
            text += f", restored in {self.facts.restored_s:.1f} s ({self.facts.method})"
        if self.facts.first_start_s is not None and self.facts.start_s is not None:
            text += f"; ready after {self.facts.start_s:.1f} s instead of {self.facts.first_start_s:.1f} s"
        return text


class WorkingVolumes:
    """Named volumes of a project, reset to the data that a repetition starts from."""

    def __init__(self, engine: Engine, overlays: bool = True) -> None:
        self._engine = engine
        self._overlays = overlays
        self._proved = False  # True: this engine has mounted an overlay

    def reset(self, project: str, wanted: Wanted, dataset: Dataset | None, keep: bool = False) -> Method:
        """Make the volumes hold the dataset, or nothing; with ``keep`` make only those that are missing.

        No container may use the volumes.  Returns how the data came there.  Raises DeploymentFailed.
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
        sources = {key: ReadOnly("volume", snapshot, f"/from/{key}") for key, snapshot in filled.items()}
        copy(self._engine, owner, sources, {key: names[key] for key in filled}, images)
        return "copy"

    def _remove(self, names: Iterable[str], owner: Owner) -> None:
        in_parallel(lambda name: self._engine.remove_volume(name, owner), names)

    def _create(self, names: Mapping[str, str], owner: Owner, wanted: Wanted) -> None:
        for key, name in names.items():
            self._engine.create_volume(name, owner, {**wanted.labels, **_compose(owner.value, key)})

    def _overlay(self, owner: Owner, wanted: Wanted, filled: Mapping[str, str], images: Sequence[str]) -> None:
        """Lay fresh upper directories over the snapshots.  Raises DeploymentFailed where the engine cannot do that."""
        layers = f"{owner.value}_tailor-layers"
        self._engine.create_volume(layers, owner, wanted.labels)
        snapshots = [ReadOnly("volume", name, f"/from/{key}") for key, name in filled.items()]
        command = ["sh", "-c", FRESH_UPPER, "sh", *filled]
        run_with_any(self._engine, owner, images, command, {layers: "/layers"}, snapshots)
        root = _mountpoint(self._engine, layers)
        for key, snapshot in filled.items():
            name = wanted.volumes[key]
            upper = f"upperdir={root}/{key}/upper,workdir={root}/{key}/work"
            options = {
                "type": "overlay",
                "device": "overlay",
                "o": f"lowerdir={_mountpoint(self._engine, snapshot)},{upper}",
            }
            existing = self._engine.volume(name)
            if existing is not None and (existing.get("Options") or {}) != options:
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
    sources: Mapping[str, ReadOnly],
    targets: Mapping[str, str],
    images: Sequence[str],
    *,
    kept: Owner | None = None,
) -> None:
    """Copy data into volumes, key by key, with owners, modes and times; ``sources`` lie below /from in the container.

    ``owner``: of the container that copies.  ``kept``: owner of the volumes where they are snapshots; these are synced
    to disk.  Raises DeploymentFailed.
    """
    if not sources:
        return
    volumes = {name: f"/to/{key}" for key, name in targets.items()}
    command = ["sh", "-c", COPY + ("sync\n" if kept else ""), "sh", *sources]
    labels = kept.marked({}) if kept else {}
    run_with_any(engine, owner, images, command, volumes, list(sources.values()), labels)


def size_of(
    engine: Engine, owner: Owner, sources: Mapping[str, ReadOnly], targets: Mapping[str, str], images: Sequence[str]
) -> int:
    """Return the KiB of data before they are copied.  Raises DeploymentFailed where there is no room for them."""
    volumes = {name: f"/to/{key}" for key, name in targets.items()}
    command = ["sh", "-c", MEASURE, "sh", *sources]
    needed, free = run_with_any(engine, owner, images, command, volumes, list(sources.values())).split()
    if int(free) and int(needed) > int(free):
        raise DeploymentFailed(
            f"the data are {_size(int(needed))}, and {_size(int(free))} are free where the engine keeps volumes; "
            "make room, or name fewer of them in dataset.volumes"
        )
    return int(needed)


def _size(kib: int) -> str:
    """Return an amount with its unit."""
    for unit, amount in (("GiB", kib / 2**20), ("MiB", kib / 2**10)):
        if amount >= 1:
            return f"{amount:.{0 if amount >= 10 else 1}f} {unit}"
    return f"{kib} KiB"


def run_with_any(
    engine: Engine,
    owner: Owner,
    images: Sequence[str],
    command: Sequence[str],
    volumes: Mapping[str, str],
    read_only: Sequence[ReadOnly] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run a shell command in the first image that has a shell; returns its output.

    Raises DeploymentFailed when none has, or it fails.
    """
    for image in images:
        try:
            return engine.run(image, command, owner, volumes, read_only, labels)
        except DeploymentFailed as error:
            if not any(text in error.reason for text in ("executable file not found", "no such file or directory")):
                raise
    raise DeploymentFailed(f"none of the application's images has a shell to copy data with: {', '.join(images)}")


def images_of(wanted: Wanted, keys: Iterable[str]) -> list[str]:
    """Return the images to copy these volumes with, each once: of the services that mount them, then of all others.

    The others are for images that have no shell, as those of one static program.
    """
    holders = [wanted.images[service] for key in keys for service in wanted.holders[key]]
    return list(dict.fromkeys([*holders, *wanted.images.values()]))


def _mountpoint(engine: Engine, volume: str) -> str:
    about = engine.volume(volume)
    if about is None:
        raise DeploymentFailed(f"volume {volume} is gone")
    return str(about["Mountpoint"])


def _compose(project: str, key: str) -> dict[str, str]:
    return {"com.docker.compose.project": project, "com.docker.compose.volume": key}
