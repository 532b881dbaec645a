"""A study is run by one process at a time: the process holds a lease that it renews at every step."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from framework.bench import Watch
from framework.errors import InputError, Interrupted, StoreBusy, StoreError
from framework.model.events import Event
from framework.ports.store import StudyStore

LEASE_S = 120.0  # renewed at every step; the longest step without one is a hook (a seed is announced in steps)


class Lease:
    """What this process holds of a store."""

    def __init__(self, store: StudyStore) -> None:
        self._store = store
        self.holder = f"{_host()}:{os.getpid()}"

    def take(self, study: str) -> None:
        """Raises InputError where another process runs the study."""
        self.release_dead()
        if not self._store.acquire(study, self.holder, LEASE_S):
            holder = dict(self._store.leased()).get(study, "another process")
            raise InputError(f"study {study} is being run by {holder}")

    def take_alone(self, study: str) -> None:
        """Raises InputError also where this process itself runs the study (a service's worker does)."""
        self.release_dead()
        holder = dict(self._store.leased()).get(study)
        if holder is not None:
            raise InputError(f"study {study} is being run by {holder}; stop it first")
        self.take(study)

    def renewing(self, study: str, watch: Watch) -> Watch:
        """``watch``, renewing the lease on the way.  It raises Interrupted when another process took over."""

        def renewed(event: Event) -> None:
            if not self._store.acquire(study, self.holder, LEASE_S):
                raise Interrupted(f"another process took over study {study}")
            watch(event)

        return renewed

    def release(self, study: str) -> None:
        """Where the store cannot be written, the lease of a process that is gone ends by itself."""
        with suppress(StoreError, StoreBusy):
            self._store.release(study, self.holder)

    def release_dead(self) -> None:
        """Leases of processes of this host that are gone (kill -9) end at once."""
        host = _host()
        for study, holder in self._store.leased():
            name, _, pid = holder.rpartition(":")
            if name == host and not _is_alive(int(pid)):
                self._store.release(study, holder)


def _host() -> str:
    """Where process numbers mean something: a container that shares its machine's name has numbers of its own."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())  # pid:[4026531836]
    except OSError:
        space = ""
    return f"{socket.gethostname()}:{''.join(filter(str.isdigit, space))}"


def _is_alive(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # somebody else's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
