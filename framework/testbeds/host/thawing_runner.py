"""Runner of best-effort jobs that can be ended while they stand still, while a disk keeps them waiting, and while their
engine is away.

A signal reaches a process of a frozen group (cgroup v1) only when the group is thawed, and one that waits for the limit
of a disk only when its request is through.  An engine that removes its container would wait for that, and give up.  A
group may go at any moment: its container has ended then.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from framework.errors import DeploymentFailed, KnobRefused
from framework.model.batch_job import BatchJob, JobSeen
from framework.ports.job_runner import JobRunner
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.disks import Disks
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testbeds.host.interrupts import interrupts_deferred

LOOKS, PAUSE_S = 50, 0.1  # for processes that were killed, and for an engine to notice it


class GroupedRunner(JobRunner, Protocol):
    """A runner whose jobs have control groups."""

    def numbers(self) -> Mapping[str, str]:
        """Return name of a container -> its id, as of the last look."""

    def processes(self) -> Mapping[str, tuple[str, int]]:
        """Return container's id -> (kind of its job, its first process), as of the last look."""


class ThawingRunner:
    """Implements ``framework.ports.job_runner.JobRunner`` on another runner.

    ``kill``: sends SIGKILL to a process.  ``pause``: waits so many seconds.
    """

    def __init__(
        self, runner: GroupedRunner, groups: GuardedGroups, kill: Callable[[int], None] | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._runner, self._groups, self._kill, self._pause = runner, groups, kill or killed, pause

    def start(self, job: BatchJob) -> None:
        with interrupts_deferred():
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
        be, groups = self._groups.be, self._job_groups()
        known = self._runner.numbers()
        numbers = [known[container] for container in containers if container in known]
        ending = [group for group in groups if any(number in group["cpuset"] for number in numbers)]
        self._lift(ending)
        still = self._frozen(be)
        if not containers or not (still or any(map(self._frozen, ending))):
            self._runner.remove(containers)
            return
        others = [group for group in groups if still and group not in ending and not self._frozen(group)]
        for group in others:
            self._freeze(group, True)
        self._kill_all(ending)
        for group in (be, *ending):
            self._freeze(group, False)
        try:
            self._runner.remove(containers)
        finally:
            if still:
                self._freeze(be, True)
                for group in others:
                    self._freeze(group, False)

    def end_all(self) -> Sequence[JobSeen]:
        """End every process of BE's group; returns the attempts that are left to be removed.

        The engine is not needed for it, and asked only afterwards: an attempt that it shows with the status 0 had ended
        well before.  One that the engine is just starting, for a guard that was killed meanwhile, is waited for and
        ended too: removed unseen, it could have ended well first, and would be done twice.

        Raises TestbedUnavailable, DeploymentFailed where the engine does not say what is left.
        """
        self._end_processes()
        seen = self.look()
        for _ in range(LOOKS):
            if all(attempt.status is not None for attempt in seen):
                break
            self._pause(PAUSE_S)
            self._end_processes()
            seen = self.look()
        return seen

    def _end_processes(self) -> None:
        be = self._groups.be
        for _ in range(LOOKS):
            self._lift(self._job_groups())
            if not self._kill_all([be]):
                break
            for group in (be, *self._job_groups()):
                if self._frozen(group):
                    self._freeze(group, False)
            self._pause(PAUSE_S)

    def _job_groups(self) -> list[Group]:
        return [group for _, group in self._groups.job_groups()]

    def _kill_all(self, groups: Collection[Group]) -> int:
        """Kill the processes of groups, and of those below them; returns how many there were."""
        count = 0
        for group in groups:
            try:
                pids = self._groups.cgroups.pids(group)
            except KnobRefused:  # then it is up to the engine
                continue
            for pid in pids:
                self._kill(pid)
            count += len(pids)
        return count

    def _frozen(self, group: Group) -> bool:
        try:
            return self._groups.cgroups.frozen(group)
        except KnobRefused:  # it is not there: no guard has made it yet, or its container has just ended
            return False

    def _freeze(self, group: Group, frozen: bool) -> None:
        try:
            self._groups.cgroups.set_frozen(group, frozen)
        except KnobRefused as error:
            if self._groups.cgroups.files.exists(group["freezer"]):
                raise DeploymentFailed(str(error)) from error

    def _lift(self, groups: Sequence[Group]) -> None:
        """Take limits of disks away, BE's too, where jobs end; the next setting limits those that stay again."""
        disks = Disks(self._groups.cgroups)
        for group in (self._groups.be, *groups) if groups else ():
            with suppress(KnobRefused):  # then a job may take longer to end
                disks.lift(group)


def killed(pid: int) -> None:
    """Send SIGKILL; a process that has ended is none to kill."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
