"""Runner of best-effort jobs that can be ended while they stand still.

A signal reaches a process of a frozen group (cgroup v1) only when the group is thawed, and an engine that removes its
container would wait for that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from framework.model.batch_job import BatchJob, JobSeen
from framework.ports.job_runner import JobRunner
from framework.testbeds.host.guarded_groups import GuardedGroups


class GroupedRunner(JobRunner, Protocol):
    """A runner whose jobs have control groups."""

    def processes(self) -> Mapping[str, tuple[str, int]]:
        """Return container's id -> (kind of its job, its first process), as of the last look."""

    def kill(self, containers: Collection[str]) -> None:
        """Tell attempts to end at once, without waiting for it."""


class ThawingRunner:
    """Implements ``framework.ports.job_runner.JobRunner`` on another runner."""

    def __init__(self, runner: GroupedRunner, groups: GuardedGroups) -> None:
        self._runner, self._groups = runner, groups

    def start(self, job: BatchJob) -> None:
        self._runner.start(job)

    def look(self) -> Sequence[JobSeen]:
        return self._runner.look()

    def save_output(self, container: str, target: Path) -> None:
        self._runner.save_output(container, target)

    def remove(self, containers: Collection[str]) -> None:
        """End attempts and remove them.  Where some stand still, they are killed first, so that thawing ends them."""
        frozen = [group for group in self._groups.all_be() if self._groups.cgroups.frozen(group)]
        if not frozen or not containers:
            self._runner.remove(containers)
            return
        self._runner.kill(containers)
        for group in frozen:
            self._groups.cgroups.set_frozen(group, False)
        try:
            self._runner.remove(containers)
        finally:
            for group in frozen:
                if self._groups.cgroups.files.exists(group["freezer"]):
                    self._groups.cgroups.set_frozen(group, True)
