"""CPU counters of containers and of the host, read from the kernel's files, which costs next to nothing.

A container's counter is in its cgroup, found through /proc/<pid>/cgroup (cgroup v1: cpuacct.usage; v2: cpu.stat).
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def counter_file(proc: Path, pid: int, container: str) -> Path | None:
    """Return the file with a container's CPU time; None when its process is not in its cgroup on this machine."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines() if pid > 0 else []
        mounts = [line.split() for line in (proc / "self" / "mounts").read_text().splitlines()]
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container[:12] not in path:  # another machine's process with the same number, or a nested cgroup namespace
            continue
        if "cpuacct" in controllers.split(","):
            kind, name = "cgroup", "cpuacct.usage"
        elif not controllers:
            kind, name = "cgroup2", "cpu.stat"
        else:
            continue
        for mount in mounts:
            if mount[2] == kind and (kind == "cgroup2" or "cpuacct" in mount[3].split(",")):
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
