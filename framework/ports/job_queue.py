"""Queue of best-effort jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from framework.model.batch_job import BatchJob, JobSpec, JobState


class BatchQueue(Protocol):
    """Keeps jobs.  Every method is one transaction, and raises StoreError and its subclasses."""

    def add(self, specs: Iterable[JobSpec]) -> Sequence[BatchJob]:
        """Queue jobs.  One whose name has an unfinished job is not queued again: that job is returned."""

    def all(self) -> Sequence[BatchJob]:
        """Return all jobs in the order in which they were queued."""

    def move(self, number: int, state: JobState, **values: Any) -> BatchJob:
        """Change a job's state and, with it, other columns.  Raises NotFound, IllegalTransition."""

    def use(self, number: int, used_s: float) -> None:
        """Write the CPU seconds that a running attempt has used so far."""

    def forget(self, number: int) -> None:
        """Remove a job that does not run.  Raises NotFound, IllegalTransition."""
