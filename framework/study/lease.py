"""Leases: one process at a time runs a study, and renews its lease at every step."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from framework.bench import Watch
from framework.errors import InputError, LeaseLost, StoreBusy, StoreError
from framework.model.events import Event
from framework.ports.store import StudyStore

BOOT = Path("/proc/sys/kernel/random/boot_id")  # of this start of the kernel, random
LEASE_S = 120.0  # renewed at every step of a study; the longest step is a hook


class Lease:
    """Leases of this process on studies of one store."""

    def __init__(self, store: StudyStore) -> None:
        self._store = store
        self.holder = f"{_host()}:{os.getpid()}"

    def take(self, study: str) -> None:
        """Take or renew the lease of a study.  Raises InputError where another process runs it."""
        self.release_dead()
        if not self._store.acquire(study, self.holder, LEASE_S):
            holder = dict(self._store.leased()).get(study, "another process")
            raise InputError(f"study {study} is being run by {holder}")

    def take_alone(self, study: str) -> None:
        """Take the lease of a study.  Raises InputError also where this process runs it (a service's worker does)."""
        self.release_dead()
        holder = dict(self._store.leased()).get(study)
        if holder is not None:
            raise InputError(f"study {study} is being run by {holder}; stop it first")
        self.take(study)

    def renewing(self, study: str, watch: Watch) -> Watch:
        """Return ``watch`` extended: it also renews the lease, and raises LeaseLost where another process has it."""

        def renewed(event: Event) -> None:
            if not self._store.acquire(study, self.holder, LEASE_S):
                raise LeaseLost(f"another process took over study {study}")
            watch(event)

        return renewed

    def release(self, study: str) -> None:
        """Release a lease; where the store cannot be written, it expires by itself."""
        with suppress(StoreError, StoreBusy):
            self._store.release(study, self.holder)

    def release_dead(self) -> None:
        """Release the leases of processes of this host that were killed."""
        host = _host()
        for study, holder in self._store.leased():
            name, _, pid = holder.rpartition(":")
            if name == host and not _is_alive(int(pid)):
                self._store.release(study, holder)


def _host() -> str:
    """Return the host's name with its boot and its PID namespace.

    A container may share the name, but has PIDs of its own; two machines may have one name, and their first PID
    namespaces always have one number.
    """
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())  # pid:[4026531836]
    except OSError:
        namespace = ""
    try:
        boot = BOOT.read_text()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()}:{boot}{''.join(filter(str.isdigit, namespace))}"


def _is_alive(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # it runs, as another user
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
