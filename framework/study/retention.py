"""Retention of studies, of latency samples and of traces.  Results are small and may stay; the others are large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from framework.config.settings import Retention
from framework.errors import InputError
from framework.ports.clock import Clock
from framework.ports.store import ArtefactStore, StudyArchive, StudyStore
from framework.study.imported import remove_description
from framework.study.lease import Lease

GRACE_S = 3_600.0  # an artefact is written before the row that refers to it


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Ids of the deleted studies, and the numbers of dropped ``samples`` (latencies, traces) and ``artefacts``."""

    studies: tuple[str, ...]
    samples: int
    artefacts: int


class Keeper:
    """Removes what is older than a retention allows, and artefacts that no study refers to any more."""

    def __init__(
        self, store: StudyStore, archive: StudyArchive, artefacts: ArtefactStore, clock: Clock, home: Path
    ) -> None:
        self._home = home
        self._store, self._archive, self._artefacts, self._clock = store, archive, artefacts, clock
        self._lease = Lease(store)

    def forget(self, retention: Retention) -> Forgotten:
        """Apply a retention; leave studies alone that run or wait for a worker.  Raises StoreError."""
        deleted = []
        for study in self._idle(retention.studies_s):
            try:
                self._lease.take(study)
            except InputError:  # a process has just begun to run it
                continue
            self._store.delete(study)
            remove_description(self._home, study)
            deleted.append(study)
        samples = sum(self._archive.forget_samples(study) for study in self._idle(retention.samples_s))
        before_ns = self._clock.now_ns() - int(GRACE_S * 1e9)
        return Forgotten(tuple(deleted), samples, self._artefacts.remove_but(self._archive.referred(), before_ns))

    def _idle(self, seconds: float | None) -> Sequence[str]:
        if seconds is None:
            return ()
        at = datetime.fromtimestamp(self._clock.now_ns() / 1e9 - seconds, UTC)
        return self._archive.idle_since(at.isoformat(timespec="milliseconds"))
