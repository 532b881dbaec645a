"""Readings of /proc about the network of a process: its namespace, its routes, its interfaces, its control group.

Sources: proc(5), namespaces(7), cgroups(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from framework.errors import KnobRefused
from framework.testbeds.host.bpf import Network
from framework.testbeds.host.kernel_numbers import number_in

PROC = Path("/proc")
SELF = "thread-self"  # a network namespace is that of a thread
LOOPBACK = "lo"
_ROUTE = re.compile(
    r"([^\s\0]+)\t([0-9A-F]{8})\t([0-9A-F]{8})\t[0-9A-F]+\t\d+\t\d+\t(\d{1,9})\t([0-9A-F]{8})\b", re.ASCII
)
"""Interface, destination, gateway, (flags, references, use), metric, mask (kernel: net/ipv4/fib_trie.c)."""


def namespace_of(proc: Path, pid: int | str) -> str | None:
    """Return the identity of a process's network namespace, such as net:[4026531840]; None where it has ended."""
    try:
        return str((proc / str(pid) / "ns" / "net").readlink())
    except OSError:
        return None


def process_in(proc: Path, namespace: str, first: int) -> int | None:
    """Return a process in a network namespace, ``first`` if it is still there; None where there is none."""
    if namespace_of(proc, first) == namespace:
        return first
    pids = (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    return next((pid for pid in pids if namespace_of(proc, pid) == namespace), None)


@dataclass(frozen=True, slots=True)
class _Route:
    """A line of /proc/net/route.  Addresses: as a 32-bit load of a packet's own bytes gives them."""

    interface: str
    destination: int
    gateway: int
    metric: int
    mask: int


def outgoing_interface(proc: Path) -> str:
    """Return the interface of our IPv4 default route, the one of the lowest metric; empty without one."""
    routes = [route for route in _routes(proc, SELF) if route.mask == 0 and route.destination == 0]
    return min(routes, key=lambda route: route.metric).interface if routes else ""


def near_networks(proc: Path, pid: int) -> tuple[Network, ...]:
    """Return the IPv4 networks that a process reaches without a gateway: those of its container's bridges."""
    near = {Network(route.destination, route.mask) for route in _routes(proc, pid) if route.gateway == 0 and route.mask}
    return tuple(sorted(near, key=lambda network: (network.address, network.mask)))


def _routes(proc: Path, pid: int | str) -> list[_Route]:
    """Return the routes that are shown; a line that is none is passed over."""
    matches = (_ROUTE.match(line) for line in _lines(proc / str(pid) / "net" / "route")[1:])
    return [
        _Route(match[1], int(match[2], 16), int(match[3], 16), int(match[4]), int(match[5], 16))
        for match in matches
        if match is not None
    ]


def sent_bytes(proc: Path, pid: int) -> int | None:
    """Return the bytes that the interfaces of a process's namespace have sent, without the loopback's.

    None where the process has ended.  Raises KnobRefused where its counters cannot be read.
    """
    file = proc / str(pid) / "net" / "dev"
    rows = [line.partition(":") for line in _lines(file)[2:]]
    if not rows:  # every namespace has a loopback
        if namespace_of(proc, pid) is None:
            return None
        raise KnobRefused(str(file), "it shows no interface")
    sent = ["".join(counts.split()[8:9]) for name, _, counts in rows if name.strip() != LOOPBACK]
    return sum(number_in(count, str(file)) for count in sent)


def group_of(proc: Path, pid: int) -> Path | None:
    """Return the directory of a process's cgroup v2; None where it has none but one that this process is in too."""
    mount, own = _unified_mount(proc), _unified_path(proc, "self")
    path = _unified_path(proc, pid)
    if mount is None or path is None or path == "/" or f"{own or ''}/".startswith(f"{path}/"):
        return None
    return mount / path.lstrip("/")


def _unified_path(proc: Path, pid: int | str) -> str | None:
    lines = _lines(proc / str(pid) / "cgroup")
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::/") and "\0" not in line), None)


def _unified_mount(proc: Path) -> Path | None:
    mounts = [line.split() for line in _lines(proc / "self" / "mounts") if "\0" not in line]
    return next((Path(mount[1]) for mount in mounts if mount[2:3] == ["cgroup2"]), None)


def _lines(file: Path) -> list[str]:
    """Return the lines of a file; none where it cannot be read, or is no text."""
    try:
        return file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def shared(groups: Iterable[Path | None], others: Iterable[Path | None]) -> set[Path]:
    """Return the groups that stand on both sides, and those that hold a group of the other side."""
    ours, theirs = ({group for group in side if group is not None} for side in (groups, others))
    return {
        group
        for side, other in ((ours, theirs), (theirs, ours))
        for group in side
        if any(group == another or group in another.parents for another in other)
    }
