"""Network namespaces, pairs of interfaces and control groups of the tests' own."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute

from framework.testbeds.host.namespaces import PROC, SELF, namespace_of
from framework.testbeds.host.traffic_control import in_namespace

Answer = TypeVar("Answer")
PAYLOAD = 1400
FRAME = PAYLOAD + 8 + 20 + 14  # with the headers of UDP, IPv4 and Ethernet
PORT = 9  # discard


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that keeps a network namespace."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def path(self) -> Path:
        return PROC / str(self.pid) / "ns" / "net"

    @property
    def name(self) -> str:
        name = namespace_of(PROC, self.pid)
        assert name is not None
        return name

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def socket(self, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        return in_namespace(self.path, lambda _: socket.socket(socket.AF_INET, kind))


def _wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@contextmanager
def holder() -> Iterator[Holder]:
    """Start a process in a new network namespace."""
    outside = namespace_of(PROC, SELF)
    process = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        _wait_for(lambda: namespace_of(PROC, process.pid) not in (outside, None))
        yield Holder(process)
    finally:
        process.kill()
        process.communicate()


def connect(near: IPRoute, far: Holder, number: int = 0, name: str = "eth0") -> None:
    """Connect our namespace to another by a pair of interfaces, 198.18.N.1 (ours) and 198.18.N.2, both up."""
    near.link("add", ifname=name, kind="veth", peer={"ifname": name, "net_ns_pid": far.pid})
    in_namespace(far.path, lambda netlink: _set_up(netlink, name, f"198.18.{number}.2"))
    _set_up(near, name, f"198.18.{number}.1")


def _set_up(netlink: IPRoute, name: str, address: str) -> None:
    (index,) = netlink.link_lookup(ifname=name)
    netlink.addr("add", index=index, address=address, prefixlen=24)
    netlink.link("set", index=index, state="up")


@contextmanager
def pair() -> Iterator[tuple[Holder, Holder]]:
    """Yield two namespaces, connected: 198.18.0.1 and 198.18.0.2."""
    with holder() as near, holder() as far:
        in_namespace(near.path, lambda netlink: connect(netlink, far))
        yield near, far


def in_new_namespace(work: Callable[[], Answer]) -> Answer:
    """Do some work in a thread whose network namespace is a new one: for the code under test it is the host's."""

    def enter_and_work() -> Answer:
        with holder() as held:
            descriptor = os.open(held.path, os.O_RDONLY)
        assert ctypes.CDLL(None).setns(descriptor, 0x40000000) == 0
        os.close(descriptor)
        return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter_and_work).result()


def qdiscs(held: Holder | None, name: str = "eth0") -> list[tuple[str, int, int]]:
    """Return (kind, handle, parent) of an interface's qdiscs."""

    def listed(netlink: IPRoute) -> list[tuple[str, int, int]]:
        (index,) = netlink.link_lookup(ifname=name)
        found = [message for message in netlink.get_qdiscs() if message["index"] == index]
        return [(message.get_attr("TCA_KIND"), message["handle"], message["parent"]) for message in found]

    return in_namespace(held.path if held else None, listed)


def received(held: Holder, name: str = "eth0") -> int:
    """Return the bytes that an interface has received."""
    lines = (PROC / str(held.pid) / "net" / "dev").read_text().splitlines()
    return next(int(line.partition(":")[2].split()[0]) for line in lines if line.strip().startswith(f"{name}:"))


@contextmanager
def control_groups(*names: str) -> Iterator[list[Path]]:
    """Make control groups (version 2) of these names; at the end their processes are killed."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    root = next(Path(mount[1]) for mount in mounts if mount[2] == "cgroup2")
    groups = [root / f"tailor-test-{os.getpid()}-{name}" for name in names]
    with ExitStack() as made:
        for group in groups:
            group.mkdir()
            made.callback(_remove, group)
        yield groups


def _remove(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), 9)
    _wait_for(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()
