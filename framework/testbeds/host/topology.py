"""Topology of the machine as its kernel describes it: which CPUs share a core, a cache, a memory node, a socket.

Source: the kernel's ABI documents sysfs-devices-system-cpu and cputopology.  Numbers may have gaps, CPUs may be
offline, and a virtual machine or a container may not describe its caches: nothing missing is guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from framework.errors import InputError, MissingPrerequisite
from framework.model.cpus import read_cpus, write_cpus
from framework.model.topology import Cache, Cpu, Topology

SYSFS = Path("/sys")
KINDS = {"Data": "d", "Instruction": "i", "Unified": ""}
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def read_topology(root: Path = SYSFS, allowed: Collection[int] | None = None) -> Topology:
    """Read the topology from the sysfs at ``root``.  ``allowed``: the CPUs that may be used; None: all that are online.

    Raises MissingPrerequisite where sysfs does not describe the CPUs, InputError where a list of
    CPUs cannot be read or none of ``allowed`` is online.
    """
    directory = root / "devices" / "system" / "cpu"
    if not (directory / "online").is_file():
        raise MissingPrerequisite(f"{directory}: the kernel does not describe its CPUs here", "use Linux with /sys")
    online = read_cpus((directory / "online").read_text())
    present = read_cpus(_text(directory / "present") or write_cpus(online))
    usable = online if allowed is None else tuple(cpu for cpu in online if cpu in allowed)
    if not usable:
        raise InputError(f"CPUs: none of {write_cpus(allowed or ())} is online; allowed: some of {write_cpus(online)}")
    whole = Topology(
        tuple(_cpu(directory / f"cpu{number}", number) for number in online),
        tuple(sorted(_caches(directory, online), key=lambda cache: (cache.level, cache.kind, cache.cpus))),
        tuple(sorted(set(present) - set(online))),
        _memory_mib(root / "devices" / "system" / "node"),
    )
    return whole.only(usable)


def _cpu(directory: Path, number: int) -> Cpu:
    topology = directory / "topology"
    # core_cpus_list is the newer name; old kernels have thread_siblings_list only.
    siblings = _text(topology / "core_cpus_list") or _text(topology / "thread_siblings_list") or str(number)
    package = _text(topology / "physical_package_id")
    nodes = sorted(int(path.name[4:]) for path in directory.glob("node*") if path.name[4:].isdigit())
    return Cpu(
        number,
        core=min(read_cpus(siblings), default=number),
        package=max(0, int(package)) if package else 0,  # -1: the firmware does not say
        node=nodes[0] if nodes else 0,
    )


def _caches(directory: Path, online: Sequence[int]) -> set[Cache]:
    caches = set()
    for number in online:
        for path in (directory / f"cpu{number}" / "cache").glob("index*"):
            level, kind = _text(path / "level"), _text(path / "type")
            if not level or kind not in KINDS:
                continue
            shared = read_cpus(_text(path / "shared_cpu_list") or str(number))
            cpus = tuple(cpu for cpu in shared if cpu in online)
            caches.add(Cache(int(level), KINDS[kind], _bytes(_text(path / "size")), cpus))
    return caches


def _memory_mib(directory: Path) -> dict[int, float]:
    """Return node -> memory [MiB], from lines of meminfo such as "Node 0 MemTotal:  16331712 kB"."""
    memory_mib = {}
    for path in directory.glob("node*/meminfo"):
        words = next((line.split() for line in _text(path).splitlines() if "MemTotal:" in line), [])
        if len(words) == 5 and words[3].isdigit():
            memory_mib[int(words[1])] = int(words[3]) / 2**10
    return memory_mib


def _bytes(size: str) -> int:
    """Convert a size as the kernel writes it (32K, 1024K, 33M) to bytes; 0 for an empty text."""
    if not size:
        return 0
    unit = UNITS.get(size[-1].upper())
    return int(size[:-1]) * unit if unit else int(size)


def _text(path: Path) -> str:
    """Return a file's text without its line end; empty where the file cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
