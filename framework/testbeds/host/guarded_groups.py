"""Control groups that a guard deals with: those of LC's containers, which are the user's, and its own for BE's jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from framework.errors import KnobRefused
from framework.testbeds.host.cgroups import Cgroups, Group, may_be_group
from framework.testbeds.host.journal import JournalledFiles

BE = "tailor-guard"
"""Name of BE's group; every job has a group of its own in it."""

NEEDED = {"cpuset": "cores", "cpu": "CPU time", "cpuacct": "CPU use", "freezer": "freezing"}


@dataclass(slots=True)
class GuardedGroups:
    """``lc``: container -> its process.  ``jobs``: container of a job -> (kind of the job, its process).  ``spared``:
    containers of LC that may run on BE's CPUs too.

    All are asked at every use, so that containers that come and go are followed; the groups of jobs are those that the
    kernel shows inside BE's, also of one whose kind is not known yet.  ``be``: BE's group.  ``cgroups``
    writes to BE's groups, which go when the guard ends; ``lc_cgroups`` to LC's, where the journal comes first.
    ``disks``: whether disks will be limited.
    """

    cgroups: Cgroups
    files: JournalledFiles
    lc: Callable[[], Mapping[str, int]]
    jobs: Callable[[], Mapping[str, tuple[str, int]]]
    be_name: str = BE
    spared: Callable[[], frozenset[str]] = frozenset
    disks: bool = False
    be: Group = field(init=False)
    lc_cgroups: Cgroups = field(init=False)
    _known: dict[int, Group] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.lc_cgroups = self.cgroups.with_files(self.files)
        self.be = self.cgroups.top(self.be_name)

    def missing(self) -> str:
        lacks = [why for controller, why in NEEDED.items() if controller not in self.cgroups.versions]
        return f"this kernel has no control groups for {', '.join(lacks)}" if lacks else ""

    def make(self) -> None:
        """Make BE's group in every tree, so that the engine finds it there.  Raises KnobRefused.

        A cpuset of v1 begins without CPUs and memory; it gets those of the root.  Controllers of v2 come before the
        group, and so go after it: the kernel takes none away that a group below gives to its own children.  A guard of
        another TAILOR_HOME that was killed with its keeper may have left the group: this one has it then, and removes
        it.
        """
        for controller in ("cpuset", "cpu", "memory", *(["io"] if self.disks else [])):
            if self.cgroups.versions.get(controller) == 2:
                self._enable(controller)
        for directory in dict.fromkeys(self.be.directories.values()):
            self.files.own(directory)
        if self.cgroups.versions["cpuset"] == 1:
            root = self.be["cpuset"].rpartition("/")[0]
            for name in ("cpuset.cpus", "cpuset.mems"):
                self.cgroups.files.write(f"{self.be['cpuset']}/{name}", self.files.read(f"{root}/{name}").strip())

    def _enable(self, controller: str) -> None:
        """Let the groups below the root of v2 have a controller: journalled by its name, which is taken back."""
        root = self.be[controller].rpartition("/")[0]
        if controller not in self.files.read(f"{root}/cgroup.subtree_control").split():
            self.files.add_controller(f"{root}/cgroup.subtree_control", controller)

    def lc_groups(self) -> list[Group]:
        return self._groups_of(self.lc().values())

    def spared_groups(self) -> list[Group]:
        """Return the groups of LC's containers that may run on BE's CPUs too."""
        pids, spared = self.lc(), self.spared()
        return self._groups_of(pid for container, pid in pids.items() if container in spared)

    def _groups_of(self, pids: Iterable[int]) -> list[Group]:
        return [group for pid in pids if (group := self._of(pid)) is not None]

    def job_groups(self) -> list[tuple[str, Group]]:
        """Return (kind of the job, its group); the kind is empty where it is not known."""
        jobs = self.jobs()
        groups = []
        for name in self.cgroups.files.entries(self.be["cpuset"]):
            child = self.be.child(name)
            if may_be_group(name) and self.cgroups.files.exists(f"{child['cpuset']}/cgroup.procs"):
                kind = next((kind for container, (kind, _) in jobs.items() if container in name), "")
                groups.append((kind, child))
        return groups

    def lc_pids(self) -> list[int]:
        return [pid for group in self.lc_groups() for pid in self.cgroups.pids(group)]

    def be_pids(self) -> list[int]:
        return self.cgroups.pids(self.be)

    def _of(self, pid: int) -> Group | None:
        known = self._known.get(pid)
        if known is None or not self.files.exists(known["cpuset"]):
            try:
                known = self.cgroups.of(pid)
            except KnobRefused:  # it ended since the engine was asked
                self._known.pop(pid, None)
                return None
            self._known[pid] = known
        return known
