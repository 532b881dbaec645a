"""Disks of this machine, and the files by which its kernel counts and limits what control groups read and write.

Cgroup v1 (controller blkio, documentation admin-guide/cgroup-v1/blkio-controller) has a limit in one file for each
direction, in which 0 takes it away.  A limit is of its group alone, not of the groups below it, and newer kernels
(6.18 was tried) count nothing on a disk before the first group was given a limit for it.  Cgroup v2 (controller io,
admin-guide/cgroup-v2) has one file, and a limit is of its group with all groups below it.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.errors import KnobRefused
from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.kernel_numbers import number_in

BLOCK = "/sys/block"
NO_DISKS = ("loop", "ram", "zram", "sr", "fd")
"""Beginnings of the names of what lies in memory or on another disk, and of drives of media."""

COUNTED, COUNTED_BELOW = "blkio.throttle.io_service_bytes", "blkio.throttle.io_service_bytes_recursive"
READ, WRITE = "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"
MAX, STAT = "io.max", "io.stat"


@dataclass(frozen=True, slots=True)
class Limit:
    """Bytes a second that a group may read from a disk and write to it; None: not limited."""

    read: int | None = None
    written: int | None = None


FREE = Limit()


class Disks:
    """Disks as ``cgroups`` sees them; a disk goes by its number ("254:0")."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups, self._files = cgroups, cgroups.files
        self._controller = next((name for name in ("blkio", "io") if name in cgroups.versions), "")

    @property
    def nested(self) -> bool:
        """Whether a group's limit and counters are those of all groups below it too."""
        return self._controller == "io"

    def missing(self) -> str:
        """Say what this machine lacks, in one plain sentence; empty where disks can be counted and limited."""
        if not self._controller:
            return "this kernel has no control groups for disks"
        if not self.nested and not self._files.exists(f"{self._root()}/{READ}"):
            return "this kernel does not limit what control groups read and write (CONFIG_BLK_DEV_THROTTLING)"
        return "" if self.names() else "this machine shows no disk"

    def missing_counts(self) -> str:
        """Say why nothing is counted now; empty where something is."""
        if why := self.missing():
            return why
        if self.nested and not self._enabled():
            return "the control groups of this machine do not have the controller io"
        return "" if self.counted() else "this kernel counts the bytes of control groups only from their first limit on"

    def names(self) -> dict[str, str]:
        """Return number -> name of every disk, and of every volume that lies on disks."""
        names = {}
        for name in self._files.entries(BLOCK):
            if name.rstrip("0123456789") in NO_DISKS:
                continue
            try:
                if number_in(self._files.read(f"{BLOCK}/{name}/size"), f"{BLOCK}/{name}/size"):
                    names[self._files.read(f"{BLOCK}/{name}/dev").strip()] = name
            except KnobRefused:  # a path of a disk that has several, or one that was just taken out
                continue
        return names

    def counted(self) -> frozenset[str]:
        """Return the disks on which the kernel counts what groups read and write."""
        if self.nested:
            return frozenset(self.names())
        return frozenset(self._v1_bytes(f"{self._root()}/{COUNTED}")) & self.names().keys()

    def _v1_bytes(self, file: str) -> dict[str, int]:
        return _v1_bytes(self._files.read(file), file)

    def used(self, group: Group) -> dict[str, int]:
        """Return disk -> bytes that a group and those below it asked to read and to write; a disk that it never used is
        left out.

        Raises KnobRefused where that cannot be known.
        """
        directory = self.directory(group)
        if self.nested:
            return _v2_bytes(self._files.read(f"{directory}/{STAT}"), f"{directory}/{STAT}")
        below = self._files.exists(f"{directory}/{COUNTED_BELOW}")
        return self._v1_bytes(f"{directory}/{COUNTED_BELOW if below else COUNTED}")

    def limits(self, group: Group) -> dict[str, Limit]:
        """Return disk -> limit of a group itself; without a limit it has none here.  Raises KnobRefused."""
        directory = self.directory(group)
        if self.nested:
            return _v2_limits(self._files.read(f"{directory}/{MAX}"), f"{directory}/{MAX}")
        files = (f"{directory}/{name}" for name in (READ, WRITE))
        read, written = (_pairs(self._files.read(file), file) for file in files)
        return {disk: Limit(read.get(disk), written.get(disk)) for disk in (*read, *written)}

    def set(self, group: Group, disk: str, limit: Limit) -> None:
        """Limit a group on a disk, and read it back.  Raises KnobRefused, also where something else is there then."""
        directory = self.directory(group)
        if self.nested:
            words = (f"{key}={_text(bps)}" for key, bps in (("rbps", limit.read), ("wbps", limit.written)))
            self._files.write(f"{directory}/{MAX}", f"{disk} {' '.join(words)}")
        else:
            for name, bps in ((READ, limit.read), (WRITE, limit.written)):
                self._files.write(f"{directory}/{name}", f"{disk} {bps or 0}")
        now = self.limits(group).get(disk, FREE)
        if now != limit:
            raise KnobRefused(f"{directory}: {disk}", f"{limit} was written, and {now} is there")

    def lift(self, group: Group) -> None:
        """Take a group's limits away; a group that has gone has none.  Raises KnobRefused.

        A process whose reading or writing waits for its limit cannot be ended before, and one request can be so large
        that it waits for a minute.
        """
        if self.missing():
            return
        try:
            for disk in self.limits(group):
                self.set(group, disk, FREE)
        except KnobRefused:
            if self._files.exists(self._file_of_limits(group)):
                raise

    def directory(self, group: Group) -> str:
        return group[self._controller]

    def _file_of_limits(self, group: Group) -> str:
        return f"{self.directory(group)}/{MAX if self.nested else READ}"

    def _root(self) -> str:
        return self._cgroups.top("")[self._controller].rstrip("/")

    def _enabled(self) -> bool:
        return "io" in self._files.read(f"{self._root()}/cgroup.subtree_control").split()


def _text(bps: int | None) -> str:
    return "max" if bps is None else str(bps)


def _pairs(text: str, file: str) -> dict[str, int]:
    """Read lines such as "254:0 5000000".  Raises KnobRefused."""
    pairs = {}
    for disk, *words in filter(None, map(str.split, text.splitlines())):
        pairs[disk] = number_in(" ".join(words), file)
    return pairs


def _v1_bytes(text: str, file: str) -> dict[str, int]:
    """Read lines such as "254:0 Read 4096"; discards, which the total has too, are no bytes of the disk's.

    Raises KnobRefused.
    """
    counts: dict[str, int] = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 3 and words[1] in ("Read", "Write"):
            counts[words[0]] = counts.get(words[0], 0) + number_in(words[2], file)
    return counts


def _v2_values(text: str) -> dict[str, dict[str, str]]:
    """Read lines such as "254:0 rbytes=4096 wbytes=0"."""
    values = {}
    for disk, *words in filter(None, map(str.split, text.splitlines())):
        values[disk] = {key: value for key, _, value in (word.partition("=") for word in words)}
    return values


def _v2_bytes(text: str, file: str) -> dict[str, int]:
    return {
        disk: sum(number_in(values.get(key, "0"), file) for key in ("rbytes", "wbytes"))
        for disk, values in _v2_values(text).items()
    }


def _v2_limits(text: str, file: str) -> dict[str, Limit]:
    limits = {}
    for disk, values in _v2_values(text).items():
        read, written = (values.get(key, "max") for key in ("rbps", "wbps"))
        limits[disk] = Limit(*(None if bps == "max" else number_in(bps, file) for bps in (read, written)))
    return limits
