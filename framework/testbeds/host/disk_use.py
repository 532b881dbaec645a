"""Sensor of a guard for disks: the bytes that LC and BE read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from framework.errors import KnobRefused
from framework.testbeds.host.cgroups import Group
from framework.testbeds.host.disks import Disks
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testbeds.host.rates import Rates

Counters = dict[str, dict[str, float]]
"""Disk -> directory of a group -> bytes that it read and wrote so far."""


@dataclass(slots=True)
class DiskUse:
    """Megabytes a second that LC and BE read and write, of the disk that each uses most; implements
    ``framework.ports.sensor.Sensor``.

    Of the disk used most, since limits are of each disk, and a volume's bytes are those of its disk once more.  On
    cgroup v1 the kernel counts what a process asks for itself; what it writes back later on its own is nobody's.
    ``limited``: whether a limit will be set, with which a kernel that does not count yet begins to.
    """

    groups: GuardedGroups
    limited: bool = False
    window_s: float = 1.0
    name: str = field(init=False, default="disk use")
    gives: tuple[str, ...] = field(init=False, default=("lc_disk_mbs", "be_disk_mbs"))
    _disks: Disks = field(init=False)
    _rates: dict[str, dict[str, Rates]] = field(init=False)
    _read_s: float = field(init=False, default=-1e9)
    _last: Mapping[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._disks = Disks(self.groups.cgroups)
        self._rates = {name: {} for name in self.gives}

    def missing(self) -> str:
        try:
            return self._disks.missing() if self.limited else self._disks.missing_counts()
        except KnobRefused as error:
            return f"what control groups read and write cannot be read: {error}"

    def read(self, now_s: float) -> Mapping[str, float]:
        """Read all groups, but only once in a window.

        A side is left out where no disk is counted or a group of it shows no counters, and LC where no container of it
        runs: none of this is zero.
        """
        if now_s - self._read_s < self.window_s:
            return self._last
        self._read_s = now_s
        lc, be = self._counters(self.groups.lc_groups), self._counters(self._be_groups)
        sides = {"lc_disk_mbs": lc if any(lc.values()) else {}, "be_disk_mbs": be}
        grown = {name: self._growth(self._rates[name], counters, now_s) for name, counters in sides.items()}
        self._last = {name: rate / 1e6 for name, rate in grown.items() if rate is not None}
        return self._last

    def close(self) -> None:
        """Nothing to let go of."""

    def _be_groups(self) -> Sequence[Group]:
        return [self.groups.be] if self._disks.nested else [group for _, group in self.groups.job_groups()]

    def _counters(self, groups: Callable[[], Sequence[Group]]) -> Counters:
        """Return the counters, where a group that did not use a disk has a zero; empty where they cannot be known."""
        try:
            counters: Counters = {disk: {} for disk in self._disks.counted()}
            for group in groups():
                if (used := self._used(group)) is not None:
                    for disk, by_group in counters.items():
                        by_group[self._disks.directory(group)] = used.get(disk, 0)
        except KnobRefused:
            return {}
        return counters

    def _used(self, group: Group) -> Mapping[str, int] | None:
        """Return what a group read and wrote; None where its container has just ended.  Raises KnobRefused."""
        try:
            return self._disks.used(group)
        except KnobRefused:
            if self.groups.files.exists(self._disks.directory(group)):
                raise
            return None

    def _growth(self, rates: dict[str, Rates], counters: Counters, now_s: float) -> float | None:
        """Return bytes a second of the disk that is used most; None before the first window of all of them."""
        for disk in rates.keys() - counters.keys():
            del rates[disk]
        grown = [
            rates.setdefault(disk, Rates(self.window_s)).growth(now_s, by_group) for disk, by_group in counters.items()
        ]
        known = [rate for rate in grown if rate is not None]
        return max(known) if known and len(known) == len(grown) else None
