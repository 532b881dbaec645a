"""Sensor of a guard for the network: the part of the outgoing link that LC and BE use."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from framework.errors import KnobRefused
from framework.testbeds.host import bpf
from framework.testbeds.host.namespaces import (
    PROC,
    SELF,
    group_of,
    namespace_of,
    near_networks,
    outgoing_interface,
    sent_bytes,
    shared,
)
from framework.testbeds.host.rates import Rates

Counted = tuple[Path, int | None, tuple[bpf.Network, ...]]
"""A control group, the index of the interface that counts (None: all but the loopback), the networks that do not."""


@dataclass(slots=True)
class NetworkUse:
    """Megabits a second that LC and BE send; implements ``framework.ports.sensor.Sensor``.

    A container with a cgroup v2 of its own is counted by an eBPF program, on the wire (with Ethernet's headers).  In a
    namespace of its own: all that it sends but over the loopback or to an IPv4 network of its own, which does not leave
    the host; IPv6 counts wherever it goes.  What Docker's userland proxy sends for it (only where iptables is switched
    off) goes to its own network first and does not count.  In the host's namespace: all that it sends by the outgoing
    interface.

    Any other container is counted by the interfaces of its namespace, which several may share, without the loopback:
    what stays on its bridge counts too, so the reading is an upper bound, and large packets count with one header.
    Where LC and BE cannot be told apart in this way (a namespace of both, or the host's), neither is read.

    ``lc``: container -> its process.  ``jobs``: container of a job -> (its kind, its process).  Both are asked at every
    reading.  ``interface``: the host's outgoing one; empty: that of its default route.  ``by_group``: whether eBPF may
    be used; otherwise everything is counted by namespaces.
    """

    lc: Callable[[], Mapping[str, int]]
    jobs: Callable[[], Mapping[str, tuple[str, int]]]
    window_s: float = 1.0
    interface: str = ""
    by_group: bool = True
    proc: Path = PROC
    name: str = field(init=False, default="network use")
    gives: tuple[str, ...] = field(init=False, default=("lc_mbps", "be_mbps"))
    _counters: dict[Counted, bpf.Counter] = field(init=False, default_factory=dict)
    _rates: dict[str, Rates] = field(init=False)

    def __post_init__(self) -> None:
        self.by_group = self.by_group and not bpf.missing()
        self._rates = {name: Rates(self.window_s) for name in self.gives}

    def missing(self) -> str:
        lc, be = self._pids()
        for side, other in ((lc, be), (be, lc)):
            for name, pid in side.items():
                if self._counted(pid, self._shared(lc, be)) is None and self._entangled(pid, other.values()):
                    return (
                        f"what {name} sends cannot be told from others' ({bpf.missing() or 'no cgroup v2 of its own'})"
                    )
        return ""

    def read(self, now_s: float) -> Mapping[str, float]:
        lc, be = self._pids()
        used = set[Counted]()
        shared_groups = self._shared(lc, be)
        readings = {}
        for name, side, other in (("lc_mbps", lc, be), ("be_mbps", be, lc)):
            sent = self._sent(side.values(), other.values(), shared_groups, used)
            if sent is None or (name == "lc_mbps" and not sent):  # LC without a process sends nothing that is known
                self._rates[name] = Rates(self.window_s)
                continue
            grown = self._rates[name].growth(now_s, sent)
            if grown is not None:
                readings[name] = grown * 8 / 1e6
        self._close(self._counters.keys() - used)
        return readings

    def close(self) -> None:
        self._close(set(self._counters))

    def _pids(self) -> tuple[dict[str, int], dict[str, int]]:
        return dict(self.lc()), {name: pid for name, (_, pid) in self.jobs().items()}

    def _shared(self, lc: Mapping[str, int], be: Mapping[str, int]) -> set[Path]:
        return shared(*([group_of(self.proc, pid) for pid in side.values()] for side in (lc, be)))

    def _sent(
        self, pids: Iterable[int], others: Iterable[int], shared_groups: set[Path], used: set[Counted]
    ) -> dict[str, float] | None:
        """Return what was counted, by the name of the counter.

        None where a process cannot be told from others, or its namespace's counters cannot be read.
        """
        sent = dict[str, float]()
        for pid in pids:
            namespace = namespace_of(self.proc, pid)
            if namespace is None:
                continue
            counted = self._counted(pid, shared_groups)
            by_group = None if counted is None else self._by_group(counted)
            if counted is not None and by_group is not None:
                used.add(counted)
                sent[str(counted)] = by_group
                continue
            if self._entangled(pid, others):
                return None
            try:
                by_namespace = sent_bytes(self.proc, pid)
            except KnobRefused:
                return None
            if by_namespace is not None:
                sent[namespace] = by_namespace
        return sent

    def _counted(self, pid: int, shared_groups: set[Path]) -> Counted | None:
        """Return how a process is counted by its control group; None where that is not its own."""
        group = group_of(self.proc, pid) if self.by_group else None
        if group is None or group in shared_groups:
            return None
        if namespace_of(self.proc, pid) != namespace_of(self.proc, SELF):
            return group, None, near_networks(self.proc, pid)
        try:
            return group, socket.if_nametoindex(self.interface or outgoing_interface(self.proc)), ()
        except OSError:
            return None

    def _by_group(self, counted: Counted) -> int | None:
        """Return the bytes of a counter, which is made where there is none; None where the kernel refuses."""
        try:
            if counted not in self._counters:
                self._counters[counted] = bpf.Counter(*counted)
            return self._counters[counted].read()
        except KnobRefused:
            return None

    def _entangled(self, pid: int, others: Iterable[int]) -> bool:
        """Return whether a process's namespace is the host's, or one of the other side's."""
        theirs = {namespace_of(self.proc, other) for other in others} | {namespace_of(self.proc, SELF)}
        return namespace_of(self.proc, pid) in theirs

    def _close(self, counters: set[Counted]) -> None:
        for counted in counters:
            self._counters.pop(counted).close()
