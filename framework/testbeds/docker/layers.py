"""Data that services write outside of their volumes: into the writable layer of their container, which goes with it.

No snapshot of volumes holds them.  A repetition starts without them, as from the image, and people should know.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from framework.errors import DeploymentFailed
from framework.model import Running
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.named_volumes import TEMPORARY, mounted_at
from framework.testbeds.docker.owner import Owner

LEAST_BYTES = 256 << 10  # of a container's layer: less is process ids, locks, and rewritten configuration
MOST = 5  # directories that are named for a service
_OWN = ("/etc", "/root", "/proc", "/sys", "/dev", "/var/log", "/var/cache", *TEMPORARY)
_MODIFIED, _ADDED = 0, 1  # kinds of a change, as the engine numbers them; 2 is a removal


class WritableLayers:
    """Reads what containers wrote to their own layers."""

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection or Connection()

    def written(self, running: Running, want: Wanted) -> tuple[str, ...]:
        """Return "SERVICE:PATH" of the directories that services wrote data to outside of their volumes.

        Empty where the engine does not tell: nothing depends on it.
        """
        with suppress(DeploymentFailed):
            return tuple(self._written(running, want))
        return ()

    def _written(self, running: Running, want: Wanted) -> list[str]:
        sizes = self._sizes(running.deployment.project)
        mounts: dict[str, set[str]] = {}
        for service, path in (place for places in mounted_at(want.document).values() for place in places):
            mounts.setdefault(service, set()).add(path)
        written: list[str] = []
        for service, container in running.containers.items():
            if sizes.get(container.id, 0) >= LEAST_BYTES:
                changes = self._changes(container.id)
                written += [f"{service}:{path}" for path in directories(changes, mounts.get(service, set()))]
        return written

    def _sizes(self, project: str) -> Mapping[str, int]:
        """Return id -> bytes of the layers of a project's containers."""
        filters = {"label": str(Owner.project(project))}
        listed = self._connection.ask("measure containers", lambda api: api.containers(size=True, filters=filters))
        return {str(entry["Id"]): int(entry.get("SizeRw") or 0) for entry in listed or []}

    def _changes(self, container: str) -> list[tuple[str, int]]:
        changes = self._connection.ask("list what a container wrote", lambda api: api.diff(container)) or []
        return [(str(change["Path"]), int(change["Kind"])) for change in changes]


def directories(changes: Sequence[tuple[str, int]], mounts: Collection[str]) -> list[str]:
    """Return the directories in which a container wrote files, each by its shortest path, at most five.

    ``changes``: (path, kind) as the engine lists them; it lists directories above a change too.  ``mounts``: paths of
    volumes, whose mount points it may list.
    """
    kinds = {path: kind for path, kind in changes if kind in (_ADDED, _MODIFIED)}
    above = {parent for path in kinds for parent in _parents(path)}
    files = [path for path in kinds if path not in above and not _is_below(path, (*_OWN, *mounts))]
    written = {
        next((up for up in _parents(path) if kinds.get(up) == _ADDED), posixpath.dirname(path)) for path in files
    }
    shortest = sorted(path for path in written if not any(up in written for up in _parents(path)))
    return shortest[:MOST]


def _parents(path: str) -> list[str]:
    """Return the directories above a path, the highest first, without the root."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts))]


def _is_below(path: str, bases: Collection[str]) -> bool:
    return any(path == base or path.startswith(f"{base}/") for base in bases)
