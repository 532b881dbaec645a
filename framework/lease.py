"""A study is run by one process at a time: the process holds a lease that it renews at every step."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework.controller import Watch
from framework.errors import InputError, Interrupted, StoreError
from framework.ports import StudyStore

LEASE_S = 120.0  # renewed at every step; the longest step without one is a hook (a seed is announced in steps)


class Lease:
    """What this process holds of a store."""

    def __init__(self, store: StudyStore) -> None:
        self._store = store
        self.holder = f"{socket.gethostname()}:{os.getpid()}"

    def take(self, study: str) -> None:
        """Raises InputError where another process runs the study."""
        self.release_dead()
        if not self._store.acquire(study, self.holder, LEASE_S):
            holder = dict(self._store.leased()).get(study, "another process")
            raise InputError(f"study {study} is being run by {holder}")

    def renewing(self, study: str, watch: Watch) -> Watch:
        """``watch``, renewing the lease on the way.  It raises Interrupted when another process took over."""

        def renewed(kind: str, data: Mapping[str, Any]) -> None:
            if not self._store.acquire(study, self.holder, LEASE_S):
                raise Interrupted(f"another process took over study {study}")
            watch(kind, data)

        return renewed

    def release(self, study: str) -> None:
        """Where the store cannot be written, the lease of a process that is gone ends by itself."""
        with suppress(StoreError):
            self._store.release(study, self.holder)

    def release_dead(self) -> None:
        """Leases of processes of this host that are gone (kill -9) end at once."""
        host = socket.gethostname()
        for study, holder in self._store.leased():
            name, _, pid = holder.rpartition(":")
            if name == host and not Path(f"/proc/{pid}").exists():
                self._store.release(study, holder)
