"""Names for volumes that have none, so that they are kept and restored like the others.

Compose makes a new volume for each container where a file gives a path only, and the engine does where an image
declares one.  Both would start empty in every repetition, whatever the first start wrote to them.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework.testbeds.docker.document import replicas_of
from framework.testbeds.docker.engine import Engine

# Directories of files that belong to one run of a process: sockets, locks, process ids.
TEMPORARY = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm")


def with_named_volumes(document: Mapping[str, Any], declared: Callable[[str], Sequence[str]]) -> Mapping[str, Any]:
    """Give every volume without a name one of its own; a document of the gate's, with all mounts in their long form.

    ``declared``: image -> the paths that it declares as volumes.  Services with several replicas keep theirs without
    a name, since these are not shared; so do one-shots behind a profile, and services with another one's volumes.
    """
    volumes: dict[str, Any] = dict(document.get("volumes") or {})
    services: dict[str, Any] = {}
    for name, body in document["services"].items():
        services[name] = body
        if body.get("profiles") or body.get("volumes_from") or replicas_of(body) != 1:
            continue
        mounts = [dict(mount) for mount in body.get("volumes") or []]
        targets = {_plain(str(mount["target"])) for mount in mounts} | set(_memory(body))
        for path in declared(str(body.get("image") or "")):
            if _plain(path) not in targets and not _is_temporary(path):
                mounts.append({"type": "volume", "target": path})
        for mount in mounts:
            if mount["type"] == "volume" and not mount.get("source"):
                mount["source"] = _key(name, str(mount["target"]))
                volumes[mount["source"]] = {}
        services[name] = {**body, "volumes": mounts} if mounts else body
    return {**document, "services": services, **({"volumes": volumes} if volumes else {})}


def mounted_at(document: Mapping[str, Any]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return key of a volume -> (service, path) of its mounts, in the document's order."""
    places: dict[str, list[tuple[str, str]]] = {key: [] for key in document.get("volumes") or {}}
    for name, body in document["services"].items():
        for mount in body.get("volumes") or []:
            if mount["type"] == "volume" and mount.get("source") in places:
                places[mount["source"]].append((name, _plain(str(mount["target"]))))
    return {key: tuple(mounts) for key, mounts in places.items()}


def names_of(key: str, places: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names by which an application may call a volume: its own first, if it has one, then SERVICE:PATH."""
    mounts = tuple(f"{service}:{path}" for service, path in places)
    return mounts if mounts and key.startswith(("anonymous-", "copies-")) else (key, *mounts)


def volumes_of(engine: Engine, image: str) -> tuple[str, ...]:
    """Return the paths that an image declares as volumes; none where the image is not here."""
    config = (engine.image(image) or {}).get("Config") or {}
    return tuple(sorted(config.get("Volumes") or {}))


def _key(service: str, target: str) -> str:
    return f"anonymous-{hashlib.sha256(f'{service}:{_plain(target)}'.encode()).hexdigest()[:8]}"


def _plain(path: str) -> str:
    return posixpath.normpath(path)


def _memory(body: Mapping[str, Any]) -> list[str]:
    """Return the paths at which a service mounts memory."""
    entries = body.get("tmpfs") or []
    return [_plain(str(entry).partition(":")[0]) for entry in ([entries] if isinstance(entries, str) else entries)]


def _is_temporary(path: str) -> bool:
    return any(_plain(path) == base or _plain(path).startswith(f"{base}/") for base in TEMPORARY)
