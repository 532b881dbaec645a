"""Runner of best-effort jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from framework.model.batch_job import BatchJob, JobSeen


class JobRunner(Protocol):
    """Runs attempts of jobs in BE's group.  Each method raises DeploymentFailed, TestbedUnavailable."""

    def start(self, job: BatchJob) -> None:
        """Start the job's attempt.  One that runs already is left running."""

    def look(self) -> Sequence[JobSeen]:
        """Return all attempts that exist, also those that ended and were not removed yet."""

    def save_output(self, container: str, target: Path) -> None:
        """Write an attempt's output to a file."""

    def remove(self, containers: Collection[str]) -> None:
        """End attempts and remove what they left."""
