"""Counters of CPU states, I/O and network of this machine and of control groups, from the kernel's files.

/proc/stat, /proc/diskstats and /proc/net/dev are described in proc(5) and in the kernel's admin-guide/iostats; control
groups in admin-guide/cgroup-v1/cpuacct and admin-guide/cgroup-v2; /proc/<pid>/io in filesystems/proc.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from framework.errors import KnobRefused
from framework.model.energy import IO_BYTES, CpuTimes, IoBytes, Level, ServiceCounters
from framework.ports.kernel_files import KernelFiles
from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.disks import Disks, Limit
from framework.testbeds.host.kernel_numbers import number_in

STAT, DISKS, NETWORK = "/proc/stat", "/proc/diskstats", "/proc/net/dev"
SYS_BLOCK, SYS_NETWORK = "/sys/block", "/sys/class/net"
STATES_SHOWN = 10  # of a CPU in /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice
FEWEST_STATES = 4  # of a kernel so old that it has no others
SECTORS_READ, SECTORS_WRITTEN = 5, 9  # places in a line of /proc/diskstats, whose sectors always have 512 bytes
PROCESS_IO = (("rchar", "wchar"), ("read_bytes", "write_bytes"))
PROCESS_LEVELS: tuple[Level, Level] = ("application", "block")


class EnergyFiles:
    """Reader of these counters.  ``hertz``: ticks per second of /proc/stat; by default this kernel's."""

    def __init__(self, files: KernelFiles, hertz: float | None = None) -> None:
        self._files = files
        self._hertz = hertz or float(os.sysconf("SC_CLK_TCK"))
        self.cgroups = Cgroups(files)
        self._disks = Disks(self.cgroups)

    # ------------------------------------------------------------------ the machine

    def cpu(self) -> tuple[CpuTimes, int]:
        """Return the seconds of all CPUs in each state since the machine started, and how many CPUs there are.

        The kernel counts the time of virtual machines' CPUs in ``user`` and ``nice`` too; it is taken out of them.
        Raises KnobRefused.
        """
        lines = self._files.read(STAT).splitlines()
        words = next((line.split() for line in lines if line.startswith("cpu ")), [])
        if len(words) <= FEWEST_STATES:
            raise KnobRefused(STAT, "it shows no states of the CPUs")
        shown = [number_in(word, STAT) / self._hertz for word in words[1 : 1 + STATES_SHOWN]]
        user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = (
            *shown,
            *[0.0] * (STATES_SHOWN - len(shown)),
        )
        guests = guest + guest_nice
        times = CpuTimes(max(0.0, user + nice - guests), system, irq, softirq, steal, guests, idle, iowait)
        return times, sum(line[:3] == "cpu" and line[3:4].isdigit() for line in lines)

    def device_io(self) -> IoBytes | None:
        """Return the bytes that all disks have read and written; None on a machine that shows no disk.

        Volumes that lie on other disks (LVM, RAID) are left out: their bytes are those of these disks.  Raises
        KnobRefused.
        """
        disks = {name for name in self._disks.names().values() if not self._files.entries(f"{SYS_BLOCK}/{name}/slaves")}
        if not disks:
            return None
        read = written = 0
        for words in map(str.split, self._files.read(DISKS).splitlines()):
            if len(words) > SECTORS_WRITTEN and words[2] in disks:
                read += number_in(words[SECTORS_READ], DISKS)
                written += number_in(words[SECTORS_WRITTEN], DISKS)
        return IoBytes(float(read * IO_BYTES), float(written * IO_BYTES))

    def network(self) -> tuple[float, float] | None:
        """Return bytes (received, sent) of the interfaces that have a device; None without any.

        Bridges and the ends of containers' networks have none: what goes through them would count twice.  Raises
        KnobRefused.
        """
        received = sent = 0
        counted = False
        for line in self._files.read(NETWORK).splitlines():
            name, colon, numbers = line.partition(":")
            words = numbers.split()
            if colon and len(words) > 8 and self._files.exists(f"{SYS_NETWORK}/{name.strip()}/device"):
                received += number_in(words[0], NETWORK)
                sent += number_in(words[8], NETWORK)
                counted = True
        return (float(received), float(sent)) if counted else None

    # ------------------------------------------------------------------ control groups

    def group_counters(self, group: Group) -> ServiceCounters:
        """Return CPU time and I/O of a group's processes.  Raises KnobRefused where the CPU time cannot be read."""
        user_s, system_s = self._cpu_of(group)
        return ServiceCounters(user_s, system_s, self._io_of(group))

    def throttle(self, group: Group, bps: int) -> None:
        """Limit what a group reads from each disk, and writes to it, to so many bytes a second; 0: no longer.

        Raises KnobRefused.
        """
        if not bps:
            self._disks.lift(group)
            return
        if lack := self._disks.missing():
            raise KnobRefused("disks", lack)
        for disk, name in self._disks.names().items():
            if not self._files.entries(f"{SYS_BLOCK}/{name}/slaves"):
                self._disks.set(group, disk, Limit(bps, bps))

    def _cpu_of(self, group: Group) -> tuple[float, float]:
        directory = group["cpuacct"]
        if self.cgroups.versions["cpuacct"] == 2:
            file = f"{directory}/cpu.stat"
            words = self._files.read(file).split()
            shown = dict(zip(words[::2], words[1::2], strict=False))
            user, system = (number_in(shown.get(key, ""), file) / 1e6 for key in ("user_usec", "system_usec"))
            return user, system
        if self._files.exists(f"{directory}/cpuacct.usage_user"):
            files = (f"{directory}/cpuacct.usage_{part}" for part in ("user", "sys"))
            user, system = (number_in(self._files.read(file), file) / 1e9 for file in files)
            return user, system
        file = f"{directory}/cpuacct.stat"
        words = self._files.read(file).split()
        shown = dict(zip(words[::2], words[1::2], strict=False))
        user, system = (number_in(shown.get(key, ""), file) / self._hertz for key in ("user", "system"))
        return user, system

    def _io_of(self, group: Group) -> dict[Level, IoBytes]:
        """Return the I/O of a group's processes by level; empty where it may not be read.

        Processes that have ended count with the process that waited for them, as long as that runs.
        """
        read = {level: [0, 0] for level in PROCESS_LEVELS}
        try:
            for pid in self.cgroups.pids(group):
                for level, counts in self._process_io(pid).items():
                    read[level][0] += counts[0]
                    read[level][1] += counts[1]
        except KnobRefused:
            return {}
        return {level: IoBytes(float(counts[0]), float(counts[1])) for level, counts in read.items()}

    def _process_io(self, pid: int) -> dict[Level, tuple[int, int]]:
        file = f"/proc/{pid}/io"
        try:
            text = self._files.read(file)
        except KnobRefused:
            if self._files.exists(file):
                raise
            return {}  # it has just ended
        shown = {name: number_in(value, file) for name, value in _pairs(text.splitlines()).items()}
        try:
            asked, passed_on = ((shown[read], shown[written]) for read, written in PROCESS_IO)
        except KeyError as error:
            raise KnobRefused(file, f"it does not show {error}") from error
        # Bytes that were changed in memory, and removed before they were written, are counted as written at first.
        cancelled = shown.get("cancelled_write_bytes", 0)
        return {"application": asked, "block": (passed_on[0], max(0, passed_on[1] - cancelled))}


def _pairs(lines: Iterable[str]) -> dict[str, str]:
    """Return name -> value of lines such as "rchar: 4096"."""
    return {name.strip(): value for name, _, value in (line.partition(":") for line in lines)}
