"""The pretended tree of files, and the little of /proc that its users need."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from framework.errors import KnobRefused
from framework.model.cpus import write_cpus
from framework.testing.pretend_resctrl.groups import COUNTER, Groups, Task, is_mon, mask_text, usage
from framework.testing.pretend_resctrl.machines import CacheMachine
from framework.testing.pretend_resctrl.schemata import BadCommand, CacheLine, table
from framework.testing.pretend_resctrl.traffic import Traffic, silent

ROOT = "/sys/fs/resctrl"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
STARTED = 22  # field of /proc/PID/stat
LOCAL = 0.75  # of the traffic goes to memory of the own node


@dataclass(frozen=True, slots=True)
class _File:
    """``write``: None: it cannot be written.  ``command``: a write begins a new last_cmd_status."""

    read: Callable[[], str]
    write: Callable[[str], None] | None = None
    command: bool = True


@dataclass(slots=True)
class PretendResctrl:
    """Implements ``framework.ports.kernel_files.KernelFiles`` for /sys/fs/resctrl.

    ``traffic``: what groups read and write a second, see ``framework.testing.pretend_resctrl.traffic``; counted in
    ``advance`` only.  ``refuse``: called with write, make or remove and a path before anything is done; a text refuses
    it.  ``mounted`` false: the kernel has resctrl, and nobody mounted it.
    """

    machine: CacheMachine
    traffic: Traffic = silent
    refuse: Callable[[str, str], str] = lambda operation, path: ""
    mounted: bool = True
    boot: str = "boot-1"
    groups: Groups = field(init=False)
    ticks: int = field(init=False, default=1000)
    _status: str = field(init=False, default="")
    _threshold: int = field(init=False, default=540672)

    def __post_init__(self) -> None:
        self.groups = Groups(self.machine)

    # ------------------------------------------------------------------ the world

    def start(self, process: int, threads: Iterable[int] = (), of: int | None = None) -> None:
        """Start a process, or threads of one that runs; ``of``: the task that forks, whose group is inherited."""
        tasks = self.groups.tasks
        group = tasks[of].group if of is not None else ""
        for number in (process, *threads):
            if number not in tasks:
                self.ticks += 1
                tasks[number] = Task(process, self.ticks, group)

    def end(self, process: int) -> None:
        """End a process with its threads."""
        tasks = self.groups.tasks
        for number in [number for number, task in tasks.items() if task.process == process]:
            del tasks[number]

    def advance(self, seconds: float) -> None:
        """Let time pass: counters grow by the traffic, evenly over cache ids, and removed groups' lines are evicted."""
        flows = self.traffic({path: self.groups.share(path) for path in self.groups.groups})
        self.groups.limbo = 0
        for path, group in self.groups.groups.items():
            each = flows.get(path, 0.0) * seconds / len(self.machine.ids)
            for (number, event), count in group.counted.items():
                if event != "llc_occupancy":
                    more = each * LOCAL if event == "mbm_local_bytes" else each
                    group.counted[number, event] = ((count or 0) + round(more)) % COUNTER

    def set_count(self, path: str, number: int, event: str, count: int | None) -> None:
        """Set a counter of a group (its path below the root); None: unavailable until time passes."""
        self.groups.groups[path].counted[number, event] = count

    def tree(self) -> dict[str, str]:
        """Return path -> text of all files but counters and last_cmd_status, to compare."""
        table = self._table()
        return {
            path: file.read()
            for path, file in table.items()
            if path.startswith(ROOT) and "/mon_data/" not in path and not path.endswith("last_cmd_status")
        }

    # ------------------------------------------------------------------ the port

    def read(self, path: str) -> str:
        return self._file(path, path).read()

    def write(self, path: str, text: str) -> None:
        knob = f"{path} = {text.strip()}"
        self._refuse("write", path, knob)
        file = self._file(path, knob)
        write = file.write
        if write is None:
            raise KnobRefused(knob, os.strerror(errno.EACCES))
        self._command(knob, lambda: write(text), file.command)

    def exists(self, path: str) -> bool:
        table = self._table()
        return path in table or any(file.startswith(f"{path}/") for file in table) or path in self._directories()

    def entries(self, path: str) -> list[str]:
        known = [*self._table(), *self._directories()]
        return sorted({file[len(path) + 1 :].split("/")[0] for file in known if file.startswith(f"{path}/")})

    def make(self, path: str) -> None:
        self._refuse("make", path, path)
        if self.exists(path):
            return
        if not path.startswith(f"{ROOT}/") or not self.mounted:
            raise KnobRefused(path, os.strerror(errno.ENOENT))
        self._command(path, lambda: self.groups.make(path[len(ROOT) + 1 :]))

    def remove(self, path: str) -> None:
        self._refuse("remove", path, path)
        if self.exists(path):
            below = path[len(ROOT) + 1 :]
            # rmdir says nothing in last_cmd_status
            self._command(path, lambda: self.groups.remove(below), clear=False)

    # ------------------------------------------------------------------ inside

    def _refuse(self, operation: str, path: str, knob: str) -> None:
        reason = self.refuse(operation, path)
        if reason:
            raise KnobRefused(knob, reason)

    def _command(self, knob: str, command: Callable[[], None], clear: bool = True) -> None:
        before = self._status
        if clear:
            self._status = ""
        try:
            command()
        except BadCommand as error:
            self._status = error.status if clear else before
            raise KnobRefused(knob, os.strerror(error.number)) from error

    def _file(self, path: str, knob: str) -> _File:
        file = self._table().get(path)
        if file is None:
            raise KnobRefused(knob, os.strerror(errno.ENOENT))
        return file

    def _directories(self) -> list[str]:
        """Return directories that may be empty."""
        if not self.mounted or not self.machine.rmids:
            return [ROOT]  # the mount point is the kernel's
        return [ROOT, *(f"{_directory(path)}/mon_groups" for path in self.groups.groups if not is_mon(path))]

    def _table(self) -> dict[str, _File]:
        files = self._proc()
        if self.mounted:
            files |= self._info()
            for path in self.groups.groups:
                files |= {f"{_directory(path)}/{name}": file for name, file in self._group(path).items()}
        return files

    def _proc(self) -> dict[str, _File]:
        files = {BOOT_ID: _text(f"{self.boot}\n"), "/proc/mounts": _File(self._mounts)}
        for number, task in self.groups.tasks.items():
            stat = _text(" ".join([str(number), "(a (b) c)", "S", *["0"] * (STARTED - 4), str(task.started), "0\n"]))
            files[f"/proc/{task.process}/task/{number}/stat"] = stat
            files[f"/proc/{number}/stat"] = stat
        return files

    def _mounts(self) -> str:
        cache, bandwidth = self.machine.cache, self.machine.bandwidth
        options = (",cdp" if cache and cache.split else "") + (",mba_MBps" if bandwidth and bandwidth.megabytes else "")
        proc = "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n"
        return proc + (f"resctrl {ROOT} resctrl rw,relatime{options} 0 0\n" if self.mounted else "")

    def _info(self) -> dict[str, _File]:
        files = {"last_cmd_status": _File(lambda: self._status or "ok\n")}
        for line in self.groups.lines:
            if isinstance(line, CacheLine):
                files |= self._cache_info(line)
        bandwidth = self.machine.bandwidth
        if bandwidth:
            files |= {
                "MB/num_closids": _text(f"{bandwidth.classes}\n"),
                "MB/min_bandwidth": _text(f"{bandwidth.least}\n"),
                "MB/bandwidth_gran": _text(f"{bandwidth.step}\n"),
                "MB/delay_linear": _text(f"{int(bandwidth.linear)}\n"),
            }
        if self.machine.rmids:
            files |= {
                "L3_MON/num_rmids": _text(f"{self.machine.rmids}\n"),
                "L3_MON/mon_features": _text("".join(f"{name}\n" for name in self.machine.features)),
                "L3_MON/max_threshold_occupancy": _File(
                    lambda: f"{self._threshold}\n", self._set_threshold, command=False
                ),
            }
        return {f"{ROOT}/info/{name}": file for name, file in files.items()}

    def _cache_info(self, line: CacheLine) -> dict[str, _File]:
        cache = line.cache
        return {
            f"{line.name}/num_closids": _text(f"{cache.classes // (2 if cache.split else 1)}\n"),
            f"{line.name}/cbm_mask": _text(f"{cache.mask:x}\n"),
            f"{line.name}/min_cbm_bits": _text(f"{cache.least}\n"),
            f"{line.name}/shareable_bits": _text(f"{cache.shareable:x}\n"),
            f"{line.name}/sparse_masks": _text(f"{int(cache.sparse)}\n"),
            f"{line.name}/bit_usage": _File(lambda: usage(self.groups, line)),
        }

    def _group(self, path: str) -> Mapping[str, _File]:
        groups, group = self.groups, self.groups.groups[path]
        most = max(cpu for cpus in self.machine.cpus.values() for cpu in cpus)
        files = {
            "tasks": _File(
                lambda: "".join(f"{number}\n" for number in groups.members(path)),
                lambda text: groups.move_tasks(path, text),
            ),
            "cpus": _File(lambda: mask_text(group.cpus, most) + "\n", lambda text: groups.set_cpus(path, text, False)),
            "cpus_list": _File(lambda: write_cpus(group.cpus) + "\n", lambda text: groups.set_cpus(path, text, True)),
        }
        if not is_mon(path) and groups.lines:
            files |= {
                "schemata": _File(
                    lambda: table(self.machine, group.values), lambda text: groups.set_values(path, text)
                ),
                "size": _File(lambda: table(self.machine, group.values, sizes=True)),
                "mode": _File(lambda: f"{group.mode}\n", lambda text: groups.set_mode(path, text)),
            }
        if self.machine.rmids:
            for number, event in group.counted:
                files[f"mon_data/mon_L3_{number:02d}/{event}"] = _File(
                    lambda number=number, event=event: self._count(path, number, event)  # type: ignore[misc]
                )
        return files

    def _count(self, path: str, number: int, event: str) -> str:
        count = self.groups.count(path, number, event)
        if count is None:
            return "Unavailable\n"
        line = next((line for line in self.groups.lines if isinstance(line, CacheLine)), None)
        if event == "llc_occupancy" and line is not None and self.groups.members(path):
            count = line.size(self.groups.share(path).masks[number])  # a group fills its ways
        return f"{count}\n"

    def _set_threshold(self, text: str) -> None:
        if not text.strip().isdigit():
            raise BadCommand(errno.EINVAL)
        self._threshold = int(text)


def _directory(path: str) -> str:
    return f"{ROOT}/{path}" if path else ROOT


def _text(text: str) -> _File:
    return _File(lambda: text)
