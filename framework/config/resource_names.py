"""Names of what compose gives a container: CPUs, memory, replicas, ulimits and sysctls."""

from __future__ import annotations

import re

RESOURCES = ("cpus", "memory", "replicas")
ALLOWED_RESOURCES = "cpus, memory, replicas, ulimit:NAME, sysctl:NAME"
ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
)  # fmt: skip
# Settings of the kernel that each container has for itself (docker run, "Configure namespaced kernel parameters").
SYSCTLS = (
    "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni",
    "kernel.shm_rmid_forced",
)  # fmt: skip
ALLOWED_SYSCTLS = f"a setting that a container has for itself: {', '.join(SYSCTLS)}, fs.mqueue.*, net.*"
_BELOW = re.compile(r"(net|fs\.mqueue)(\.[A-Za-z0-9_-]+)+")
_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MEMORY_UNITS = {"": "b", "b": "b", "kib": "k", "mib": "m", "gib": "g", "kb": "k", "mb": "m", "gb": "g"}


def is_key(name: str) -> bool:
    """Return whether a name is a path of compose keys, such as ``deploy.resources.limits.cpus``."""
    return name not in RESOURCES and not name.startswith(("ulimit:", "sysctl:"))


def resource_problem(name: str) -> str:
    """Return what is allowed instead of a name; empty where it is the name of a resource."""
    kind, _, rest = name.partition(":")
    if kind == "ulimit":
        return "" if rest in ULIMITS else f"ulimit: and one of {', '.join(ULIMITS)}"
    if kind == "sysctl":
        return "" if rest in SYSCTLS or _BELOW.fullmatch(rest) else f"sysctl: and {ALLOWED_SYSCTLS}"
    return "" if name in RESOURCES else f"one of {ALLOWED_RESOURCES}"


def memory_unit(unit: str) -> str:
    """Return compose's name of a unit of memory; the unit itself where it has none, which the schema refuses."""
    return _MEMORY_UNITS.get(unit.lower(), unit)


def bytes_of(unit: str) -> int:
    """Return the bytes of a unit of memory that compose knows."""
    return _BYTES[_MEMORY_UNITS[unit.lower()]]


def is_memory_unit(unit: str) -> bool:
    """Return whether compose knows a unit of memory."""
    return unit.lower() in _MEMORY_UNITS
