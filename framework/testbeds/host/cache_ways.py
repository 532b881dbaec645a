"""Actuator of a guard for the cache and the memory's bandwidth: a group of resctrl for LC, and one for BE."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.errors import KnobRefused
from framework.model.guard import Change, Setting
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.journal import Journal, JournalledFiles
from framework.testbeds.host.resctrl import BE, LC, ROOT, CacheInfo, Resctrl, Values, shown, threads

ROUNDS = 5  # in which threads that begin meanwhile are followed; the next setting brings the others in

Processes = Callable[[], Iterable[int]]


class CacheWays:
    """Divides the ways of the last-level cache; implements ``framework.ports.actuator.Actuator``.

    BE has the lowest ways of every cache id, LC the others; what is neither stays in the default group, which is not
    touched.  While BE stands still, LC has all ways.  ``lc``, ``be``: asked for the processes at every setting; threads
    and forks that are in no group of theirs yet are moved.  ``bandwidth_gbs``: of the memory, which throttling needs on
    machines where it is not in percent; 0: not measured.
    """

    name = "cache"

    def __init__(
        self, files: KernelFiles, journal: Journal, lc: Processes, be: Processes,
        bandwidth_gbs: float = 0.0, root: str = ROOT,
    ) -> None:  # fmt: skip
        self._files, self._journal, self._root = JournalledFiles(files, journal), journal, root
        self._resctrl = Resctrl(self._files, root)
        self._users = {f"{root}/{LC}": lc, f"{root}/{BE}": be}
        self._gbs = bandwidth_gbs

    def missing(self) -> str:
        return self._resctrl.missing()

    @property
    def ways(self) -> int:
        """Ways to divide; 0: this machine cannot."""
        cache = None if self.missing() else self._resctrl.cache()
        return cache.ways if cache else 0

    def set(self, setting: Setting) -> list[Change]:
        """Bring masks, limits and tasks to a setting.  Raises KnobRefused."""
        missing = self.missing()
        cache = self._resctrl.cache()
        if missing or cache is None:
            raise KnobRefused(self._root, missing)
        for group in self._users:
            self._resctrl.command(lambda group=group: self._files.make(group, "class"))  # type: ignore[misc]
        changes = self._divide(cache, setting)
        for group, processes in self._users.items():
            changes += self._bring_in(group, processes)
        return changes + self._throttle(setting)

    def restore(self) -> None:
        """Give tasks, masks and groups back.  Raises KnobRefused."""
        problems = self._journal.restore(below=f"{self._root}/")
        if problems:
            raise KnobRefused(self._root, "; ".join(problems))

    def _divide(self, cache: CacheInfo, setting: Setting) -> list[Change]:
        """Set the masks; the group that shrinks comes first, so that LC's and BE's never grow into each other."""
        lc, be = cache.divide(setting.ways if setting.running else 0)
        wanted = {f"{self._root}/{LC}": lc if setting.running else cache.mask, f"{self._root}/{BE}": be}
        now = {group: self._resctrl.schemata(group) for group in wanted}
        be_now = [mask for name in cache.lines for mask in now[f"{self._root}/{BE}"][name].values()]
        be_shrinks = all(be | mask == mask for mask in be_now)
        changes = list[Change]()
        for group in sorted(wanted, key=lambda group: group.endswith(BE) != be_shrinks):
            ids = now[group]
            changes += self._set(group, ids, {name: dict.fromkeys(ids[name], wanted[group]) for name in cache.lines})
        return changes

    def _throttle(self, setting: Setting) -> list[Change]:
        """Set BE's limit of memory bandwidth; without one, BE has the default group's."""
        info = self._resctrl.bandwidth()
        if info is None:
            if setting.bandwidth < 1:
                raise KnobRefused(f"{self._root}/{BE}/schemata", "this machine cannot throttle memory bandwidth")
            return []
        limits = dict(self._resctrl.schemata(self._root)["MB"])
        if setting.bandwidth < 1:
            value = info.value(setting.bandwidth, self._gbs, len(limits))
            limits = {number: min(value, limit) for number, limit in limits.items()}
        group = f"{self._root}/{BE}"
        return self._set(group, self._resctrl.schemata(group), {"MB": limits})

    def _set(self, group: str, now: Values, wanted: Values) -> list[Change]:
        """Write the lines that differ, in one command: with code and data apart, never one without the other."""
        differing = {name: by_id for name, by_id in wanted.items() if now[name] != by_id}
        if not differing:
            return []
        self._resctrl.set_schemata(group, differing)
        return [
            Change(f"{group}/schemata {name}", shown(name, now[name]), shown(name, by_id))
            for name, by_id in differing.items()
        ]

    def _bring_in(self, group: str, processes: Processes) -> list[Change]:
        """Move the threads that are not in their group yet, until none is left."""
        before = self._resctrl.tasks(group)
        for _ in range(ROUNDS):
            strays = threads(self._files, processes()) - self._resctrl.tasks(group)
            if not strays:
                break
            homes = self._resctrl.homes(strays)
            for task in sorted(strays):
                self._move(group, task, homes.get(task, self._root))
        now = self._resctrl.tasks(group)
        if now <= before:
            return []
        return [Change(f"{group}/tasks", f"{len(before)} tasks", f"{len(now)} tasks")]

    def _move(self, group: str, task: int, home: str) -> None:
        self._resctrl.command(lambda: self._files.move_task(group, task, home))
