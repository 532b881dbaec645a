"""Actuators of a guard for the CPU: which cores BE has, how much of their time, and whether it stands still."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from framework.errors import KnobRefused
from framework.model.cpus import write_cpus
from framework.model.guard import Change, Setting
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testbeds.host.kernel_numbers import cpus_in


@dataclass(slots=True)
class Cores:
    """Divides ``cpus`` between LC and BE; implements ``framework.ports.actuator.Actuator``.

    ``cpus``: in the order in which BE gets them, threads of a core side by side.  Exclusive: LC's containers and BE
    have no CPU in common, and the group that shrinks is written first, so that they never have; containers of LC that
    need no protection have all.  Otherwise both have
    all, and BE runs only where LC leaves time (cpu.idle), at most its quota.
    """

    groups: GuardedGroups
    cpus: Sequence[int]
    name: str = field(init=False, default="cores")
    _own: dict[str, tuple[int, ...]] = field(init=False, default_factory=dict)
    _be: tuple[frozenset[int], float | None, bool] | None = field(init=False, default=None)

    def missing(self) -> str:
        if len(self.cpus) < 2:
            return "one CPU cannot be divided between LC and BE"
        return self.groups.missing()

    def set(self, setting: Setting) -> list[Change]:
        """Bring LC's and BE's CPUs to a setting; what has it already is left alone.  Raises KnobRefused."""
        every = frozenset(self.cpus)
        count = math.floor(setting.cores) if setting.running and setting.exclusive else 0
        be = frozenset(self.cpus[:count]) if count else every
        lc = every - be if count else every
        changes = list[Change]()
        now = self.groups.cgroups.cpus(self.groups.be)
        if be <= now:
            changes += self._set_be(setting, be)
            changes += self._set_lc(lc)
        else:
            changes += self._set_lc(lc)
            changes += self._set_be(setting, be)
        return changes

    def restore(self) -> None:
        """Nothing of its own: the journal has every value."""

    def _set_lc(self, cpus: frozenset[int]) -> list[Change]:
        """Move LC's containers; those that made the same move are one change."""
        moves = Counter[tuple[str, str]]()
        spared = self.groups.spared_groups()
        for group in self.groups.lc_groups():
            try:
                moves.update(self._move(group, frozenset(self.cpus) if group in spared else cpus))
            except KnobRefused:
                if self.groups.files.exists(group["cpuset"]):  # else its container has just ended
                    raise
        return [Change(f"CPUs of {count} of LC's containers", old, new) for (old, new), count in moves.items()]

    def _move(self, group: Group, cpus: frozenset[int]) -> list[tuple[str, str]]:
        """Give a container of LC those of ``cpus`` that its user gave it; all of ``cpus`` where those are none.

        Returns its old and its new CPUs where they changed.
        """
        file = self.groups.cgroups.cpus_file(group)
        old = self.groups.files.read(file).strip()
        own = frozenset(self._own.setdefault(file, cpus_in(old, file)))
        wanted = (own & cpus) or cpus if own else cpus
        if frozenset(cpus_in(old, file)) == wanted:
            return []
        self.groups.lc_cgroups.set_cpus(group, wanted)
        return [(old, write_cpus(wanted))]

    def _set_be(self, setting: Setting, cpus: frozenset[int]) -> list[Change]:
        shared = setting.running and not setting.exclusive
        quota = setting.cores if shared else None
        cgroups, be = self.groups.cgroups, self.groups.be
        children = [group for _, group in self.groups.job_groups()]
        changes = []
        now = cgroups.cpus(be)
        stale = [child for child in children if self._cpus_of(child) != cpus]
        if now != cpus or (stale and cgroups.versions["cpuset"] == 1):
            self._nested(be, children, now, cpus)
            changes.append(Change("BE's CPUs", write_cpus(now), write_cpus(cpus)))
        if self._be is None or self._be[1] != quota:
            cgroups.set_quota(be, quota)
            before = "none" if self._be is None or self._be[1] is None else f"{self._be[1]:.2f}"
            after = "none" if quota is None else f"{quota:.2f}"
            changes += [Change("BE's quota", before, after)] if after != before else []
        if (self._be is None or self._be[2] != shared) and (shared or self._be is not None):
            cgroups.set_idle(be, shared)
            changes.append(Change("BE's cpu.idle", str(int(not shared)), str(int(shared))))
        self._be = (cpus, quota, shared)
        return changes

    def _nested(self, be: Group, children: Sequence[Group], now: frozenset[int], cpus: frozenset[int]) -> None:
        """Move a group of v1 whose children must stay inside it: widen it, move the children, then narrow it."""
        cgroups = self.groups.cgroups
        if cgroups.versions["cpuset"] == 2:
            cgroups.set_cpus(be, cpus)
            return
        cgroups.set_cpus(be, now | cpus)
        for child in children:
            try:
                cgroups.set_cpus(child, cpus)
            except KnobRefused:
                if cgroups.files.exists(child["cpuset"]):  # else its container has just ended
                    raise
        cgroups.set_cpus(be, cpus)

    def _cpus_of(self, group: Group) -> frozenset[int] | None:
        try:
            return self.groups.cgroups.cpus(group)
        except KnobRefused:
            return None


@dataclass(slots=True)
class Freezer:
    """Lets BE stand still: all of it, or kinds of jobs; implements ``framework.ports.actuator.Actuator``."""

    groups: GuardedGroups
    name: str = field(init=False, default="freezer")

    def missing(self) -> str:
        return self.groups.missing()

    def set(self, setting: Setting) -> list[Change]:
        """Freeze or thaw.  Raises KnobRefused."""
        changes = self._set("BE", self.groups.be, not setting.running)
        for kind, group in self.groups.job_groups():
            try:
                changes += self._set(kind, group, kind in setting.paused)
            except KnobRefused:
                if self.groups.files.exists(group["freezer"]):
                    raise
        return changes

    def restore(self) -> None:
        """Nothing of its own: BE's jobs are gone when the groups are."""

    def _set(self, whose: str, group: Group, frozen: bool) -> list[Change]:
        if self.groups.cgroups.frozen(group) == frozen:
            return []
        self.groups.cgroups.set_frozen(group, frozen)
        return [Change(f"{whose} frozen", str(int(not frozen)), str(int(frozen)))]
