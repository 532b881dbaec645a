"""CPU counters of containers and of the host, and containers' memory, from the kernel's files: next to nothing to read.

They are in a container's cgroup, found through /proc/<pid>/cgroup (cgroup v1: cpuacct.usage, memory.usage_in_bytes; v2:
cpu.stat, memory.current).
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


CPU = ("cpuacct", "cpuacct.usage", "cpu.stat")
MEMORY = ("memory", "memory.usage_in_bytes", "memory.current")
"""(controller of cgroup v1, its file there, the file of cgroup v2)."""


def counter_file(proc: Path, pid: int, container: str, kind: tuple[str, str, str] = CPU) -> Path | None:
    """Return the file with a container's CPU time, or memory; None when its process is not in its cgroup here."""
    controller, of_first, of_second = kind
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines() if pid > 0 else []
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container[:12] not in path:  # another machine's process with the same number, or a nested cgroup namespace
            continue
        if controller in controllers.split(","):
            system, name = "cgroup", of_first
        elif not controllers:
            system, name = "cgroup2", of_second
        else:
            continue
        for mount in mounts:
            if mount[2] == system and (system == "cgroup2" or controller in mount[3].split(",")):
                file = Path(mount[1]) / path.lstrip("/") / name
                if file.exists():
                    return file
    return None


def parse_counter(text: str) -> float:
    """Return the CPU seconds in the text of cpuacct.usage (nanoseconds) or cpu.stat (usage_usec)."""
    words = text.split()
    if words and words[0].isdigit():
        return int(words[0]) / 1e9
    return int(words[words.index("usage_usec") + 1]) / 1e6


def memory_bytes(file: Path) -> float:
    """Return a container's memory, without the file cache that the kernel could drop.  Raises OSError, ValueError.

    ``file``: of ``counter_file`` with MEMORY; memory.stat is beside it.
    """
    whole = int(file.read_text())
    about = dict(line.split()[:2] for line in (file.parent / "memory.stat").read_text().splitlines())
    dropped = int(about.get("total_inactive_file", about.get("inactive_file", 0)))  # cgroup v1, v2
    return float(max(0, whole - dropped))


def host_cpu(proc: Path = PROC) -> tuple[float, float]:
    """Return (busy, stolen) CPU seconds of this machine since it booted; proc(5) describes the fields."""
    fields = (proc / "stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(value) for value in fields]
    hertz = os.sysconf("SC_CLK_TCK")
    user, nice, system, _idle, _iowait, irq, softirq = ticks[:7]
    stolen = ticks[7] if len(ticks) > 7 else 0
    return (user + nice + system + irq + softirq) / hertz, stolen / hertz


def pressure(proc: Path = PROC) -> float | None:
    """Return the seconds in which some task waited for a CPU (PSI, total= in microseconds); None without PSI."""
    try:
        text = (proc / "pressure" / "cpu").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "some":
            return float(words[-1].removeprefix("total=")) / 1e6
    return None
