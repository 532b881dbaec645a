"""Actuator of a guard for disks: the bytes that BE's jobs may read and write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from framework.errors import KnobRefused
from framework.model.guard import Change, Setting
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.disks import FREE, Disks, Limit
from framework.testbeds.host.guarded_groups import GuardedGroups

STEP_BPS = 1_000_000  # a setting is rounded down to it, so that not every change of what LC uses changes a knob
LEAST_BPS = 1_000_000  # of BE: the kernel has no limit of 0, and a request that waits must come to its end


@dataclass(slots=True)
class DiskShare:
    """Limits what BE's jobs read and write on every disk; implements ``framework.ports.actuator.Actuator``.

    On cgroup v2 the limit is BE's as a whole.  On v1 a limit is of one group alone: it is divided evenly among the
    jobs that run.  Jobs that stand still ask for nothing and keep what they have.  All limits go with BE's groups.

    ``disk_mbs``: of a disk; 0: not known.
    """

    groups: GuardedGroups
    disk_mbs: float
    name: str = field(init=False, default="disk")
    _disks: Disks = field(init=False)

    def __post_init__(self) -> None:
        self._disks = Disks(self.groups.cgroups)

    def missing(self) -> str:
        return self._disks.missing() if self.disk_mbs > 0 else "the bandwidth of the disk is not known"

    def set(self, setting: Setting) -> list[Change]:
        """Limit the jobs that run.  Raises KnobRefused, after all that could be set is set."""
        names, refused, changed = self._disks.names(), list[KnobRefused](), Counter[tuple[str, Limit, Limit]]()
        uncounted = names.keys() - self._disks.counted()
        for (group, wanted), disk in product(self._wanted(setting), names):
            try:
                old = self._disks.limits(group).get(disk, FREE)
                if old != wanted or disk in uncounted:
                    self._disks.set(group, disk, wanted)
                    changed[disk, old, wanted] += int(old != wanted)
            except KnobRefused as error:
                if self._is_there(group, disk):
                    refused.append(error)
        if refused:
            raise refused[0]
        return [
            Change(f"{names[disk]}, {'BE' if self._disks.nested else f'{count} of the jobs'}", _text(old), _text(new))
            for (disk, old, new), count in changed.items()
            if count
        ]

    def restore(self) -> None:
        """Nothing of its own: the limits are gone when the groups are."""

    def _is_there(self, group: Group, disk: str) -> bool:
        """Return whether a group and a disk still exist: a container ends, and a disk is taken out, at any moment."""
        return self.groups.files.exists(self._disks.directory(group)) and disk in self._disks.names()

    def _wanted(self, setting: Setting) -> Iterator[tuple[Group, Limit]]:
        """Yield each group that is to be limited now, and how."""
        if self._disks.nested:
            groups = [self.groups.be]
        else:
            yield self.groups.be, FREE  # it has no tasks of its own: only so that the kernel begins to count
            groups = [group for kind, group in self.groups.job_groups() if kind not in setting.paused]
        if setting.running and groups:
            limit = FREE
            if setting.disk_mbs is not None:
                each = max(LEAST_BPS, math.floor(setting.disk_mbs * 1e6 / STEP_BPS) * STEP_BPS) // len(groups)
                limit = Limit(each, each)
            yield from ((group, limit) for group in groups)


def _text(limit: Limit) -> str:
    """Return a limit for people, such as 5 MB/s: both directions have the same."""
    read, written = ("no limit" if bps is None else f"{bps / 1e6:g} MB/s" for bps in (limit.read, limit.written))
    return read if read == written else f"{read} to read, {written} to write"
