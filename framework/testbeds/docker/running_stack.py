"""Data of the user's that a first start begins with: volumes of a stack that runs, or directories.

A stack is only looked at: the engine tells what its containers mount, and copies are made through read-only mounts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from framework.compose.checking import Copied
from framework.errors import DeploymentFailed, InputError
from framework.model import DatasetSource
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.named_volumes import mounted_at, names_of

PROJECT, VOLUME = "com.docker.compose.project", "com.docker.compose.volume"
NUMBER = "com.docker.compose.container-number"


def copied_data(engine: Engine, source: DatasetSource, document: Mapping[str, Any]) -> dict[str, Copied]:
    """Return key of a volume -> the running stack's volume, or the directory, that is copied into it.

    ``document``: with a name for every volume.  Raises InputError for a name that no volume has, DeploymentFailed where
    the stack has no such volume.
    """
    places = mounted_at(document)
    by_name = {name: key for key, mounts in places.items() for name in names_of(key, mounts)}
    for name in (*source.volumes, *source.directories):
        if name not in by_name:
            raise InputError(f"dataset: found {name!r}; allowed: the volumes {', '.join(sorted(by_name)) or '(none)'}")
    if source.kind == "directory":
        return {by_name[name]: Copied(path=str(path)) for name, path in source.directories.items()}
    if source.kind != "running":
        return {}
    mounted = _mounted_by(engine, source.project)
    named = {(v.get("Labels") or {}).get(VOLUME): str(v["Name"]) for v in engine.volumes(f"{PROJECT}={source.project}")}
    wanted = list(dict.fromkeys(by_name[name] for name in source.volumes)) or [key for key in places if places[key]]
    copied: dict[str, Copied] = {}
    for key in wanted:
        data = next((mounted[place] for place in places[key] if place in mounted), None)
        if data is None and key in named:
            data = Copied(volume=named[key])
        if data is None:
            raise DeploymentFailed(
                f"the running stack {source.project} has no volume for {names_of(key, places[key])[0]}; name those "
                f"that it has in dataset.volumes, of {', '.join(sorted(by_name))}"
            )
        copied[key] = data
    return copied


def _mounted_by(engine: Engine, project: str) -> dict[tuple[str, str], Copied]:
    """Return (service, path) -> what the containers of a compose project mount there.  Raises DeploymentFailed."""
    containers = [container for container in engine.containers(f"{PROJECT}={project}") if container.service]
    if not containers:
        raise DeploymentFailed(
            f"no container of the compose project {project} is here; `docker compose ls -a` has them"
        )
    mounted: dict[tuple[str, str], Copied] = {}
    for container in sorted(containers, key=lambda c: int(c.labels.get(NUMBER) or 1)):
        for mount in (engine.inspect(container.id) or {}).get("Mounts") or []:
            place = container.service, posixpath.normpath(str(mount["Destination"]))
            if mount["Type"] == "volume":
                mounted.setdefault(place, Copied(volume=str(mount["Name"])))
            elif mount["Type"] == "bind":
                mounted.setdefault(place, Copied(path=str(mount["Source"])))
    return mounted
