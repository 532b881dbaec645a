"""Control groups of this machine, of version 1 and 2, controller by controller: hybrids have both.

Cgroup v1 has a tree of groups for each controller, v2 one for all (kernel documentation, admin-guide/cgroup-v1 and
cgroup-v2).  The knobs that a guard needs exist in both, under other names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from framework.errors import KnobRefused
from framework.model.cpus import write_cpus
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.kernel_numbers import cpus_in, number_in, numbers_in

MOUNTS = "/proc/self/mounts"
PERIOD_US = 100_000
KNOBS = frozenset(
    ("cgroup", "cpu", "cpuset", "cpuacct", "memory", "io", "pids", "freezer", "blkio", "devices", "hugetlb", "rdma",
     "misc", "dmem", "irq", "tasks", "notify_on_release", "release_agent")
)  # fmt: skip
"""Beginnings of the names of knobs."""
NAMED = "name=systemd"  # a tree of v1 without a controller, in which engines make groups too
UNIFIED = "unified"  # the tree of v2, also where it has no controllers


@dataclass(frozen=True, slots=True)
class Group:
    """A group: its directory for each controller (v2: all the same one)."""

    directories: Mapping[str, str]

    def child(self, name: str) -> Group:
        return Group({controller: f"{directory}/{name}" for controller, directory in self.directories.items()})

    def __getitem__(self, controller: str) -> str:
        return self.directories[controller]


class Cgroups:
    """Groups and their knobs.  ``versions``: controller -> 1 or 2."""

    def __init__(self, files: KernelFiles) -> None:
        self._files = files
        self._mounts, self.versions = _mounted(files)

    @property
    def files(self) -> KernelFiles:
        return self._files

    def with_files(self, files: KernelFiles) -> Cgroups:
        """Return the groups read and written through other files, such as journalled ones."""
        other = Cgroups.__new__(Cgroups)
        other._files, other._mounts, other.versions = files, self._mounts, self.versions
        return other

    def trees(self) -> list[str]:
        """Return the directories of all trees, each once."""
        return list(dict.fromkeys(self._mounts.values()))

    def top(self, name: str) -> Group:
        """Return the group of this name right below the roots of all trees."""
        return Group({controller: f"{mount}/{name}" for controller, mount in self._mounts.items()})

    def of(self, pid: int) -> Group:
        """Return the group of a process.  Raises KnobRefused where it has ended, or is not shown in every tree."""
        directories, file = {}, f"/proc/{pid}/cgroup"
        for line in self._files.read(file).splitlines():
            _, _, shown = line.partition(":")
            controllers, _, path = shown.partition(":")
            for controller in controllers.split(",") if controllers else self._unified():
                if controller in self._mounts and path.startswith("/"):
                    directories[controller] = self._mounts[controller] + path.rstrip("/")
        if lacks := self._mounts.keys() - directories.keys():
            raise KnobRefused(file, f"it shows no group of {', '.join(sorted(lacks))}")
        return Group(directories)

    def _unified(self) -> list[str]:
        return [controller for controller, version in self.versions.items() if version == 2]

    # ------------------------------------------------------------------ knobs

    def cpus(self, group: Group) -> frozenset[int]:
        """Return the CPUs on which a group may run now."""
        name = "cpuset.cpus" if self.versions["cpuset"] == 1 else "cpuset.cpus.effective"
        file = f"{group['cpuset']}/{name}"
        return frozenset(cpus_in(self._files.read(file), file))

    def cpus_file(self, group: Group) -> str:
        return f"{group['cpuset']}/cpuset.cpus"

    def set_cpus(self, group: Group, cpus: Iterable[int]) -> None:
        self._files.write(self.cpus_file(group), write_cpus(cpus))

    def set_quota(self, group: Group, cores: float | None) -> None:
        """Limit the CPU time to so many cores; None: no limit."""
        if self.versions["cpu"] == 1:
            quota = -1 if cores is None else max(1000, round(cores * PERIOD_US))
            self._files.write(f"{group['cpu']}/cpu.cfs_quota_us", str(quota))
        else:
            quota_text = "max" if cores is None else str(max(1000, round(cores * PERIOD_US)))
            self._files.write(f"{group['cpu']}/cpu.max", f"{quota_text} {PERIOD_US}")

    def set_idle(self, group: Group, idle: bool) -> None:
        """Let a group run only where nobody else wants to (SCHED_IDLE for the whole group)."""
        self._files.write(f"{group['cpu']}/cpu.idle", str(int(idle)))

    def set_frozen(self, group: Group, frozen: bool) -> None:
        if self.versions["freezer"] == 1:
            self._files.write(f"{group['freezer']}/freezer.state", "FROZEN" if frozen else "THAWED")
        else:
            self._files.write(f"{group['freezer']}/cgroup.freeze", str(int(frozen)))

    def frozen(self, group: Group) -> bool:
        """Return whether a group itself was told to stand still; its tasks may need a moment to do it."""
        if self.versions["freezer"] == 1:
            return self._files.read(f"{group['freezer']}/freezer.self_freezing").strip() == "1"
        return self._files.read(f"{group['freezer']}/cgroup.freeze").strip() == "1"

    def cpu_s(self, group: Group) -> float:
        """Return the CPU seconds that a group and those below it have used."""
        if self.versions["cpuacct"] == 1:
            file = f"{group['cpuacct']}/cpuacct.usage"
            return number_in(self._files.read(file), file) / 1e9
        file = f"{group['cpuacct']}/cpu.stat"
        words = self._files.read(file).split()
        return number_in(dict(zip(words[::2], words[1::2], strict=False)).get("usage_usec", ""), file) / 1e6

    def pids(self, group: Group) -> list[int]:
        """Return the processes of a group and of those below it.  Raises KnobRefused where a group shows no numbers."""
        return self._pids(group["cpuset"])

    def _pids(self, directory: str) -> list[int]:
        file = f"{directory}/cgroup.procs"
        try:
            text = self._files.read(file)
        except KnobRefused:
            if self._files.exists(file):
                raise
            return []  # it has just gone
        pids = numbers_in(text, file)
        for name in self._files.entries(directory):
            if may_be_group(name) and self._files.exists(f"{directory}/{name}/cgroup.procs"):
                pids += self._pids(f"{directory}/{name}")
        return pids


def may_be_group(name: str) -> bool:
    """Return whether a name in a group's directory can be that of another group, and not of a knob."""
    return name.partition(".")[0] not in KNOBS


def _mounted(files: KernelFiles) -> tuple[dict[str, str], dict[str, int]]:
    """Return controller -> where its tree is mounted, and its version."""
    mounts, versions = dict[str, str](), dict[str, int]()
    unified = ""
    for line in files.read(MOUNTS).splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup":
            for option in options.split(","):
                if option in ("cpuset", "cpu", "cpuacct", "freezer", "blkio", "memory", "pids", "devices", NAMED):
                    mounts[option], versions[option] = place, 1
        elif kind == "cgroup2":
            unified = unified or place
    if unified:
        mounts[UNIFIED], versions[UNIFIED] = unified, 2
    if unified and files.exists(f"{unified}/cgroup.controllers"):
        v2 = files.read(f"{unified}/cgroup.controllers").split()
        for controller in v2:
            if controller not in mounts:
                mounts[controller], versions[controller] = unified, 2
        if "cpu" in v2 and "cpuacct" not in mounts:
            mounts["cpuacct"], versions["cpuacct"] = unified, 2
        if "freezer" not in mounts:
            mounts["freezer"], versions["freezer"] = unified, 2
    return mounts, versions
