"""Runner of best-effort jobs that can be ended while they stand still, and while a disk keeps them waiting.

A signal reaches a process of a frozen group (cgroup v1) only when the group is thawed, and one that waits for the limit
of a disk only when its request is through.  An engine that removes its container would wait for that, and give up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from framework.errors import KnobRefused
from framework.model.batch_job import BatchJob, JobSeen
from framework.ports.job_runner import JobRunner
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.disks import Disks
from framework.testbeds.host.guarded_groups import GuardedGroups


class GroupedRunner(JobRunner, Protocol):
    """A runner whose jobs have control groups."""

    def numbers(self) -> Mapping[str, str]:
        """Return name of a container -> its id, as of the last look."""

    def processes(self) -> Mapping[str, tuple[str, int]]:
        """Return container's id -> (kind of its job, its first process), as of the last look."""


class ThawingRunner:
    """Implements ``framework.ports.job_runner.JobRunner`` on another runner.  ``kill``: sends SIGKILL to a process."""

    def __init__(self, runner: GroupedRunner, groups: GuardedGroups, kill: Callable[[int], None] | None = None) -> None:
        self._runner, self._groups, self._kill = runner, groups, kill or killed

    def start(self, job: BatchJob) -> None:
        self._runner.start(job)

    def look(self) -> Sequence[JobSeen]:
        return self._runner.look()

    def save_output(self, container: str, target: Path) -> None:
        self._runner.save_output(container, target)

    def remove(self, containers: Collection[str]) -> None:
        """End attempts and remove them.  One that stands still is killed first, so that thawing it ends it.

        It is killed by the numbers of its processes: an engine would wait for a frozen container's end.  Jobs that are
        not removed stand still meanwhile as they did.
        """
        cgroups, be = self._groups.cgroups, self._groups.be
        known = self._runner.numbers()
        numbers = [known[container] for container in containers if container in known]
        groups = [group for _, group in self._groups.job_groups()]
        ending = [group for group in groups if any(number in group["cpuset"] for number in numbers)]
        pids = [pid for group in ending for pid in cgroups.pids(group)]
        if pids:
            self._lift((be, *ending))
        if not containers or not any(self._stands_still(group) for group in (be, *ending)):
            self._runner.remove(containers)
            return
        others = [group for group in groups if group not in ending and not self._stands_still(group)]
        still = self._stands_still(be)
        for group in others if still else ():
            self._set(group, True)
        for pid in pids:
            self._kill(pid)
        for group in (be, *ending):
            self._set(group, False)
        try:
            self._runner.remove(containers)
        finally:
            if still:
                self._set(be, True)
                for group in others:
                    self._set(group, False)

    def _stands_still(self, group: Group) -> bool:
        try:
            return self._groups.cgroups.frozen(group)
        except KnobRefused:  # it is not there: no guard has made it yet, or its container has just ended
            return False

    def _set(self, group: Group, frozen: bool) -> None:
        try:
            self._groups.cgroups.set_frozen(group, frozen)
        except KnobRefused:
            if self._groups.files.exists(group["freezer"]):  # else its container has just ended
                raise

    def _lift(self, groups: Sequence[Group]) -> None:
        """Take limits of disks away; the next setting limits the jobs that stay again."""
        disks = Disks(self._groups.cgroups)
        for group in groups:
            with suppress(KnobRefused):  # then a job may take longer to end
                disks.lift(group)


def killed(pid: int) -> None:
    """Send SIGKILL; a process that has ended is none to kill."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
