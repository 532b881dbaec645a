"""Actuator of a guard for the network: the part of the outgoing link that BE's jobs may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import IPRoute

from framework.errors import KnobRefused
from framework.model.guard import Change, Setting
from framework.testbeds.host import bpf, traffic_control
from framework.testbeds.host.journal import Journal, Undo
from framework.testbeds.host.namespaces import (
    PROC,
    SELF,
    group_of,
    namespace_of,
    outgoing_interface,
    process_in,
    shared,
)
from framework.testbeds.host.traffic_control import HANDLE, Bucket, Interface, in_namespace, interfaces, whole_bytes

LEAST_BPS = 64_000  # of a job: HTB has no rate of 0, and connections stay alive
ENTRY = "qdisc"  # kind of the journal's entries
OWN = 0x1  # the only class of a job's own interface
LINK, REST, BE = 0x1, 0x10, 0x20  # classes of the host's interface: everything, LC with all that is not BE, BE


@dataclass(slots=True)
class _Place:
    """A network namespace with jobs in it: their processes, and how many of them run."""

    pids: dict[str, int] = field(default_factory=dict)
    running: int = 0


@dataclass(slots=True)
class NetworkShare:
    """Limits what BE's jobs send; implements ``framework.ports.actuator.Actuator``.

    A job in a network namespace of its own is limited on that namespace's interfaces: in all that it sends, also what
    does not leave the host.  Jobs in the host's are one class of the outgoing interface, which may use what LC leaves,
    at most BE's part; eBPF programs give their packets the class.  A namespace that LC is in too is left alone.  All
    jobs that run get the same; frozen ones get LEAST_BPS, since the kernel still sends what they left.

    ``lc``: container -> its process.  ``jobs``: container of a job -> (kind of the job, its process).  Both are asked
    at every use.  ``link_mbps``: of the outgoing link.  ``interface``: the host's outgoing one; empty: that of its
    default route.  ``host_network``: whether jobs in the host's network are to be expected.
    """

    lc: Callable[[], Mapping[str, int]]
    jobs: Callable[[], Mapping[str, tuple[str, int]]]
    journal: Journal
    link_mbps: float
    interface: str = ""
    host_network: bool = False
    proc: Path = PROC
    name: str = field(init=False, default="network")
    _touched: dict[tuple[str, str], int] = field(init=False, default_factory=dict)
    _priorities: dict[Path, bpf.Priority] = field(init=False, default_factory=dict)

    def missing(self) -> str:
        if self.link_mbps <= 0:
            return "the speed of the outgoing link is not known"
        return traffic_control.missing() or (self._missing_on_host() if self.host_network else "")

    def _missing_on_host(self) -> str:
        if why := bpf.missing():
            return why
        try:
            return in_namespace(None, lambda netlink: self._outgoing(netlink).obstacle())
        except KnobRefused as error:
            return str(error)

    def set(self, setting: Setting) -> list[Change]:
        """Divide BE's part of the link among its jobs.  Raises KnobRefused, after all that could be set is set."""
        places = self._places(setting)
        running = sum(place.running for place in places.values())
        each = setting.mbps * 1e6 / running if running else 0.0
        changes, refused = list[Change](), list[KnobRefused]()
        for namespace in {namespace for namespace, _ in self._touched} - places.keys():
            try:
                self._release(namespace)
            except KnobRefused as error:
                refused.append(error)
        for namespace, place in places.items():
            try:
                changes += self._set(namespace, place, max(LEAST_BPS, each * place.running))
            except KnobRefused as error:
                if self._alive(namespace, place):  # else its container has just ended
                    refused.append(error)
        if refused:
            raise refused[0]
        return changes

    def restore(self) -> None:
        """Remove every qdisc and program of ours.  Raises KnobRefused."""
        for namespace in {namespace for namespace, _ in self._touched}:
            self._release(namespace)
        self._close_priorities()

    def _places(self, setting: Setting) -> dict[str, _Place]:
        places = dict[str, _Place]()
        for name, (kind, pid) in self.jobs().items():
            namespace = namespace_of(self.proc, pid)
            if namespace is not None:
                place = places.setdefault(namespace, _Place())
                place.pids[name] = pid
                place.running += int(setting.running and kind not in setting.paused)
        return places

    def _alive(self, namespace: str, place: _Place) -> list[int]:
        return [pid for pid in place.pids.values() if namespace_of(self.proc, pid) == namespace]

    def _set(self, namespace: str, place: _Place, bps: float) -> list[Change]:
        pids = self._alive(namespace, place)
        if not pids:
            return []
        if namespace == namespace_of(self.proc, SELF):
            return self._set_host(namespace, pids[0], place, bps)
        return self._set_own(namespace, pids[0], place, bps)

    # ------------------------------------------------------------------ a job's own interfaces

    def _set_own(self, namespace: str, pid: int, place: _Place, bps: float) -> list[Change]:
        names = ", ".join(place.pids)
        if namespace in {namespace_of(self.proc, other) for other in self.lc().values()}:
            raise KnobRefused(names, "it is in the network namespace of a container of LC, which stays as it is")

        def set_all(netlink: IPRoute) -> list[Change]:
            changes, own = [], interfaces(netlink)
            for interface in own:
                self._shape(namespace, pid, interface, OWN)
                wanted = whole_bytes(max(LEAST_BPS, bps / len(own)))
                changes += _set_class(names, interface, Bucket(OWN, wanted, wanted))
            return changes

        return in_namespace(self.proc / str(pid) / "ns" / "net", set_all)

    # ------------------------------------------------------------------ the host's interface

    def _set_host(self, namespace: str, pid: int, place: _Place, bps: float) -> list[Change]:
        link = whole_bytes(self.link_mbps * 1e6)

        def set_all(netlink: IPRoute) -> list[Change]:
            interface = self._outgoing(netlink)
            self._shape(namespace, pid, interface, REST)
            changes = _set_class("link", interface, Bucket(LINK, link, link))
            changes += _set_class("LC", interface, Bucket(REST, link, link, prio=0, parent=LINK))
            ceil = min(link, whole_bytes(bps))
            least = min(LEAST_BPS, ceil)
            return changes + _set_class("BE", interface, Bucket(BE, least, ceil, prio=1, parent=LINK))

        changes = in_namespace(None, set_all)
        self._attach(place)
        return changes

    def _attach(self, place: _Place) -> None:
        """Let the packets of these jobs, and of no others, be of BE's class.  Raises KnobRefused."""
        groups = {name: group_of(self.proc, pid) for name, pid in place.pids.items()}
        not_own = shared(groups.values(), [group_of(self.proc, pid) for pid in self.lc().values()])
        own = {group for group in groups.values() if group is not None and group not in not_own}
        for group in self._priorities.keys() - own:
            self._priorities.pop(group).close()
        for group in own - self._priorities.keys():
            try:
                self._priorities[group] = bpf.Priority(group, HANDLE | BE)
            except KnobRefused:
                if group.exists():  # else its container has just ended
                    raise
        for name, cgroup in groups.items():
            if cgroup not in own and namespace_of(self.proc, place.pids[name]) is not None:
                raise KnobRefused(name, "it has the host's network, and no cgroup v2 of its own: it cannot be limited")

    def _outgoing(self, netlink: IPRoute) -> Interface:
        name = self.interface or outgoing_interface(self.proc)
        if not name:
            raise KnobRefused("network", "this host has no default route, so that its outgoing interface is not known")
        interface = traffic_control.interface(netlink, name)
        if interface is None:
            raise KnobRefused(name, "there is no such interface")
        return interface

    # ------------------------------------------------------------------ making and removing

    def _shape(self, namespace: str, pid: int, interface: Interface, default: int) -> None:
        if obstacle := interface.obstacle():
            raise KnobRefused(interface.name, obstacle)
        self.journal.record(ENTRY, f"{namespace} {interface.name}", pid=pid)
        self._touched[namespace, interface.name] = pid
        if not interface.shaped():
            interface.shape(default)

    def _release(self, namespace: str) -> None:
        for place, name in [touched for touched in self._touched if touched[0] == namespace]:
            _remove(self.proc, place, name, self._touched[place, name])
            del self._touched[place, name]
        if namespace == namespace_of(self.proc, SELF):
            self._close_priorities()

    def _close_priorities(self) -> None:
        while self._priorities:
            self._priorities.popitem()[1].close()


def undo_of_network(proc: Path = PROC) -> dict[str, Undo]:
    """Return how the journal's entries of qdiscs are undone; one whose namespace has gone needs nothing."""

    def remove(entry: Mapping[str, object]) -> None:
        namespace, _, name = str(entry["knob"]).partition(" ")
        _remove(proc, namespace, name, int(str(entry["pid"])))

    return {ENTRY: remove}


def _remove(proc: Path, namespace: str, name: str, pid: int) -> None:
    """Remove our qdisc from an interface, where all three still exist.  Raises KnobRefused."""
    own = namespace == namespace_of(proc, SELF)
    inside = None if own else process_in(proc, namespace, pid)
    if inside is None and not own:
        return

    def release(netlink: IPRoute) -> None:
        interface = traffic_control.interface(netlink, name)
        if interface is not None:
            interface.release()

    try:
        in_namespace(None if inside is None else proc / str(inside) / "ns" / "net", release)
    except KnobRefused:
        if own or namespace_of(proc, inside or 0) == namespace:  # else it has just ended
            raise


def _set_class(whose: str, interface: Interface, wanted: Bucket) -> list[Change]:
    before = interface.set_class(wanted)
    if before == wanted:
        return []
    return [Change(f"{whose}: {interface.name}", "no limit" if before is None else _text(before), _text(wanted))]


def _text(bucket: Bucket) -> str:
    return f"{bucket.ceil_bps / 1e6:g} Mb/s"
