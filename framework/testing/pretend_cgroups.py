"""A pretended kernel's control groups, of version 1 and 2, behind the port of kernel files.

It has the rules that adapters meet: a cpuset of v1 stays inside its parent's and around its children's; one with tasks
cannot be empty; a group with tasks or children cannot be removed; a quota has a least value; a group frozen from above
says so; a controller of v2 that a group below gives to its own children cannot be taken away.  Time passes only in
``run``, in which groups use CPU time, and in ``disks.work``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from framework.errors import InputError, KnobRefused
from framework.model.cpus import read_cpus, write_cpus
from framework.testing.pretend_disks import BLOCK, PretendDisks

ROOT = "/sys/fs/cgroup"
V1 = ("cpuset", "cpu", "cpuacct", "freezer", "memory", "blkio", "pids", "devices")
V2 = ("cpuset", "cpu", "io", "memory", "pids")
LEAST_QUOTA_US = 1000


@dataclass(slots=True)
class PretendGroup:
    """``cpus``: None: none of its own (v2).  ``quota``: cores.  ``used_s``: CPU time of its own tasks.  ``memory``: its
    limit, as written; empty: none.
    """

    cpus: frozenset[int] | None = None
    mems: str = ""
    quota: float | None = None
    idle: bool = False
    frozen: bool = False
    used_s: float = 0.0
    memory: str = ""
    controllers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class PretendKernel:
    """Implements ``framework.ports.kernel_files.KernelFiles``.  ``version``: 1 or 2.  ``cpus``: of the machine.

    ``refuse``: called with an operation and a path before anything is done; a text refuses it.  ``pids``: process ->
    path of its group below the root; ``born``: process -> when it started.  ``lacks``: controllers that it was built
    without.
    """

    version: int = 1
    cpus: frozenset[int] = frozenset(range(8))
    refuse: Callable[[str, str], str] = lambda operation, path: ""
    groups: dict[str, PretendGroup] = field(default_factory=dict)
    pids: dict[int, str] = field(default_factory=dict)
    born: dict[int, int] = field(default_factory=dict)
    boot: str = "boot-1"
    pressure_us: int = 0
    lacks: frozenset[str] = frozenset()
    disks: PretendDisks = field(init=False)

    def __post_init__(self) -> None:
        self.groups[""] = PretendGroup(self.cpus, "0")
        self.disks = PretendDisks(self.version)

    # ------------------------------------------------------------------ the world

    def add(self, path: str, pid: int) -> None:
        """Start a process in a new group, as an engine does: with its parent's CPUs, and (v2) the controller io."""
        self._create(path)
        for above in _above(path)[1:]:
            self.groups[above].controllers |= {"io"} if self.version == 2 else set()
        self.join(path, pid)

    def join(self, path: str, pid: int) -> None:
        """Start a process in a group that exists."""
        self.pids[pid] = path
        self.born[pid] = len(self.born) + 1

    def leave(self, pid: int) -> None:
        """End a process; its group stays."""
        del self.pids[pid]

    def end(self, pid: int) -> None:
        """End a process; its group goes with its last one, as an engine removes it."""
        path = self.pids.pop(pid)
        if path not in self.pids.values():
            self.groups.pop(path, None)
            self.disks.forget(path)

    def run(self, path: str, seconds: float) -> None:
        """Let the tasks of a group use CPU time."""
        self.groups[path].used_s += seconds

    def stands_still(self, path: str) -> bool:
        """Return whether a group or one above it is frozen."""
        return any(self.groups[above].frozen for above in _above(path) if above in self.groups)

    def effective(self, path: str) -> frozenset[int]:
        """Return the CPUs on which a group's tasks may run."""
        allowed = self.cpus
        for above in reversed(_above(path)):
            own = self.groups[above].cpus
            if own is not None:
                allowed = (own & allowed) or allowed
        return allowed

    def shown(self) -> dict[str, tuple[object, ...]]:
        """Return all that a guard may change: two equal answers mean that nothing was changed."""
        return {
            path: (
                group.cpus,
                group.quota,
                group.idle,
                group.frozen,
                frozenset(group.controllers),
                frozenset(self.disks.limits.get(path, {}).items()),
            )
            for path, group in self.groups.items()
        }

    # ------------------------------------------------------------------ the files

    def read(self, path: str) -> str:
        self._check("read", path)
        if path == "/proc/self/mounts":
            return self._mounts()
        if path == "/proc/sys/kernel/random/boot_id":
            return self.boot + "\n"
        if path == "/proc/pressure/cpu":
            return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={self.pressure_us}\n"
        if path.startswith("/proc/"):
            return self._of_process(path)
        if path.startswith(BLOCK):
            return self.disks.read(path)
        group, name = self._group(path)
        text = self._knob(group, name)
        if text is None:
            raise KnobRefused(path, "No such file or directory")
        return text + "\n"

    def write(self, path: str, text: str) -> None:
        self._check("write", path)
        group, name = self._group(path)
        if self._knob(group, name) is None:
            raise KnobRefused(path, "No such file or directory")
        self._set(path, group, name, text.strip())

    def exists(self, path: str) -> bool:
        if path.startswith("/proc/"):
            parts = path.split("/")
            return not parts[2].isdigit() or int(parts[2]) in self.pids
        try:
            group, name = self._group(path)
        except KnobRefused:
            return False
        return not name or self._knob(group, name) is not None

    def entries(self, path: str) -> list[str]:
        if path.startswith("/proc/"):
            pid = path.split("/")[2]
            return [pid] if int(pid) in self.pids else []
        if path.startswith(BLOCK):
            return self.disks.entries(path)
        try:
            group, _ = self._group(path)
        except KnobRefused:
            return []
        below = [other[len(group) + 1 :] for other in self.groups if other and other.startswith(f"{group}/")]
        return sorted({name for name in below if "/" not in name} | {"cgroup.procs"})

    def make(self, path: str) -> None:
        self._check("make", path)
        self._create(self._below(path))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        group = self._below(path)
        if group not in self.groups:
            return
        children = [other for other in self.groups if other.startswith(f"{group}/")]
        if children or group in self.pids.values():
            raise KnobRefused(path, "Device or resource busy")
        del self.groups[group]
        self.disks.forget(group)

    # ------------------------------------------------------------------ rules

    def _create(self, path: str) -> None:
        for above in reversed(_above(path)):
            if above not in self.groups:
                parent = self.groups[above.rpartition("/")[0]]
                inherits = self.version == 1
                self.groups[above] = PretendGroup(parent.cpus if inherits else None, parent.mems if inherits else "")

    def _check(self, operation: str, path: str) -> None:
        reason = self.refuse(operation, path)
        if reason:
            raise KnobRefused(path, reason)

    def _mounts(self) -> str:
        if self.version == 2:
            return f"cgroup2 {ROOT} cgroup2 rw,relatime 0 0\n"
        lines = [f"cgroup {ROOT}/{name} cgroup rw,relatime,{name} 0 0" for name in V1 if name not in self.lacks]
        return "\n".join(["proc /proc proc rw 0 0", *lines]) + "\n"

    def _of_process(self, path: str) -> str:
        _, _, pid, *rest = path.split("/")
        if not pid.isdigit() or int(pid) not in self.pids:
            raise KnobRefused(path, "No such file or directory")
        if rest == ["cgroup"]:
            group = self.pids[int(pid)]
            if self.version == 2:
                return f"0::{group}\n"
            return "".join(f"{number}:{name}:{group}\n" for number, name in enumerate(V1, 1) if name not in self.lacks)
        if rest == ["stat"]:
            return f"{pid} (a task) S {'0 ' * 18}{self.born[int(pid)]} 0\n"
        return "0 0 0\n"  # schedstat of a thread that never waited

    def _below(self, path: str) -> str:
        """Return a directory's path below the root of its tree."""
        rest = path.removeprefix(ROOT)
        if self.version == 1:
            rest = rest.removeprefix("/" + rest.split("/")[1]) if rest else rest
        return rest.rstrip("/")

    def _group(self, path: str) -> tuple[str, str]:
        """Return (group, name of a knob; empty for the group's own directory)."""
        below = self._below(path)
        if below in self.groups:
            return below, ""
        directory, _, name = below.rpartition("/")
        if directory not in self.groups:
            raise KnobRefused(path, "No such file or directory")
        return directory, name

    def _knob(self, path: str, name: str) -> str | None:
        """Return the text of a knob of a group; None where it has none of this name."""
        group = self.groups[path]
        if name == "cgroup.procs":
            return "\n".join(str(pid) for pid, where in self.pids.items() if where == path)
        if name == "cpuset.cpus":
            return write_cpus(group.cpus or ())
        if name == "cpuset.mems":
            return group.mems
        if name == "cpu.idle":
            return str(int(group.idle)) if path else None
        if self._has_disks(path) and name in (disk := self.disks.knobs(path)):
            return disk[name]
        return self._knob_1(path, group, name) if self.version == 1 else self._knob_2(path, group, name)

    def _knob_1(self, path: str, group: PretendGroup, name: str) -> str | None:
        match name:
            case "cpu.cfs_quota_us":
                return str(-1 if group.quota is None else round(group.quota * 1e5))
            case "cpu.cfs_period_us":
                return "100000"
            case "cpuacct.usage":
                return str(round(self._used_s(path) * 1e9))
            case "freezer.state":
                return "FROZEN" if self.stands_still(path) else "THAWED"
            case "freezer.self_freezing":
                return str(int(group.frozen))
            case "memory.limit_in_bytes":
                return group.memory
        return None

    def _knob_2(self, path: str, group: PretendGroup, name: str) -> str | None:
        match name:
            case "cpuset.cpus.effective":
                return write_cpus(self.effective(path))
            case "cpu.max":
                return f"{'max' if group.quota is None else round(group.quota * 1e5)} 100000"
            case "cpu.stat":
                return f"usage_usec {round(self._used_s(path) * 1e6)}\nuser_usec 0"
            case "cgroup.freeze":
                return str(int(group.frozen))
            case "cgroup.controllers":
                return " ".join(name for name in V2 if name not in self.lacks)
            case "cgroup.subtree_control":
                return " ".join(sorted(group.controllers))
            case "memory.max" if path and "memory" in self.groups[path.rpartition("/")[0]].controllers:
                return group.memory
        return None

    def _used_s(self, path: str) -> float:
        """Return the CPU time of a group and of those below it."""
        below = f"{path}/"
        return sum(group.used_s for where, group in self.groups.items() if where == path or where.startswith(below))

    def _has_disks(self, path: str) -> bool:
        if self.version == 1:
            return "blkio" not in self.lacks
        return bool(path) and "io" in self.groups[path.rpartition("/")[0]].controllers - self.lacks

    def _set(self, path: str, where: str, name: str, text: str) -> None:
        group = self.groups[where]
        match name:
            case "cpuset.cpus":
                self._set_cpus(path, where, text)
            case "cpuset.mems":
                group.mems = text
            case "cpu.idle":
                group.idle = text == "1"
            case "cpu.cfs_quota_us":
                group.quota = self._quota(path, text if text != "-1" else "max")
            case "cpu.max":
                group.quota = self._quota(path, text.split()[0])
            case "memory.limit_in_bytes" | "memory.max":
                group.memory = text
            case "freezer.state" if text in ("FROZEN", "THAWED"):
                group.frozen = text == "FROZEN"
            case "cgroup.freeze" if text in ("0", "1"):
                group.frozen = text == "1"
            case "cgroup.subtree_control" if text[1:] in V2:
                self._set_controller(path, where, text)
            case _:
                self.disks.set(path, where, name, text)

    def _set_controller(self, path: str, where: str, text: str) -> None:
        sign, controller = text[0], text[1:]
        below = [group for other, group in self.groups.items() if other and other.rpartition("/")[0] == where]
        if sign == "-" and any(controller in group.controllers for group in below):
            raise KnobRefused(path, "Device or resource busy")
        own = self.groups[where].controllers
        self.groups[where].controllers = own | {controller} if sign == "+" else own - {controller}

    def _quota(self, path: str, text: str) -> float | None:
        if text == "max":
            return None
        if not text.isdigit() or int(text) < LEAST_QUOTA_US:
            raise KnobRefused(path, "Invalid argument")
        return int(text) / 1e5

    def _set_cpus(self, path: str, where: str, text: str) -> None:
        try:
            cpus = frozenset(read_cpus(text))
        except InputError:
            raise KnobRefused(path, "Invalid argument") from None
        if not cpus <= self.cpus:
            raise KnobRefused(path, "Invalid argument")
        if self.version == 2:
            self.groups[where].cpus = cpus or None
            return
        parent = self.groups[where.rpartition("/")[0]] if where else None
        if not cpus and where in self.pids.values():
            raise KnobRefused(path, "No space left on device")
        if parent is not None and not cpus <= (parent.cpus or frozenset()):
            raise KnobRefused(path, "Permission denied")
        children = [group for other, group in self.groups.items() if other.rpartition("/")[0] == where and other]
        if any(not (child.cpus or frozenset()) <= cpus for child in children):
            raise KnobRefused(path, "Device or resource busy")
        self.groups[where].cpus = cpus


def _above(path: str) -> list[str]:
    """Return a group's path and those of all above it, the root last."""
    paths = []
    while path:
        paths.append(path)
        path = path.rpartition("/")[0]
    return [*paths, ""]
