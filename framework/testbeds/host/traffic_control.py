"""Traffic control of an interface, in any network namespace, by netlink: the HTB qdisc that is ours, and its classes.

Hierarchical token bucket (kernel: net/sched/sch_htb.c): a class sends at ``rate`` by its own right, and up to ``ceil``
with what its parent has left.  A bucket that holds too few bytes loses what the class could have sent while the kernel
was late to look; one that holds too many exceeds the rate after a pause.  The bytes of BURST_S cover the delays of a
virtual machine's timers, and are one hundredth of those of a second.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from framework.errors import KnobRefused

HANDLE = 0x7A11_0000
"""Handle of our qdiscs (7a11:), by which they are known again after a crash."""

BURST_S = 0.01
LEAST_BURST = 3200  # bytes: two Ethernet frames, or the rate could not be reached
QUANTUM = 60_000  # bytes that one class may send before the next of its priority
SETTLES_S = 0.25  # a class that is in debt for longer is made anew: see ``Interface.set_class``
LARGEST_PACKET = 65_536
TICK_S = 64e-9  # the unit in which the kernel gives buffers (PSCHED_SHIFT)
ROOT = 0xFFFFFFFF
UP, LOOPBACK = 0x1, 0x8  # flags of an interface
NEW_NETWORK_NAMESPACE = 0x4000_0000

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A class of ours.  ``minor``: its number, ``parent``: its parent's, 0 for the qdisc.

    ``rate_bps``, ``ceil_bps``: bits a second, whole bytes.  ``prio``: classes with a lower one are served first with
    what their parent has left.
    """

    minor: int
    rate_bps: int
    ceil_bps: int
    prio: int = 0
    parent: int = 0

    @property
    def buffer_s(self) -> float:
        """Return the time in which the rate fills the token bucket."""
        return max(BURST_S, LEAST_BURST / (self.rate_bps / 8))

    @property
    def ceil_buffer_s(self) -> float:
        return max(BURST_S, LEAST_BURST / (self.ceil_bps / 8))

    @property
    def debt_s(self) -> float:
        """Return how long the class may have to wait after it sent the largest packet."""
        return LARGEST_PACKET / (self.ceil_bps / 8)


def whole_bytes(bps: float) -> int:
    """Round bits a second to those that the kernel can be told: whole bytes a second."""
    return round(bps / 8) * 8


class Interface:
    """An interface, through a netlink socket in its namespace.  Every method raises KnobRefused."""

    def __init__(self, netlink: IPRoute, name: str, index: int) -> None:
        self._netlink, self.name, self._index = netlink, name, index

    def qdisc(self) -> tuple[str, int]:
        """Return (kind, handle) of the root qdisc; the kernel's own choice has the handle 0."""
        with _refusals(self.name):
            for message in self._netlink.get_qdiscs(index=self._index):
                if message["parent"] == ROOT and message["index"] == self._index:
                    return message.get_attr("TCA_KIND"), message["handle"]
        return "none", 0

    def shaped(self) -> bool:
        """Return whether the root qdisc is ours."""
        return self.qdisc() == ("htb", HANDLE)

    def obstacle(self) -> str:
        """Say whose qdisc is in the way; empty where it is ours, or the kernel's own choice."""
        kind, handle = self.qdisc()
        if handle == 0 or (kind, handle) == ("htb", HANDLE):
            return ""
        return f"{self.name} has a qdisc of somebody else's ({kind} {handle >> 16:x}:), which stays"

    def shape(self, default: int) -> None:
        """Make our qdisc; what no class is chosen for is of class ``default``.

        The kernel refuses it where anybody has set another since we looked.
        """
        with _refusals(f"{self.name} qdisc"):
            self._netlink.tc("add", "htb", self._index, HANDLE, default=default)

    def release(self) -> None:
        """Remove our qdisc, if it is there: the kernel puts its own choice in its place."""
        if self.shaped():
            with _refusals(f"{self.name} qdisc"):
                self._netlink.tc("del", "htb", self._index, HANDLE, parent=ROOT)

    def buckets(self) -> dict[int, Bucket]:
        """Return the classes of our qdisc by their numbers, as the kernel has them."""
        return {bucket.minor: bucket for bucket, _ in self._classes()}

    def set_class(self, wanted: Bucket) -> Bucket | None:
        """Bring a class to what is wanted, and read it back; returns the class before, None where it was not there.

        A class that was slow may be in debt for seconds with one large packet, whatever its new rate: then it is made
        anew.  Its queue is lost, and sent again by whoever waits for it.
        """
        before = self.buckets().get(wanted.minor)
        if before == wanted:
            return before
        with _refusals(f"{self.name} class {wanted.minor:x}"):
            if before is not None and wanted.ceil_bps > before.ceil_bps and before.debt_s > SETTLES_S:
                self._netlink.tc("del-class", index=self._index, handle=HANDLE | wanted.minor)
            self._netlink.tc(
                "replace-class", "htb", self._index, HANDLE | wanted.minor, parent=HANDLE | wanted.parent,
                rate=wanted.rate_bps // 8, burst=wanted.buffer_s * wanted.rate_bps / 8,
                ceil=wanted.ceil_bps // 8, cburst=wanted.ceil_buffer_s * wanted.ceil_bps / 8,
                prio=wanted.prio, quantum=QUANTUM,
            )  # fmt: skip
        self._check(wanted)
        return before

    def _check(self, wanted: Bucket) -> None:
        """Compare a class with what was set.  Raises KnobRefused where the kernel has something else."""
        knob = f"{self.name} class {wanted.minor:x}"
        for bucket, buffers in self._classes():
            if bucket.minor == wanted.minor:
                if bucket != wanted:
                    raise KnobRefused(knob, f"set to {wanted}, but the kernel says {bucket}")
                for buffer_s, wanted_s in zip(buffers, (wanted.buffer_s, wanted.ceil_buffer_s), strict=True):
                    if abs(buffer_s - wanted_s) > 2e-6:  # it is told in whole microseconds
                        raise KnobRefused(knob, f"its buffer was set to {wanted_s} s, but the kernel says {buffer_s} s")
                return
        raise KnobRefused(knob, "the kernel does not show it")

    def _classes(self) -> Iterator[tuple[Bucket, tuple[float, float]]]:
        """Return the classes of our qdisc, each with the buffers of its rate and its ceil in seconds."""
        with _refusals(self.name):
            messages = list(self._netlink.get_classes(index=self._index))
        for message in messages:
            if message.get_attr("TCA_KIND") != "htb" or message["handle"] & ROOT - 0xFFFF != HANDLE:
                continue
            options = message.get_attr("TCA_OPTIONS")
            values = options.get_attr("TCA_HTB_PARMS")
            rate = options.get_attr("TCA_HTB_RATE64") or values["rate"]
            ceil = options.get_attr("TCA_HTB_CEIL64") or values["ceil"]
            parent = 0 if message["parent"] == ROOT else message["parent"] & 0xFFFF
            bucket = Bucket(message["handle"] & 0xFFFF, rate * 8, ceil * 8, values["prio"], parent)
            yield bucket, (values["buffer"] * TICK_S, values["cbuffer"] * TICK_S)


def interfaces(netlink: IPRoute) -> list[Interface]:
    """Return the interfaces of the socket's namespace that are up, without the loopback.  Raises KnobRefused."""
    with _refusals("interfaces"):
        return [
            Interface(netlink, link.get_attr("IFLA_IFNAME"), link["index"])
            for link in netlink.get_links()
            if link["flags"] & UP and not link["flags"] & LOOPBACK
        ]


def interface(netlink: IPRoute, name: str) -> Interface | None:
    """Return the interface of a name; None where there is none.  Raises KnobRefused."""
    with _refusals(name):
        indexes: Sequence[int] = netlink.link_lookup(ifname=name)
    return Interface(netlink, name, indexes[0]) if indexes else None


def in_namespace(namespace: Path | None, work: Callable[[IPRoute], Answer]) -> Answer:
    """Do some work with a netlink socket in a network namespace.  ``namespace``: its file; None: ours.

    A thread of its own enters the namespace, and ends there: no other thread ever leaves ours.  Raises KnobRefused.
    """
    if namespace is None:
        return _with_socket(work)

    def enter_and_work() -> Answer:
        with _refusals(str(namespace)):
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _checked(_LIBC.setns(descriptor, NEW_NETWORK_NAMESPACE))
            finally:
                os.close(descriptor)
        return _with_socket(work)

    return _in_thread(enter_and_work)


def missing() -> str:
    """Say why HTB cannot be set here; empty where it can.  Tried in a namespace that ends with the trial."""

    def shape_loopback() -> None:
        with _refusals("a network namespace"):
            _checked(_LIBC.unshare(NEW_NETWORK_NAMESPACE))
        _with_socket(lambda netlink: Interface(netlink, "lo", 1).shape(1))

    try:
        _in_thread(shape_loopback)
    except KnobRefused as error:
        return f"traffic cannot be shaped here (HTB, CONFIG_NET_SCH_HTB, as root): {error}"
    return ""


def _in_thread(work: Callable[[], Answer]) -> Answer:
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(work).result()


def _with_socket(work: Callable[[IPRoute], Answer]) -> Answer:
    with _refusals("netlink"):
        netlink = IPRoute()
    with netlink:
        return work(netlink)


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def _refusals(knob: str) -> Iterator[None]:
    """Turn the errors of netlink and of the kernel into KnobRefused."""
    try:
        yield
    except NetlinkError as error:
        raise KnobRefused(knob, os.strerror(error.code)) from error
    except OSError as error:
        raise KnobRefused(knob, error.strerror or str(error)) from error


_LIBC: Any = ctypes.CDLL(None, use_errno=True)
